def gen():
    return flags(
        supported_major_versions=[9, 10, 12]  # and newer?
    )


def other():
    return flags(supported_major_versions=[9, 10])
