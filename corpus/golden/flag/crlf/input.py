def gen():
    flags = [
        "-O3",
    ]
    return flags
