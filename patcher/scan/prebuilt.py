"""Binary layer: prebuilt modules that win over their source."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from patcher.arch import DEVICE, ArchSet, Target
from patcher.errors import InputError
from patcher.gates import Cause, Effect, Evidence, Gate, Layer, Location, Severity, Worlds
from patcher.profiles.base import JitModule

if TYPE_CHECKING:
    from patcher.binary.fatbin import Code


def binary_layer(
    folders: Iterable[str], modules: Sequence[JitModule], root: Path, target: Target
) -> list[Gate]:
    """Prebuilt modules that win over their source and hold no code for the target."""
    from patcher.binary.fatbin import covers, targets_of

    gates = []
    for library, codes in prebuilt_code(folders, root):
        named = [m for m in modules if m.uri and re.fullmatch(m.uri, library.parent.name)]
        if named and codes and not covers(codes, target):
            gates.append(_gate(library, root, named[0], targets_of(codes), target))
    return gates


def prebuilt_code(folders: Iterable[str], root: Path) -> Iterator[tuple[Path, frozenset[Code]]]:
    """``MODULE/*.so`` below each folder, sorted, with the code each holds."""
    for folder in folders:
        for library in sorted((root / folder).glob("*/*.so")):
            from patcher.binary.fatbin import gpu_code

            try:
                yield library, gpu_code(library)
            except (InputError, OSError):
                continue


def _gate(
    library: Path, root: Path, module: JitModule, holds: Sequence[str], target: Target
) -> Gate:
    path = library.relative_to(root).as_posix() if library.is_relative_to(root) else str(library)
    text = f"holds {' '.join(holds)}, nothing for {target}"
    passed = ArchSet.of(*(name for name in holds if name.startswith("sm_")))
    return Gate(
        Layer.BINARY, "prebuilt-module", Location(path, 0, 0), f"code for {' '.join(holds)}",
        Worlds(open=passed, closed=DEVICE - passed), excludes_target=True,
        effect=Effect.FEATURE, cause=Cause.BINARY, severity=Severity.WARNING,
        evidence=(Evidence(path, 0, text),), modules=(module.name,),
    )
