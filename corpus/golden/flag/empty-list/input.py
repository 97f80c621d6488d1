def gen():
    flags = []
    return flags
