def gen():
    extra = ["-O3"]
    extra += ["-DGDC=1"]
    return build(flags=extra)
