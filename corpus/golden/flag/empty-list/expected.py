def gen():
    flags = ["-DGDC=1"]
    return flags
