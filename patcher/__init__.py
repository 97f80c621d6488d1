"""sm-patch: find, review and open the architecture gates that keep SM120/SM121 out."""

__version__ = "0.1.0"
