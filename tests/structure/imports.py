"""The modules of patcher and what each imports, read with ast: nothing is executed."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "patcher"


@dataclass(frozen=True)
class Module:
    """One source file; ``name`` is dotted, ``imports`` the patcher modules it names."""

    name: str
    path: Path
    tree: ast.Module
    imports: frozenset[str]
    external: frozenset[str]


@cache
def modules() -> dict[str, Module]:
    """Every module of the package, by dotted name."""
    files = {_dotted(path): path for path in sorted(PACKAGE.rglob("*.py"))}
    return {name: _read(name, path, files) for name, path in files.items()}


def _dotted(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _read(name: str, path: Path, files: dict[str, Path]) -> Module:
    tree = ast.parse(path.read_text("utf-8"), str(path))
    own: set[str] = set()
    external: set[str] = set()
    for imported, names in _imported(tree, name, path.name == "__init__.py"):
        if imported.partition(".")[0] != "patcher":
            external.add(imported.partition(".")[0])
            continue
        submodules = {f"{imported}.{each}" for each in names} & files.keys()
        own |= submodules or {imported}
    return Module(name, path, tree, frozenset(own - {name}), frozenset(external))


def _imported(tree: ast.Module, name: str, package: bool) -> Iterator[tuple[str, list[str]]]:
    """Module and names of every import, at any depth, but not those for type checkers only."""
    skipped = {
        id(node)
        for block in ast.walk(tree)
        if isinstance(block, ast.If) and "TYPE_CHECKING" in ast.unparse(block.test)
        for node in ast.walk(block)
    }
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.Import):
            yield from ((alias.name, []) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parent = name.split(".")[: None if package else -1]
                parent = parent[: len(parent) - (node.level - 1)]
                base = ".".join([*parent, *([base] if base else [])])
            yield base, [alias.name for alias in node.names]
