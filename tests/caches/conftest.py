"""One toy cache, built once by the real tools; each test gets it back as it was built."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.caches.workspace import Workspace, make, reset


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory, toolkit: Path, ninja: Path) -> Workspace:
    """A workspace with its module ``toy``; use ``workspace``, which undoes what tests do to it."""
    folder = tmp_path_factory.mktemp("cache")
    workspace = make(folder / "live", toolkit, ninja)
    shutil.copytree(folder / "live", folder / "pristine", symlinks=True)
    return workspace


@pytest.fixture
def workspace(built: Workspace) -> Iterator[Workspace]:
    """The built workspace at the same paths with the same times: build files name both."""
    yield built
    reset(built, built.site.parent.parent / "pristine")
