def gen(fast):
    flags = ["-O3", "-DGDC=1"]
    if fast:
        flags += ["-DGDC=1"]
    return flags
