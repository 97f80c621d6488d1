set(ARCHS 120a)
