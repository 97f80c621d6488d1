"""Headers that a toolkit made of wheels lacks, found by walking real include closures."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from shlex import quote

from patcher.cuda.model import Configuration, Missing, TranslationUnit
from patcher.doctor.markers import CCCL_MARKERS, cccl_version, dotted
from patcher.doctor.model import Repair, Result, Status, Surroundings
from patcher.package.metadata import parse_record
from patcher.toolchain.model import Toolkit
from patcher.tree import matching, plain_text

# What JIT units of this field include; each stands for the headers behind it.
PROBES = ("nv/target", "cuda/std/atomic", "cuda_fp16.h", "cooperative_groups.h", "cub/cub.cuh")
_CCCL = "nvidia-cuda-cccl"
_OWNERS = {"nv": _CCCL, "cuda": _CCCL, "cub": _CCCL, "thrust": _CCCL, "crt": "nvidia-cuda-crt"}
_RUNTIME = "nvidia-cuda-runtime"
_SHOWN, _FORETOLD = 6, 2


def toolkit_headers(surroundings: Surroundings) -> Iterable[Result]:
    """Walk a probe unit over each toolkit's own folders and name what is not found."""
    for toolkit in surroundings.toolkits:
        if toolkit.path is None or toolkit.nvcc is None:
            continue
        # without a host compiler its headers are missing too, which is another check's business
        missing = sorted((m for m in closure_gaps(toolkit, PROBES)
                          if toolkit.host.include or owner_of(m)), key=_by_cause)
        if missing:
            yield _gap(toolkit, missing, surroundings)
        else:
            yield Result("toolkit-headers", Status.OK, "the CUDA headers are complete",
                         (f"in {toolkit.path}",))


def closure_gaps(toolkit: Toolkit, includes: Iterable[str]) -> tuple[Missing, ...]:
    """The includes that a unit with these headers would not find in this toolkit."""
    from patcher.cuda.predefined import ToolkitMacros
    from patcher.cuda.store import Store
    from patcher.cuda.walk import Walker
    from patcher.tree import FolderTree

    content = "".join(f"#include <{name}>\n" for name in includes).encode()
    configuration = Configuration(
        "probe", include=toolkit.include, system=(*toolkit.system, *toolkit.host.include))
    unit = TranslationUnit("probe.cu", configuration, content=content)
    macros = ToolkitMacros(toolkit.version, toolkit.platform, toolkit.host.macros or None)
    walker = Walker(FolderTree(Path("/")), toolkit=macros, store=Store.default())
    return tuple(replace(m, include=m.include.strip('<>"')) for m in walker.walk(unit).missing)


def _is_probe(missing: Missing) -> bool:
    return missing.source.endswith("probe.cu")


def _by_cause(missing: Missing) -> tuple[bool, bool, str, int]:
    """What the toolkit's own headers lack first, and of that the lowest layer."""
    return (_is_probe(missing), not missing.include.startswith("nv/"), missing.source,
            missing.line)


def owner_of(missing: Missing) -> str:
    """The wheel that brings a header; "" when it is none of CUDA's."""
    first = missing.include.split("/")[0]
    if "/" in missing.include:
        return _OWNERS.get(first, "")
    return _RUNTIME if first.startswith(("cuda", "cooperative", "vector_", "device_")) else ""


def _gap(toolkit: Toolkit, missing: list[Missing], surroundings: Surroundings) -> Result:
    first = missing[0]
    owner = owner_of(first)
    source = first.source.removeprefix(f"{toolkit.path}/")
    place = "" if _is_probe(first) else f", which {source}:{first.line} includes"
    present = cccl_version([Path(f) for f in (*toolkit.include, *toolkit.system)])
    partial = owner == _CCCL and not present and "/detail/" in first.include
    detail = ": a partial copy of CCCL, of which only the whole set works" if partial else ""
    release = toolkit.tool or toolkit.version
    pin = ".".join(release.split(".")[:2])
    absent = f"; {owner} is not installed" if owner and not surroundings.version_of(owner) else ""
    wheels = (f"pip install '{owner}=={pin}.*'",) if owner else ()
    ours = surroundings.owns(toolkit.path) if toolkit.path else False
    mergeable = owner == _CCCL and not present and ours and _bundled(surroundings)
    patchset = "cuda-headers/cccl" if mergeable else None
    return Result(
        "toolkit-headers", Status.ERROR,
        f"{first.include} is missing{place}{detail}{absent}",
        (f"in {toolkit.path}", *(_expected(m, toolkit) for m in missing[:_FORETOLD]),
         *([f"and {len(missing) - _FORETOLD} more headers"] if len(missing) > _FORETOLD else []),
         *((f"a complete CCCL is {_bundled(surroundings)}",) if patchset else ())),
        Repair(patchset, wheels),
    )


def _expected(missing: Missing, toolkit: Toolkit) -> str:
    where = "x.cu" if _is_probe(missing) else missing.source.removeprefix(f"{toolkit.path}/")
    return (f"expect: {where}:{missing.line}: fatal error: {missing.include}: No such file or "
            "directory")


def _bundled(surroundings: Surroundings) -> Path | None:
    """A CCCL that another package carries (FlashInfer does from 0.6.10 on)."""
    package = surroundings.anywhere("flashinfer")
    folder = package / "data" / "cccl" if package else None
    return folder if folder and os.path.isdir(folder) else None


def mixed_cccl(surroundings: Surroundings) -> Iterable[Result]:
    """Two CCCLs laid over each other: single headers pass, others do not preprocess."""
    for toolkit in surroundings.toolkits:
        if toolkit.path is None:
            continue
        versions = {str(Path(folder) / marker): version
                    for folder in toolkit.include for marker in CCCL_MARKERS
                    if (version := cccl_version([Path(folder)], (marker,)))}
        if len(set(versions.values())) > 1:
            yield _mixed(toolkit, "has two CCCLs on its include path",
                         tuple(f"{dotted(v)} in {path}" for path, v in versions.items()))
        strange = list(_strangers(toolkit.path, surroundings))
        if strange:
            yield _mixed(toolkit, f"has files in its CCCL that its wheel did not bring or that "
                         f"changed since ({len(strange)})", tuple(strange[:_SHOWN]))


def _mixed(toolkit: Toolkit, what: str, evidence: tuple[str, ...]) -> Result:
    return Result(
        "toolkit-mixed-cccl", Status.ERROR, f"the CUDA toolkit {what}",
        (f"in {toolkit.path}", *evidence,
         ('expect: cuda/std/__host_stdlib/cstdio:24:17: error: missing binary operator before '
          'token "("')),
        Repair(commands=(f"rm -r {quote(str(toolkit.path))}/include/cccl",
                         f"pip install --force-reinstall --no-deps {_CCCL}")))


def _strangers(root: Path, surroundings: Surroundings) -> Iterator[str]:
    """Files of include/cccl that the RECORD of its wheel does not have, or not in that size."""
    owner = surroundings.distributions.get(_CCCL)
    folder = root / "include" / "cccl"
    if owner is None or owner.folder.parent not in root.parents or not os.path.isdir(folder):
        return
    record = parse_record(plain_text(owner.folder / "RECORD"))
    if not record:
        return
    for path in (p for p in matching(folder, "**/*") if os.path.isfile(p)):
        entry = record.get(path.relative_to(owner.folder.parent).as_posix())
        if entry is None or entry.size not in (None, path.stat().st_size):
            yield str(path)
