COMMON = ["-DGDC=1"]


def gen():
    flags = COMMON + ["-O3"]
    return flags
