def gen():
    flags = [
        "-O3",
        "-DGDC=1",
    ]
    return flags
