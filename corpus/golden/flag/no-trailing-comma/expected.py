def gen():
    flags = [
        '-O3',
        '-O2',  # twice
        '-DGDC=1',
    ]
    return flags
