"""Measure ourselves and the alternatives on the same inputs in one run; write docs/benchmarks.md.

CPU time (user and system) of whole process trees is what compares: the machine may be busy,
and wall time says little then. Nothing here is a test; a slow machine fails nothing.

    python -m bench.bench [--large] [--stack FOLDER] [--only WORD]...

With ``--large`` also flashinfer-python 0.7.4, for minutes; FOLDER is a site-packages with
SGLang, vLLM and FlashInfer. With ``--only`` the sections that have such a word in their
title, the others as they were measured last: for a machine that is quiet for minutes only.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from bench import units
from bench.cost import REPOSITORY, CommandFailed, cost
from bench.table import Row, Section, document, load, save

OUTPUT = REPOSITORY / "docs" / "benchmarks.md"
MEASURED = REPOSITORY / "build" / "bench.json"
STACK = ("sglang", "vllm", "flashinfer")
LARGE = units.UNPACKED / "flashinfer_python-0.7.4"
_HEADER = "flashinfer/data/include/flashinfer/comm/trtllm_allreduce.cuh"
_TOOL = [sys.executable, "-m", "patcher"]
_SAMPLE = 8  # every so manieth unit, where all would take minutes
_PARSE = ("import ast, pathlib, sys, warnings; warnings.simplefilter('ignore')\n"
          "for p in pathlib.Path(sys.argv[1]).rglob('*.py'): ast.parse(p.read_bytes())")
_GATES = ("import sys, pathlib; from patcher.tree import FolderTree\n"
          "from patcher.python.find import find_gates\n"
          "from patcher.room import roomy\n"
          "tree = FolderTree(pathlib.Path(sys.argv[1]))\n"
          "print(len(roomy(lambda: find_gates(tree, sys.argv[2]))))")
_EDIT = "#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 1300\n#define EDITED 1\n#endif\n"


def walking(folder: Path) -> Iterator[Row]:
    """The include graph and every condition of 152 units, against who reads the same files."""
    stubs = folder / "stubs"
    stubs.mkdir()
    missing = units.prepare(stubs)
    ours = {os.path.realpath(p) for report in units.walk_all(stubs) for p in report.files}
    yield Row("our walk", cost([sys.executable, "-m", "bench.units", stubs]),
              f"every known target and the host at once, every condition; {len(ours)} files, "
              f"{missing} of them empty stand-ins for headers that are not here")
    names = [f"clang-scan-deps{suffix}" for suffix in ("", "-21", "-20", "-19", "-18", "-14")]
    tool = next(filter(None, map(shutil.which, names)), None)
    if tool:
        database = units.compilation_database(stubs, folder / "commands.json")
        theirs, failed = units.headers_of(tool, database)
        more = [p for p in theirs - ours if "/lib/clang/" not in p]
        yield Row(f"`{Path(tool).name} -j 1`",
                  cost([tool, "-j", "1", f"-compilation-database={database}"]),
                  f"one target, no conditions; {len(theirs)} files, {len(more)} of them neither "
                  f"clang's own nor in our set; {failed} units given up")
    chosen = units.sources()[::_SAMPLE]
    for option, note in (("-M", "one target, files only"), ("-E", "one target, text only")):
        command = " ; ".join(" ".join([*units.flags(stubs, "gcc"), option, "-o",
                                       str(folder / "out"), str(units.RELEASE / source)])
                             for source in chosen)
        yield Row(f"`gcc {option}`, {len(chosen)} of the units",
                  cost(["sh", "-c", command], runs=1, accept=(0, 1)), note)


def scans(folder: Path, release: Path) -> Iterator[Row]:
    """The verb scan: cold, warm, for another target, and after an edit."""
    root = folder / "root"
    shutil.copytree(release, root, symlinks=True)
    scan = [*_TOOL, "scan", "flashinfer", "--root", str(root), "--arch", "sm_120a"]
    place = {"XDG_CACHE_HOME": str(folder / "cache")}
    yield Row("`scan`, empty cache", cost(scan, runs=1, environment=place),
              "all layers, all targets and the host")
    yield Row("`scan` again", cost(scan, environment=place), "unchanged; contents compared")
    if (root / _HEADER).is_file():
        with (root / _HEADER).open("a") as header:
            header.write(_EDIT)
        yield Row("`scan` after an edit", cost(scan, runs=1, environment=place),
                  "one header has a condition and a macro more")


def start() -> Iterator[Row]:
    """What a command costs before it does anything."""
    yield Row("`python -c pass`", cost([sys.executable, "-c", "pass"], runs=5), "the floor")
    yield Row("`sm-patch --help`", cost([*_TOOL, "--help"], runs=5))


def python_layer(release: Path, name: str = "flashinfer", runs: int = 1) -> Iterator[Row]:
    """Our Python gates against just parsing every file."""
    yield Row("Python gates, found and evaluated",
              cost([sys.executable, "-c", _GATES, release, name], runs=runs))
    yield Row("`ast.parse` of every file",
              cost([sys.executable, "-c", _PARSE, release / name], runs=runs), "no gates")
    if name == "flashinfer" and (grep := shutil.which("rg")):
        yield _grep(grep, release)


def _grep(grep: str, release: Path) -> Row:
    return Row("`rg -j 1 __CUDA_ARCH__` over the package",
               cost([grep, "-uuu", "-j", "1", "-c", "__CUDA_ARCH__", str(release)]),
               "lines of all files, no meaning")


def together(folder: Path, stack: Path) -> Iterator[Row]:
    """The verb scan for several packages that are installed beside each other."""
    scan = [*_TOOL, "scan", *STACK, "--root", str(stack), "--arch", "sm_120a"]
    place = {"XDG_CACHE_HOME": str(folder / "stack-cache")}
    yield Row("`scan`, empty cache", cost(scan, runs=1, environment=place), "all layers")
    yield Row("`scan` again", cost(scan, runs=1, environment=place), "unchanged")


def _machine() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text("utf-8")
    except OSError:
        return platform.machine()
    found = (line.partition(":")[2].strip() for line in text.splitlines()
             if line.startswith("model name"))
    return next(found, platform.machine())


def _sections(folder: Path, large: bool, stack: Path | None) -> Iterator[tuple[str, Iterator[Row]]]:
    """Titles (see ``bench.table.LIMITS``) and their rows, measured as they are asked for."""
    yield "Start", start()
    yield "Walk of 152 units of flashinfer-python 0.6.3 and the toolkit's headers", walking(folder)
    yield "Scan of flashinfer-python 0.6.3", scans(folder, units.RELEASE)
    yield "Python layer of flashinfer-python 0.6.3", python_layer(units.RELEASE)
    if large and LARGE.is_dir():
        again = folder / "large"
        again.mkdir()
        yield "Scan of flashinfer-python 0.7.4", scans(again, LARGE)
        yield "Python layer of flashinfer-python 0.7.4", python_layer(LARGE)
    if stack:
        named = ", ".join(_version(stack, name) for name in STACK)
        yield f"Scan together: {named}", together(folder, stack)
        for name in STACK[:2]:
            yield f"Python layer of {_version(stack, name)}", python_layer(stack, name)


def _version(stack: Path, name: str) -> str:
    """``vllm 0.33.0``, by the folder of its metadata."""
    found = sorted(stack.glob(f"{name}*.dist-info"))
    parts = found[0].name.removesuffix(".dist-info").split("-") if found else [name]
    return " ".join(parts).replace("_", "-")


def _measured(title: str, rows: Iterator[Row]) -> Section:
    load, done = os.getloadavg()[0], []
    try:
        for row in rows:
            print(f"{row.cost.cpu:8.2f}  {row.what}  ({row.note})", flush=True)
            done.append(row)
    except CommandFailed as error:
        print(f"bench: {error}", file=sys.stderr)
    return Section(title, load, tuple(done))


def main() -> int:
    """Measure, print and write the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--stack", type=Path)
    parser.add_argument("--only", action="append", default=[], metavar="WORD")
    arguments = parser.parse_args()
    if not units.RELEASE.is_dir():
        print("bench: run `make corpus` first", file=sys.stderr)
        return 1
    sections = load(MEASURED) if arguments.only else {}
    with TemporaryDirectory() as folder:
        for title, rows in _sections(Path(folder), arguments.large, arguments.stack):
            known = sections.pop(title, None)  # and put in again, in this order
            if not arguments.only or any(word in title for word in arguments.only):
                known = _measured(title, rows)
            if known is not None:
                sections[title] = known
                save(MEASURED, sections.values())
    machine = (f"{_machine()}, {len(os.sched_getaffinity(0))} cores, "
               f"Python {platform.python_version()}")
    OUTPUT.write_text(document(list(sections.values()), machine), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
