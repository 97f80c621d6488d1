"""The real compilers, and results kept apart from the user's."""

from __future__ import annotations

from pathlib import Path

import pytest

from patcher.toolchain.find import find_toolkit
from patcher.verify.compile import Compilers
from patcher.verify.store import Store
from patcher.verify.tools import find_tools


@pytest.fixture
def compilers(toolkit: Path) -> Compilers:
    """cicc and ptxas of the real toolkit."""
    return find_tools(find_toolkit(str(toolkit)), ()).compilers


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """A cache of results that begins empty."""
    return Store(tmp_path / "results")
