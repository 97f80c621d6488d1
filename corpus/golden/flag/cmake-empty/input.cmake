set(ARCHS)
