"""Patchsets: what one says (schema) and how it is read (load)."""
