def other():
    flags = ["-O3"]
    return flags
