def gen():
    """Calls flags(supported_major_versions=[9, 10])."""
    return 1
