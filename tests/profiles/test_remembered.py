"""Kept build specs: the same as evaluated ones, and never those of another tree."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from patcher.changes import Create, Modify
from patcher.cuda.store import Store
from patcher.profiles.flashinfer import remembered
from patcher.profiles.flashinfer.builds import BuildReader, Machine
from patcher.profiles.flashinfer.remembered import read_builds
from patcher.tree import ChangedTree
from tests.profiles.test_flashinfer import package

pytestmark = [pytest.mark.wheels, pytest.mark.slow]
MACHINE = Machine((13, 0), "/cuda", "/python/include", "/tvm", "/dlpack")
COMM = "flashinfer/jit/comm.py"


def test_kept_specs_follow_the_tree(unpacked: Callable[[str, str], Path], tmp_path: Path,
                                    monkeypatch: pytest.MonkeyPatch) -> None:
    wheel, store = package(unpacked, "0.6.3"), Store(tmp_path)
    reader = BuildReader(wheel, MACHINE)
    evaluated = (reader.default(), reader.specs())
    assert read_builds(wheel, MACHINE, store) == evaluated
    old = wheel.tree.read(COMM)
    trees = {"edited": ChangedTree(wheel.tree, [Modify(COMM, old, old.replace(
                 b"gen_jit_spec(\n        \"comm\"", b"gen_jit_spec(\n        \"other\""))]),
             "grown": ChangedTree(wheel.tree, [Create("flashinfer/jit/more.py", (
                 b"from .core import gen_jit_spec\n\ndef gen_more_module():\n"
                 b"    return gen_jit_spec(\"more\", [])\n"))])}
    expected = {name: BuildReader(replace(wheel, tree=tree), MACHINE).specs()
                for name, tree in trees.items()}
    for name, tree in trees.items():
        assert read_builds(replace(wheel, tree=tree), MACHINE, store)[1] == expected[name], name
    assert "more" in {spec.name for spec in expected["grown"]}

    def never(*_arguments: object) -> None:
        raise AssertionError("evaluated again")

    monkeypatch.setattr(remembered, "BuildReader", never)
    assert read_builds(replace(wheel, tree=trees["grown"]), MACHINE, store)[1] == expected["grown"]
    with pytest.raises(AssertionError, match="evaluated again"):
        read_builds(wheel, replace(MACHINE, cuda=(12, 9)), store)
