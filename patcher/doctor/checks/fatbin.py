"""Prebuilt code that no device of the target's kind can run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from shlex import quote

from patcher.arch import Target
from patcher.binary.demangle import readable
from patcher.binary.fatbin import FatBinary, fat_binaries, loaded
from patcher.binary.stubs import Stubs, stubs
from patcher.doctor.model import Repair, Result, Status, Surroundings
from patcher.errors import PatcherError

NO_CODE = ("expect, where it is used: CUDA error: no kernel image is available for execution on "
           "the device")
_SHOWN, _KERNELS = 6, 3
_ABORTS = ("expect: ERROR : Arch conditional MMA instruction used without targeting appropriate "
           "compute capability. Aborting.")


def gpu_code_of_extensions(surroundings: Surroundings) -> Iterable[Result]:
    """Each extension library with GPU code: how much of it is usable for each target?"""
    for name, paths in surroundings.libraries.extensions.items():
        held: dict[Path, Sequence[FatBinary]] = {}
        for path in paths:
            try:
                if binaries := fat_binaries(path):
                    held[path] = binaries
            except PatcherError as error:
                yield Result(f"gpu-code-{name}", Status.WARNING,
                             f"the GPU code of {path.name} cannot be read: {error.what}",
                             (str(path),))
        if held:
            yield from _of_package(name, held, surroundings)


def _of_package(name: str, held: dict[Path, Sequence[FatBinary]],
                surroundings: Surroundings) -> Iterator[Result]:
    for target in surroundings.targets:
        rows = [_Row.of(path, binaries, target) for path, binaries in held.items()]
        bad = [row for row in rows if row.usable < row.total]
        capability = target.capability
        identity = f"gpu-code-{name}"
        if not bad:
            yield Result(identity, Status.OK, f"{name} has code for {capability} in all of its "
                         f"{len(rows)} libraries", tuple(row.shown for row in rows[:_SHOWN]))
            continue
        dead = [row for row in rows if not row.usable]
        summary = (f"{name} has no code for {capability}" if len(dead) == len(rows) else
                   f"{len(dead)} of {len(rows)} libraries of {name} have no code for {capability}"
                   if dead else f"some kernels of {name} have no code for {capability}")
        yield Result(
            identity, Status.ERROR if len(dead) == len(rows) else Status.WARNING, summary,
            (*(row.shown for row in sorted(bad, key=lambda r: (r.usable > 0, r.path))[:_SHOWN]),
             NO_CODE),
            Repair(advice=("use a backend that compiles at run time, or build " + name +
                           f" from source with TORCH_CUDA_ARCH_LIST={capability}a",)))


@dataclass(frozen=True, slots=True)
class _Row:
    """One library: how many of its fat binaries a device can use, and what all of them hold."""

    path: Path
    usable: int
    total: int
    translated: int  # usable ones that have only PTX, which the driver compiles at first use
    codes: str

    @classmethod
    def of(cls, path: Path, binaries: Sequence[FatBinary], target: Target) -> _Row:
        entries = [entry for binary in binaries if (entry := loaded(binary, target))]
        codes = sorted({entry.code for binary in binaries for entry in binary})
        return cls(path, len(entries), len(binaries), sum(e.code.ptx for e in entries),
                   " ".join(map(str, codes)))

    @property
    def shown(self) -> str:
        ptx = f" ({self.translated} from PTX: a slow first start)" if self.translated else ""
        return f"{self.path.name}: {self.usable} of {self.total} usable{ptx}; holds {self.codes}"


def stub_kernels(surroundings: Surroundings) -> Iterable[Result]:
    """Kernels that are stubs for a target and real for others, where they can be measured.

    Compressed code is unpacked only for packages that are named: it takes a while.
    """
    for name, paths in surroundings.libraries.extensions.items():
        for target in surroundings.targets:
            found = Stubs()
            for path in paths:
                with suppress(PatcherError):  # reported above
                    found += stubs(path, fat_binaries(path), target,
                                   unpack=bool(surroundings.packages))
            yield from _stubs(name, target, found)


def _stubs(name: str, target: Target, found: Stubs) -> Iterator[Result]:
    kernels = found.found
    if kernels or found.aborting:
        count = len(kernels)
        do = "1 kernel does" if count == 1 else f"{count} kernels do"
        said = f"{do} nothing on {target.capability} and something elsewhere" if kernels else ""
        prints = (f"{_parts(found.aborting)} of its code can only say that it is not for "
                  f"{target.capability}, and stop") if found.aborting else ""
        yield Result(
            f"stub-kernels-{name}", Status.WARNING,
            f"{name}: " + "; ".join(filter(None, (said, prints))),
            (*list(dict.fromkeys(
                f"{readable(k.kernel)}: {k.size} bytes, {k.other_size} in {k.other}"
                for k in kernels))[:_KERNELS],
             "compiled away for this target: by a guard, or because nothing in it has an effect",
             *((_ABORTS,) if found.aborting else ())),
            Repair(commands=(f"sm-patch scan {quote(name)}",)))
    if found.unknown:
        yield Result(
            f"stub-kernels-{name}", Status.SKIPPED,
            f"{name}: {_parts(found.unknown)} of its code compressed, not measured for hollow "
            f"kernels on {target.capability}: sm-patch doctor {name} does, with "
            "pip install 'sm-patch[unpack]'")


def _parts(count: int) -> str:
    return "1 part" if count == 1 else f"{count} parts"
