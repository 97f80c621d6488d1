def gen():
    return flags(supported_major_versions=[9, 10])
