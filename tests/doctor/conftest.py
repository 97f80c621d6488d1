"""Real toolkits made of wheels, and copies of them that a test may change."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.doctor.trees import trees


@pytest.fixture(scope="session")
def tree() -> Callable[[str], Path]:
    """``tree("13.2-crt13.0")``: a site-packages with that toolkit; never write there."""

    def find(name: str) -> Path:
        try:
            return Path(trees.build(name))
        except subprocess.CalledProcessError:
            pytest.skip("the CUDA wheels are not here; run `make trees`")

    return find


@pytest.fixture
def site(tree: Callable[[str], Path], tmp_path: Path) -> Callable[..., Path]:
    """``site("13.2-bare", flashinfer)``: a private copy of a tree, with unpacked wheels in it."""

    def copy(name: str, *wheels: Path) -> Path:
        place = tmp_path / "site-packages"
        for source in (tree(name), *wheels):
            shutil.copytree(source, place, copy_function=trees.link, dirs_exist_ok=True)
        return place

    return copy
