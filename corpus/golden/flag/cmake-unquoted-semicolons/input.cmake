set(ARCHS 90a;100a)
