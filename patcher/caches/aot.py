"""Prebuilt modules of the environment that win over patched source.

FlashInfer loads ``<folder>/<module>/<module>.so`` where it exists without looking
at any source, and no variable turns that off (read in flashinfer_python 0.5.3 to
0.7.4, jit/core.py and jit/env.py). The only way past one is to move it aside.
"""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from patcher.arch import Target
from patcher.binary.fatbin import Code, covers, gpu_code
from patcher.caches.actions import Action, CacheAction, Touched
from patcher.changes import Move
from patcher.errors import InputError, UnsafePath

CACHE = "flashinfer_aot"
ASIDE = ".sm-patch-aside"


class AotPolicy(str, Enum):
    """What ``--aot`` says about modules that shadow patched source."""

    ASIDE = "aside"
    KEEP = "keep"


@dataclass(frozen=True, slots=True)
class AotModule:
    """A prebuilt module. ``code`` is None when the library cannot be read as one."""

    name: str
    library: Path
    code: frozenset[Code] | None

    @property
    def folder(self) -> Path:
        return self.library.parent

    def covers(self, target: Target) -> bool:
        """True when its code runs on the target; a library without GPU code runs anywhere."""
        return self.code is not None and (not self.code or covers(self.code, target))

    @property
    def archs(self) -> str:
        """The code it holds, for messages."""
        if self.code is None:
            return "unreadable"
        return " ".join(str(code) for code in sorted(self.code)) or "no GPU code"


def shadowing(folders: Iterable[Path], modules: Iterable[str]) -> Iterator[AotModule]:
    """The prebuilt modules with these names (or fnmatch patterns), folder by folder."""
    patterns = tuple(modules)
    for folder in folders:
        try:
            names = sorted(os.listdir(folder))
        except OSError:
            continue
        for name in names:
            library = folder / name / f"{name}.so"
            matches = any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)
            if matches and library.is_file():
                yield AotModule(name, library, _code(library))


def _code(library: Path) -> frozenset[Code] | None:
    try:
        return gpu_code(library)
    except (InputError, UnsafePath):
        return None


def aot_actions(touched: Touched, folders: Iterable[Path],
                policy: AotPolicy | None) -> tuple[CacheAction, ...]:
    """What to do with the modules that shadow this change: aside, keep, or advice."""
    names = touched.modules | touched.compiled
    return tuple(_action(module, Path(touched.root), policy)
                 for module in shadowing(folders, names))


def _action(module: AotModule, root: Path, policy: AotPolicy | None) -> CacheAction:
    says = f"prebuilt module ({module.archs}) wins over the patched source"
    if policy is AotPolicy.KEEP:
        return CacheAction(CACHE, str(module.library), Action.KEEP,
                           f"{says}: the patch has no effect for {module.name}")
    if policy is AotPolicy.ASIDE and _relative(module.folder, root) is not None:
        return CacheAction(CACHE, str(module.folder), Action.ASIDE, says, str(root))
    advice = "use --aot aside" if policy is None else "it lies outside the root; move it yourself"
    return CacheAction(CACHE, str(module.library), Action.ADVISE, f"{says}: {advice}")


def moves(actions: Iterable[CacheAction]) -> tuple[Move, ...]:
    """The changes by which apply carries out the ASIDE actions; ``invert`` brings them back."""
    found = []
    for action in actions:
        if action.action is Action.ASIDE:
            path = _relative(Path(action.path), Path(action.root))
            assert path is not None, action
            found.append(Move(path, path + ASIDE))
    return tuple(found)


def dropped_libraries(actions: Iterable[CacheAction]) -> list[str]:
    """The libraries that these actions took away, where they stand (or stood) now."""
    found = []
    for action in actions:
        if action.action is Action.ASIDE:
            found.append(f"{action.path}{ASIDE}/{os.path.basename(action.path)}.so")
        elif action.writes and action.path.endswith(".so"):
            found.append(action.path)
    return found


def _relative(path: Path, root: Path) -> str | None:
    """The package path; None when it is outside of root, also by a link."""
    try:
        path.resolve().relative_to(root.resolve())
        return path.relative_to(root).as_posix()
    except ValueError:
        return None
