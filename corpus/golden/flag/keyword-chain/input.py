def gen():
    return build(
        flags=base
        + [
            "-DENABLE_BF16",
            "-DENABLE_FP4",
        ],
    )
