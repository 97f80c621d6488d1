def gen():
    return build(flags=base + ["-DGDC=1"])
