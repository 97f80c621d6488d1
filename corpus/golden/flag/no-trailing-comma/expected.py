def gen():
    flags = [
        '-O3',
        '-O2',
        '-DGDC=1',  # twice
    ]
    return flags
