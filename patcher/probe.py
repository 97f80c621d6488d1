"""Measure the instruction table again with a real ptxas, and compare it with the shipped one.

Every probe (``data/probes.json``) is one small kernel. All kernels for a target
go through ptxas at once; those it rejects are taken out until the rest makes a
cubin, so that a whole target takes a handful of processes.

A body may use ``%p0-7`` predicates, ``%h0-15`` 16-bit, ``%r0-63`` 32-bit, ``%f0-31``
float, ``%d0-7`` double, ``%rd0-15`` 64-bit and ``%q0-3`` 128-bit registers. ``%r0``
and ``%r1`` hold addresses in shared memory, ``%rd5`` the generic form of the first,
``%rd1`` a global address, ``%rd4`` a generic address of a tensor map.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from patcher.arch import Target, known_targets
from patcher.errors import ToolFailed
from patcher.scratch import scratch

_DATA = Path(__file__).parent / "data"
_REGISTER = re.compile(r"%(p|h|r|f|d|rd|q)(\d+)\b")
_ERROR = re.compile(r"probe\.ptx, line (\d+)(?:; |\s*:\s*)(?:error|fatal)\s*:\s*([^\n]*)")
_KNOWN = re.compile(r"'(sm_\d+[af]?)'")
_VERSION = re.compile(r"V(\d+\.\d+\.\d+)")
_SECONDS = 300
_STORES = {"h": "b16", "r": "b32", "f": "f32", "d": "f64", "rd": "b64"}
# how a register gets a value the assembler cannot know; %r2 is the seed
_FILL = {"p": "setp.ne.u32 %p{n}, %r63, {n};", "h": "cvt.u16.u32 %h{n}, %r63;",
         "r": "add.u32 %r{n}, %r63, {n};", "f": "mov.b32 %f{n}, %r63;",
         "d": "cvt.rn.f64.s32 %d{n}, %r63;", "rd": "cvt.u64.u32 %rd{n}, %r63;", "q": ""}
_GIVEN = {("r", 0): "mov.u32 %r0, pool;", ("r", 1): "mov.u32 %r1, pool; add.u32 %r1, %r1, 8192;",
          ("rd", 4): "mov.b64 %rd3, map_{k}; cvta.param.u64 %rd4, %rd3;",
          ("rd", 5): "mov.u64 %rd5, pool; cvta.shared.u64 %rd5, %rd5;"}
_REGISTERS = (".reg .pred %p<8>; .reg .b16 %h<16>; .reg .b32 %r<64>; .reg .f32 %f<32>; "
              ".reg .f64 %d<8>; .reg .b64 %rd<16>;")


@dataclass(frozen=True, slots=True)
class Probe:
    """One feature's kernel; ``outputs`` are stored so that nothing is optimised away."""

    name: str
    body: str
    outputs: tuple[str, ...] = ()
    directives: tuple[str, ...] = ()
    pragma: str = ""


@dataclass(frozen=True, slots=True)
class Difference:
    """Where a measurement and the shipped table disagree; ``message`` is ptxas's own."""

    feature: str
    target: str
    measured: bool
    shipped: bool
    message: str


def probes() -> dict[str, list[Probe]]:
    """Every feature with its spellings, the usual one first."""
    rows = json.loads((_DATA / "probes.json").read_text("utf-8"))["probes"]
    found = {}
    for row in rows:
        rest = tuple(row.get("directives", ())), row.get("pragma", "")
        spellings = [row, *([row["alternative"]] if "alternative" in row else [])]
        found[row["name"]] = [Probe(row["name"], s["body"], tuple(s.get("outputs", ())), *rest)
                              for s in spellings]
    return found


@dataclass(frozen=True, slots=True)
class Assembler:
    """A ptxas, the PTX version it reads at most, and the targets it knows."""

    path: Path
    release: str
    isa: str
    targets: tuple[Target, ...]


def find_assembler(path: Path) -> Assembler:
    """Ask a ptxas what it knows; raises ToolFailed when it is none."""
    path = path.absolute()  # it runs in folders of its own
    shown = _ask([str(path), "--version"])
    version = _VERSION.search(shown)
    if version is None:
        raise ToolFailed("this is not a ptxas", where=str(path), next_step="name one: --ptxas PATH")
    names = set(_KNOWN.findall(_ask([str(path), "--help"])))
    targets = tuple(t for t in known_targets() if t.name in names)
    versions = json.loads((_DATA / "probes.json").read_text("utf-8"))["isa"]
    empty = Probe("", "")
    for isa in reversed(versions):
        if targets and not _assemble(path, isa, targets[-1], [empty])[0]:
            return Assembler(path, version[1], isa, targets)
    raise ToolFailed("this ptxas reads none of the PTX versions that are known here",
                     where=str(path), next_step="a release from 12.8 on is needed")


def _ask(command: list[str]) -> str:
    try:
        run = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60,
                             stdin=subprocess.DEVNULL, errors="replace")
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ToolFailed(f"cannot run it: {error}", where=command[0],
                         next_step="name a ptxas: --ptxas PATH") from error
    return run.stdout


def measure(assembler: Assembler, targets: Sequence[Target], jobs: int,
            progress: Callable[[int, int], None] = lambda done, total: None
            ) -> dict[str, dict[str, str]]:
    """Target -> feature -> ptxas's first error, empty when it accepts one of the spellings."""
    found: dict[str, dict[str, str]] = {}
    with ThreadPoolExecutor(jobs) as pool:
        results = pool.map(partial(_measure_target, assembler), targets)
        for count, (target, row) in enumerate(zip(targets, results, strict=True), 1):
            found[target.name] = row
            progress(count, len(targets))
    return found


def _measure_target(assembler: Assembler, target: Target) -> dict[str, str]:
    spellings = probes()
    errors = _reject(assembler, target, [each[0] for each in spellings.values()])
    second = [spellings[name][1] for name in errors if len(spellings[name]) > 1]
    still = _reject(assembler, target, second)
    for probe in second:
        if probe.name not in still:
            del errors[probe.name]
    return {name: errors.get(name, "") for name in spellings}


def _reject(assembler: Assembler, target: Target, some: Sequence[Probe]) -> dict[str, str]:
    """The probes that cannot be part of any cubin for this target, each with its error."""
    rejected: dict[str, str] = {}
    left = list(some)
    while left:
        failed, errors = _assemble(assembler.path, assembler.isa, target, left)
        if not failed:
            break
        if not errors:  # an error that names no line
            if len(left) == 1:
                return {**rejected, left[0].name: failed}
            middle = len(left) // 2
            for half in (left[:middle], left[middle:]):
                rejected |= _reject(assembler, target, half)
            break
        rejected |= errors
        left = [probe for probe in left if probe.name not in errors]
    return rejected


def _assemble(ptxas: Path, isa: str, target: Target, some: Sequence[Probe]
              ) -> tuple[str, dict[str, str]]:
    """(empty or the first error, errors by feature) of one ptxas run."""
    lines, owners = _render(isa, target, some)
    with scratch() as folder:
        source = folder / "probe.ptx"
        source.write_text("\n".join(lines) + "\n", "ascii")
        command = [str(ptxas), f"-arch={target.name}", "-m64", source.name, "-o", "probe.cubin"]
        try:
            run = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder,
                                 timeout=_SECONDS, stdin=subprocess.DEVNULL, errors="replace")
        except subprocess.TimeoutExpired:
            return f"ptxas took longer than {_SECONDS} s", {}
    if run.returncode == 0:
        return "", {}
    errors: dict[str, str] = {}
    for number, message in _ERROR.findall(run.stdout + run.stderr):
        owner = owners[int(number) - 1] if int(number) <= len(owners) else ""
        if owner:
            errors.setdefault(owner, message.strip())
    return (run.stderr + run.stdout).strip() or f"exit code {run.returncode}", errors


def _render(isa: str, target: Target, some: Iterable[Probe]) -> tuple[list[str], list[str]]:
    """The PTX, and for each of its lines the feature it belongs to."""
    lines = [f".version {isa}", f".target {target.name}", ".address_size 64"]
    owners = [""] * len(lines)
    for number, probe in enumerate(some):
        own = _kernel(number, probe)
        lines += own
        owners += [probe.name] * len(own)
    return lines, owners


def _kernel(number: int, probe: Probe) -> list[str]:
    used = sorted({(kind, int(n)) for kind, n in _REGISTER.findall(probe.body)})
    head = (f".visible .entry k{number}(.param .u64 out_{number}, .param .u32 seed_{number}, "
            f".param .align 64 .b8 map_{number}[128])")
    lines = [head, *probe.directives, "{"]
    lines += [probe.pragma] if probe.pragma else []
    lines += [_REGISTERS]
    lines += [".reg .b128 %q<4>;"] if any(kind == "q" for kind, _ in used) else []
    lines += [".shared .align 128 .b8 pool[16384];", f"ld.param.u64 %rd0, [out_{number}];",
              "cvta.to.global.u64 %rd1, %rd0;", f"ld.param.u32 %r63, [seed_{number}];"]
    for register in used:
        kind, n = register
        if register in _GIVEN:
            lines.append(_GIVEN[register].format(k=number))
        elif register not in (("rd", 0), ("rd", 1), ("rd", 3)):
            lines.append(_FILL[kind].format(n=n))
    lines += probe.body.splitlines()
    for place, output in enumerate(probe.outputs):
        lines += _store(output, place * 16)
    return [*lines, "ret;", "}"]


def _store(register: str, offset: int) -> list[str]:
    kind = register.rstrip("0123456789")
    if kind == "p":
        return [f"selp.u32 %r62, 1, 0, %{register};", f"st.global.u32 [%rd1+{offset}], %r62;"]
    return [f"st.global.{_STORES[kind]} [%rd1+{offset}], %{register};"]


def compare(measured: dict[str, dict[str, str]], release: str) -> list[Difference]:
    """Where the shipped table, read for this release, says something else."""
    from patcher.arch import target
    from patcher.instructions import Verdict, verdict

    found = []
    for name, row in measured.items():
        for feature, message in row.items():
            shipped = verdict(feature, target(name), release) is Verdict.ACCEPTED
            if shipped != (not message):
                found.append(Difference(feature, name, not message, shipped, message))
    return sorted(found, key=lambda d: (d.feature, d.target))
