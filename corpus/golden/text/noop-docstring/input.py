def f():
    """Say

    SIZE = {
    """
