def gen():
    return build(flags=base)
