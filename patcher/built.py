"""What stands built in the JIT caches: for which targets, and how much of it is hollow."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from patcher.binary.fatbin import gpu_code
from patcher.binary.sass import Body, bodies
from patcher.caches.invalidate import places
from patcher.caches.jit import module_folders
from patcher.errors import InputError, UnsafePath
from patcher.scratch import scratch

_SECONDS = 120  # for one library


@dataclass(frozen=True, slots=True)
class Built:
    """A library of a cache. ``idle`` counts kernels that return or trap at once, by target;
    None where nothing could tell."""

    cache: str
    path: Path
    archs: tuple[str, ...]
    idle: Mapping[str, int] | None
    reason: str = ""

    def public(self) -> dict[str, Any]:
        """The fields of ``status --built``."""
        return {"cache": self.cache, "path": str(self.path), "archs": list(self.archs),
                "hollow": dict(self.idle) if self.idle is not None else None,
                "reason": self.reason}


def built_libraries(packages: Iterable[str], environ: Mapping[str, str],
                    folders: Iterable[Path]) -> Iterator[Built]:
    """Every library that these packages have in the caches; cuobjdump is looked for in ``folders``
    first. Libraries are read, never loaded."""
    tool = _cuobjdump(folders)
    seen = set()
    for package in packages:
        for place, specs in places(package, environ).items():
            for spec in specs:
                found = (one.path for one in module_folders(spec, place) if not one.link)
                for library in sorted(path for folder in found for path in folder.glob("*.so")):
                    if library not in seen:
                        seen.add(library)
                        yield _read(spec.id, library, tool)


def _cuobjdump(folders: Iterable[Path]) -> str | None:
    for folder in folders:
        if (folder / "cuobjdump").is_file():
            return str(folder / "cuobjdump")
    return shutil.which("cuobjdump")


def _read(cache: str, library: Path, tool: str | None) -> Built:
    try:
        archs = tuple(str(code) for code in sorted(gpu_code(library)))
        if tool is None:
            return Built(cache, library, archs, None, "cuobjdump is not here to look into it")
        return Built(cache, library, archs, _idle(library, tool))
    except (InputError, UnsafePath) as error:
        return Built(cache, library, (), None, str(error))


def _idle(library: Path, tool: str) -> dict[str, int]:
    """Kernels that do nothing, by target; raises InputError when the tool cannot read it."""
    counts: dict[str, int] = {}
    with scratch() as folder:
        try:
            subprocess.run([tool, "-xelf", "all", str(library.absolute())], cwd=folder,
                           check=True, capture_output=True, timeout=_SECONDS)
        except (OSError, subprocess.SubprocessError) as error:
            raise InputError(f"cuobjdump cannot read it: {error}", where=str(library)) from error
        for cubin in sorted(folder.iterdir()):
            # cuobjdump names them LIBRARY.N.TARGET.cubin
            target = cubin.name.split(".")[-2]
            idle = sum(body is not Body.CODE for _, body in bodies(cubin))
            counts[target] = counts.get(target, 0) + idle
    return counts
