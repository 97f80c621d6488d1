"""``corpus/trees.py`` as a module for tests."""

from __future__ import annotations

import sys

from tests.conftest import REPOSITORY

sys.path.insert(0, str(REPOSITORY / "corpus"))
try:
    import trees as trees  # type: ignore[import-not-found]
finally:
    sys.path.pop(0)
