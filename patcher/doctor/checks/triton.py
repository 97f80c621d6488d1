"""The ptxas that Triton will run for a device, by its version, and whether it knows the target."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from shlex import quote
from typing import Any

from patcher.binary.loader import ld_cache
from patcher.binary.ptxas import Ptxas, read_ptxas
from patcher.doctor.model import Repair, Result, Status, Surroundings
from patcher.errors import InputError

_DATA = Path(__file__).parents[2] / "data" / "triton.json"
_BIN = Path("backends/nvidia/bin")
_LDCONFIG = Path("/sbin/ldconfig")  # the only one that Triton runs


@dataclass(frozen=True, slots=True)
class Choice:
    """The bundled file Triton takes, and the variable that names another in its place."""

    file: str
    variable: str


def choice(version: str, number: int) -> Choice:
    """What ``get_ptxas`` of a Triton version takes for a device of capability ``number`` / 10."""
    from packaging.version import InvalidVersion, Version

    try:
        release = Version(version)
    except InvalidVersion:
        release = Version("9999")  # of a build from source; the newest rule is the best guess
    row = [row for row in _rows() if Version(row["since"]) <= release][-1]
    tool = next(tool for tool in row["tools"] if tool["from"] <= number)
    return Choice(tool["file"], tool["variable"])


@cache
def _rows() -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(_DATA.read_text("utf-8"))["ptxas"]
    return rows


def triton_ptxas(surroundings: Surroundings) -> Iterable[Result]:
    """One result per target; nothing when Triton is not installed or not asked about."""
    folder, version = surroundings.anywhere("triton"), surroundings.version_of("triton")
    if folder is None or not os.path.isdir(folder / _BIN):
        return
    for target in surroundings.targets:
        if target.number < 90:
            continue  # every ptxas that a wheel holds knows these
        wanted = f"sm_{target.number}a"  # what Triton builds from 9.0 on (compiler.py)
        chosen = choice(version or "", target.number)
        yield _of_target(folder, version or "of unknown version", wanted, chosen, surroundings)


def _of_target(folder: Path, version: str, wanted: str, chosen: Choice,
               surroundings: Surroundings) -> Result:
    path = folder / _BIN / chosen.file
    named = surroundings.variables.get(chosen.variable)
    if named and os.path.isfile(Path(named)):
        path = Path(named)
    try:
        tool = read_ptxas(path)
    except InputError as error:
        return Result("triton-ptxas", Status.ERROR,
                      f"Triton {version} would run {path.name} for {wanted}, and it is not usable",
                      (str(error),), Repair(commands=("pip install --force-reinstall triton",)))
    said = f"Triton {version} runs {path.name} {tool.version} for {wanted}"
    if wanted in tool.targets:
        return Result("triton-ptxas", Status.OK, f"{said}, which it knows", (str(path),))
    newer = [t for t in _others(surroundings) if wanted in t.targets]
    env = "env " if "-" in chosen.variable else "export "
    commands = (*(f"{env}{chosen.variable}={quote(str(t.path))}" for t in newer[:1]),
                "pip install 'triton>=3.6'")
    return Result(
        "triton-ptxas", Status.ERROR, f"{said}, which it does not know",
        (str(path), (f"expect: {path.name} fatal : Value '{wanted}' is not defined for option "
         "'gpu-name'")), Repair(commands=commands))


def _others(surroundings: Surroundings) -> Iterator[Ptxas]:
    for toolkit in surroundings.toolkits:
        try:
            yield read_ptxas((toolkit.path or Path()) / "bin" / "ptxas")
        except InputError:
            continue


def driver_for_triton(surroundings: Surroundings) -> Iterable[Result]:
    """libcuda.so.1 as Triton looks for it: its variable, ldconfig, LD_LIBRARY_PATH."""
    if surroundings.anywhere("triton") is None or surroundings.environment.root is not None:
        return
    variables: Mapping[str, str] = surroundings.variables
    if named := variables.get("TRITON_LIBCUDA_PATH"):
        places = [Path(named)]
    else:
        cached = ld_cache().get("libcuda.so.1")
        folders = (variables.get("LD_LIBRARY_PATH") or "").split(":")
        places = [cached.parent] if cached else [Path(folder) for folder in folders if folder]
    if not named and not os.path.exists(_LDCONFIG):
        yield Result("triton-libcuda", Status.ERROR,
                     "there is no /sbin/ldconfig, which Triton runs to find the driver",
                     ("expect: FileNotFoundError: '/sbin/ldconfig'",),
                     Repair(commands=("apt-get install libc-bin",
                                      "export TRITON_LIBCUDA_PATH=FOLDER_OF_LIBCUDA")))
        return
    if found := next((p for p in places if os.path.exists(p / "libcuda.so.1")), None):
        yield Result("triton-libcuda", Status.OK, f"Triton finds the driver in {found}")
        return
    status = Status.ERROR if surroundings.gpus else Status.SKIPPED
    yield Result(
        "triton-libcuda", status,
        "Triton will not find libcuda.so.1" + ("" if surroundings.gpus else " (no GPU here)"),
        ("expect: AssertionError: libcuda.so cannot found!",),
        Repair(commands=("/sbin/ldconfig", "export TRITON_LIBCUDA_PATH=FOLDER_OF_LIBCUDA")))
