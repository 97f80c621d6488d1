def gen():
    flags = ["-DGDC=0"]
    return flags
