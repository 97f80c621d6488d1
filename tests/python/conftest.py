"""Miniature packages written for these tests."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path

import pytest

from patcher.arch import DEVICE, ArchSet, Capability
from patcher.python.evaluate import Evaluator
from patcher.python.index import Index
from patcher.python.values import truth_of
from patcher.tree import FolderTree

Write = Callable[[dict[str, str]], FolderTree]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """``write({"pkg/utils.py": "..."})``: a tree with these files."""

    def make(files: dict[str, str]) -> FolderTree:
        for path, text in files.items():
            target = tmp_path / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(text.encode())
        return FolderTree(tmp_path)

    return make


class Asked:
    """What an expression at the end of a module is, as capability strings."""

    def __init__(self, tree: FolderTree, path: str) -> None:
        self.evaluator = Evaluator(Index(tree, path))
        module = self.evaluator.index.at(path)
        assert module is not None
        self.scope = self.evaluator.module_scope(module)

    def __call__(self, expression: str) -> tuple[list[str], list[str]]:
        """Capabilities for which it is true, and those for which nobody knows."""
        value = self.evaluator.value(ast.parse(expression, mode="eval").body, self.scope)
        truth = truth_of(value)
        return names(truth.true), names(DEVICE - truth.true - truth.false)


def names(worlds: ArchSet) -> list[str]:
    return [str(capability) for capability in worlds.capabilities]


@pytest.fixture
def ask(write: Write) -> Callable[..., Asked]:
    """``ask({...files...}, "pkg/a.py")``: evaluate expressions in that module."""
    return lambda files, path="pkg/a.py": Asked(write(files), path)


def capabilities(*texts: str) -> ArchSet:
    return ArchSet.of(*map(Capability.parse, texts))
