def gen(fast):
    flags = ["-O3"]
    if fast:
        flags += ["-DGDC=1"]
    return flags
