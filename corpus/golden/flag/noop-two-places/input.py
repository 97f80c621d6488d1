def gen():
    flags = ["-O3"]
    flags = ["-O2"]
    return flags
