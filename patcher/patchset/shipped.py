"""Where the patchsets are that come with sm-patch; light, as every scan asks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

_TEST_SUFFIX = ".test.yaml"


def shipped() -> dict[str, Path]:
    """The patchsets that come with sm-patch, by name."""
    return {path.stem: path for path in _shipped_files()}


def _shipped_files() -> Iterator[Path]:
    package = Path(__file__).resolve().parent.parent
    # the wheel carries them inside the package, a checkout beside it
    for folder in (package / "_patchsets", package.parent / "patchsets"):
        if folder.is_dir():
            yield from sorted(path for path in folder.glob("*.yaml")
                              if not path.name.endswith(_TEST_SUFFIX))
            return
