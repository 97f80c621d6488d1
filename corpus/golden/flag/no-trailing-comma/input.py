def gen():
    flags = [
        '-O3',
        '-O2'  # twice
    ]
    return flags
