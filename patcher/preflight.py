"""What a change makes reachable, asked before anything is written.

Opening a gate can turn a clean refusal into something worse: the gate raises before
the prebuilt module is looked up, and before any JIT build starts.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from fnmatch import fnmatchcase
from pathlib import Path

from patcher.arch import Target
from patcher.caches.aot import AotModule, AotPolicy
from patcher.caches.includes import Includes
from patcher.errors import Refused
from patcher.toolchain.model import Toolkit

# The table of targets was measured from CUDA 12.8 on; that release added 10.0 and 12.0
# (CUDA 12.8 release notes), so whatever is older knows none of them.
_BLACKWELL = "12.8"


class Trouble(str, Enum):
    """What would go wrong once the gate is open."""

    AOT_WITHOUT_CODE = "aot-without-code"
    NO_NVCC = "no-nvcc"
    NO_NINJA = "no-ninja"
    NO_HEADERS = "no-headers"
    CUDA_TOO_OLD = "cuda-too-old"


@dataclass(frozen=True, slots=True)
class Finding:
    """One trouble; ``ways_out`` are commands or options that end it."""

    trouble: Trouble
    module: str
    summary: str
    ways_out: tuple[str, ...]


class PreflightRefused(Refused):
    """A change in a live environment would make something worse reachable."""

    def __init__(self, findings: Sequence[Finding]) -> None:
        more = f" (and {len(findings) - 1} more)" if len(findings) > 1 else ""
        first = findings[0]
        ways = dict.fromkeys(way for finding in findings for way in finding.ways_out)
        super().__init__(f"{first.module}: {first.summary}{more}",
                         next_step="; or ".join([*ways, "--force"]))
        self.findings = tuple(findings)


@dataclass(frozen=True, slots=True)
class OpenedModule:
    """A JIT module whose gate the change opens.

    ``sources`` are absolute paths, each with the folders it is compiled with, in
    order; empty when they are not known, and then headers are not judged.
    """

    name: str
    sources: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Builder:
    """What the run-time machine has for a JIT build. ``ninja`` is None when it has none."""

    toolkit: Toolkit
    ninja: Path | None


def find_ninja(folders: Iterable[Path], environ: Mapping[str, str]) -> Path | None:
    """The ninja that a build would run: on PATH, else beside the environment's interpreter."""
    search = [environ.get("PATH", os.defpath), *map(str, folders)]
    found = shutil.which("ninja", path=os.pathsep.join(search))
    return Path(found) if found else None


def preflight(opened: Iterable[OpenedModule], targets: Sequence[Target], builder: Builder,
              prebuilt: Iterable[AotModule], policy: AotPolicy | None = None,
              ) -> tuple[Finding, ...]:
    """Everything that these opened modules run into on these targets.

    ``prebuilt`` are the modules that ``aot.shadowing`` finds for their names. A
    module that covers every target is loaded as it is and needs no build; one
    that goes aside is replaced by a build.
    """
    shadows = {} if policy is AotPolicy.ASIDE else {module.name: module for module in prebuilt}
    includes = Includes()
    findings: list[Finding] = []
    for module in opened:
        names = [name for name in shadows if fnmatchcase(name, module.name)]
        lacking = [finding for name in names for finding in _without_code(shadows[name], targets)]
        findings += lacking
        if not names:
            findings += _build(module, targets, builder, includes)
    return tuple(dict.fromkeys(findings))


def enforce(findings: Sequence[Finding], *, live: bool, force: bool) -> None:
    """Refuse in a live environment; elsewhere the run-time machine is unknown and they only warn.

    Raises PreflightRefused.
    """
    if findings and live and not force:
        raise PreflightRefused(findings)


def _without_code(module: AotModule, targets: Sequence[Target]) -> Iterator[Finding]:
    missing = [target.name for target in targets if not module.covers(target)]
    if missing:
        yield Finding(
            Trouble.AOT_WITHOUT_CODE, module.name,
            f"the prebuilt {module.library} becomes reachable and has no code for "
            f"{', '.join(missing)} (it holds {module.archs})",
            ("--aot aside",))


def _build(module: OpenedModule, targets: Sequence[Target], builder: Builder,
           includes: Includes) -> Iterator[Finding]:
    toolkit = builder.toolkit
    if toolkit.nvcc is None:
        yield _tool(Trouble.NO_NVCC, module, "nvcc", ("--cuda PATH",))
    if builder.ninja is None:
        yield _tool(Trouble.NO_NINJA, module, "ninja")
    for target in targets:
        since = target.since or (_BLACKWELL if target.number >= 100 else None)
        if since and toolkit.nvcc and toolkit.release < _release(since):
            yield Finding(
                Trouble.CUDA_TOO_OLD, module.name,
                f"its JIT build for {target.name} needs CUDA {since} or newer, "
                f"and this is {toolkit.version} ({toolkit.path})",
                (f"install CUDA {since}", "--cuda PATH"))
    if toolkit.nvcc is not None:
        yield from _headers(module, toolkit, includes)


def _tool(trouble: Trouble, module: OpenedModule, tool: str,
          ways: tuple[str, ...] = ()) -> Finding:
    package = _requirements()["tools"][tool]
    return Finding(trouble, module.name, f"a JIT build would start, and there is no {tool}",
                   (f"pip install {package}", *ways))


def _headers(module: OpenedModule, toolkit: Toolkit, includes: Includes) -> Iterator[Finding]:
    """Headers of known libraries that its sources name and no folder has.

    Conditions are not evaluated, so only libraries that need a package of their
    own are judged; an include of our own package that is missing is no matter
    of the machine.
    """
    owners = _requirements()["headers"]
    missing: set[str] = set()
    for source, folders in module.sources.items():
        search = (*folders, *toolkit.include, *toolkit.system, *toolkit.host.include)
        missing |= includes.closure(source, search).missing
    wanted = sorted(name for name in missing if name in owners)
    if wanted:
        packages = " ".join(sorted({owners[name] for name in wanted}))
        yield Finding(Trouble.NO_HEADERS, module.name,
                      f"its JIT build includes {', '.join(wanted)}, which no folder has",
                      (f"pip install {packages}",))


def _release(version: str) -> tuple[int, int]:
    major, minor = version.split(".")[:2]
    return int(major), int(minor)


def _requirements() -> dict[str, dict[str, str]]:
    path = Path(__file__).parent / "data" / "requirements.json"
    document = json.loads(path.read_text("utf-8"))
    return {"headers": document["headers"], "tools": document["tools"]}
