"""A file whose writes are counted, cut short or recorded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Watched:
    """A file, with another function in place of its ``write``."""

    def __init__(self, file: Any, write: Callable[[bytes], int]) -> None:
        self._file, self.write = file, write

    def __enter__(self) -> Watched:
        return self

    def __exit__(self, *_error: object) -> None:
        self._file.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)
