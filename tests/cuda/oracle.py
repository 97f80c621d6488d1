"""What the real compiler keeps of a source, to hold the walker against.

A marker line follows every conditional directive of a shadow copy; the markers
that come out of nvcc's own preprocessor calls are the lines that are compiled.
Device passes are those of ``-gencode arch=compute_X,code=sm_X`` (plain ``-arch``
runs another pass first), the host pass is replayed from ``--dryrun``.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from patcher.arch import HOST_BIT, target
from patcher.cuda.directives import SourceFile, parse
from patcher.cuda.lexer import CONDITIONAL, directives
from patcher.cuda.model import UNREACHED, Configuration, Context, TranslationUnit, UnitReport
from patcher.cuda.walk import Walker
from patcher.tree import FolderTree

WORLDS = ("host", "sm_80", "sm_90a", "sm_100a", "sm_103a", "sm_120", "sm_120a", "sm_120f",
          "sm_121a")
MARK = "sm_patch_mark_"
_LINE = re.compile(r'^ *# (\d+) "((?:[^"\\]|\\.)*)"')
_MARK = re.compile(MARK + r"(\d+)")

Marks = dict[str, set[int]]  # path -> lines whose marker came out


@cache
def toolkit() -> Path:
    """The folder nvcc takes its headers from."""
    run = subprocess.run(["nvcc", "--dryrun", "-c", "x.cu"], capture_output=True, text=True,
                         check=True)
    top = next(s for s in run.stderr.splitlines() if s.startswith("#$ TOP=")).partition("=")[2]
    return Path(top).resolve() / "targets" / "x86_64-linux" / "include"


@cache
def host_folders() -> tuple[str, ...]:
    """gcc's own include folders, in order."""
    run = subprocess.run(["gcc", "-x", "c++", "-E", "-v", "-"], input="", capture_output=True,
                         text=True, check=True)
    block = run.stderr.split("> search starts here:\n", 1)[1].split("End of search", 1)[0]
    return tuple(os.path.normpath(line.strip()) for line in block.splitlines())


def configuration(include: Iterable[str] = (), defines: Iterable[tuple[str, str]] = (), *,
                  system: Iterable[str] = (), std: str = "c++17",
                  forced: tuple[str, ...] = ("cuda_runtime.h",)) -> Configuration:
    """As nvcc orders it: -I, the toolkit, -isystem, CCCL, the host compiler."""
    return Configuration(
        id="oracle", include=(*include, str(toolkit())), defines=tuple(defines), std=std,
        system=(*system, str(toolkit() / "cccl"), *host_folders()), forced=forced)


def mark(data: bytes) -> bytes:
    """The file with a marker line after each conditional directive, and one at its top."""
    ends = [item.end_line for item in directives(data) if item.name in CONDITIONAL]
    lines = data.split(b"\n")
    out = [f"{MARK}0".encode()]
    position = 0
    for end in ends:
        out += [*lines[position:end], f"{MARK}{end}".encode()]
        position = end
    return b"\n".join([*out, *lines[position:]])


def shadow(root: Path, folders: Iterable[str], into: Path) -> None:
    """A copy of these folders with markers; all mtimes are equal, as gcc compares them."""
    for folder in folders:
        for here, _, names in os.walk(root / folder):
            there = into / Path(here).relative_to(root)
            there.mkdir(parents=True, exist_ok=True)
            for name in names:
                data = (Path(here) / name).read_bytes()
                (there / name).write_bytes(mark(data))
                os.utime(there / name, (1, 1))


@contextmanager
def written(files: Mapping[str, str]) -> Iterator[tuple[FolderTree, Path]]:
    """Files as a tree for the walker, and their copy with markers for a compiler."""
    with TemporaryDirectory() as folder:
        plain, marked = Path(folder) / "plain", Path(folder) / "marked"
        plain.mkdir()
        for name, text in files.items():
            (plain / name).parent.mkdir(parents=True, exist_ok=True)
            (plain / name).write_text(text)
        shadow(plain, ["."], marked)
        yield FolderTree(plain), marked


@cache
def _dry_run(flags: tuple[str, ...], std: str, world: str) -> list[str]:
    gencode = target("sm_75" if world == "host" else world).gencode
    run = subprocess.run(["nvcc", "--dryrun", f"-std={std}", *flags, gencode, "-c", "unit.cu"],
                         capture_output=True, text=True, check=True)
    wanted = ".cpp4.ii" if world == "host" else ".cpp1.ii"
    line = next(s for s in run.stderr.splitlines() if "gcc" in s and wanted in s)
    command = shlex.split(line.removeprefix("#$ "))
    return command[: command.index("unit.cu")]


@dataclass(frozen=True)
class Oracle:
    """Preprocesses units below ``root``, where the configuration's relative paths lead.

    ``as_written`` leaves the text alone: a macro that drops its argument must not drop the
    marker in it. (gcc knows no ``%:`` then.)
    """

    root: Path
    configuration: Configuration
    as_written: bool = False

    def commands(self, unit: str, world: str) -> list[str]:
        """The preprocessor call of nvcc for that world's pass."""
        own = {str(toolkit()), str(toolkit() / "cccl"), *host_folders()}
        flags = [f"-I{f}" for f in self.configuration.include if f not in own]
        for folder in self.configuration.system:
            flags += ["-isystem", folder] if folder not in own else []
        flags += [f"-D{n}={v}" for n, v in self.configuration.defines]
        for header in self.configuration.forced[1:]:  # the first is nvcc's own
            flags += ["-include", header]
        call = _dry_run(tuple(flags), self.configuration.std, world)
        return [*call, *(["-fdirectives-only"] if self.as_written else []), unit]

    def preprocess(self, unit: str, world: str) -> str:
        """Of the text that the compiler proper sees, the lines that tell where they are from
        and the markers; errors of the source do not end it."""
        with subprocess.Popen(self.commands(unit, world), cwd=self.root, stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL) as compiler:
            told = subprocess.run(["grep", "-aE", f'^ *# [0-9]+ "|{MARK}'],
                                  stdin=compiler.stdout, capture_output=True, check=False)
        # gcc names a system header by its real path where that is shorter
        return told.stdout.decode("latin-1").replace(f'"{self.root.resolve()}/', '"')

    def marks(self, unit: str, world: str) -> tuple[Marks, set[str]]:
        """The markers that came out, and every file that was entered."""
        return read_marks(self.preprocess(unit, world))


def read_marks(text: str) -> tuple[Marks, set[str]]:
    sequence, files = read_sequence(text)
    marks: Marks = {}
    for path, line in sequence:
        marks.setdefault(path, set()).add(line)
    return marks, files


def read_sequence(text: str) -> tuple[list[tuple[str, int]], set[str]]:
    """The markers in the order in which they came out, and every file that was entered."""
    found: list[tuple[str, int]] = []
    names: dict[str, str] = {}
    here = ""
    for line in text.split("\n"):
        if match := _LINE.match(line):  # after an indented #include, -fdirectives-only indents it
            here = names.get(match[2]) or names.setdefault(match[2], os.path.normpath(match[2]))
        elif MARK in line:
            found += [(here, int(number)) for number in _MARK.findall(line)]
    return found, {f for f in names.values() if not f.startswith("<")}


def world_bit(world: str) -> int:
    return HOST_BIT if world == "host" else 1 << target(world).index


def live_marks(report: UnitReport, tree: FolderTree, bit: int, paths: Iterable[str],
               ) -> dict[str, set[int]]:
    """The markers that the walker says one world compiles."""
    found: dict[str, set[int]] = {}
    for path in paths:
        source = parse(tree.read(path))
        for context in report.contexts.get(path, ()):
            if context.worlds & bit:
                found.setdefault(path, set()).update(_live_in(source, context, bit))
    return found


def _live_in(source: SourceFile, context: Context, bit: int) -> Iterator[int]:
    yield 0
    for ladder in source.ladders:
        for arm in ladder.arms:
            if context.arms.get(arm.line, UNREACHED).open & bit:
                yield arm.body_line - 1
        outside = context.arms.get(ladder.parent, UNREACHED).open if ladder.parent else bit
        if outside & bit and ladder.end_line in source.ends:
            yield source.ends[ladder.end_line] - 1


def disagreements(tree: FolderTree, oracle: Oracle, unit: str, world: str, report: UnitReport,
                  ) -> list[str]:
    """What the compiler and the walker see differently in one world; empty is agreement."""
    marks, entered = oracle.marks(unit, world)
    bit = world_bit(world)
    mine = {path for path, contexts in report.contexts.items()
            if any(c.worlds & bit for c in contexts)}
    real = {path for path in entered if path != "." and not path.startswith("<")}
    real = {str(Path(os.path.realpath(p))) if p.startswith("/") else p for p in real}
    own = {str(Path(os.path.realpath(p))) if p.startswith("/") else p for p in mine}
    found = [f"{world}: only the compiler reads {p}" for p in sorted(real - own) if "." in p]
    found += [f"{world}: only the walker reads {p}" for p in sorted(own - real)]
    inside = [p for p in mine if not p.startswith("/")]
    ours = live_marks(report, tree, bit, inside)
    for path in inside:
        mine_only = ours.get(path, set()) - marks.get(path, set())
        real_only = marks.get(path, set()) - ours.get(path, set())
        for who, lines in (("walker", mine_only), ("compiler", real_only)):
            found += [f"{world}: {path}:{n}: only the {who} compiles this" for n in sorted(lines)]
    return found


def compare(files: Mapping[str, str | bytes], folder: Path, *, unit: str = "unit.cu",
            worlds: Iterable[str] = WORLDS, **options: object) -> list[str]:
    """Write a small project and compare every world; the include path is its folder ``inc``."""
    plain, marked = folder / "plain", folder / "marked"
    for name, text in files.items():
        path = plain / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode() if isinstance(text, str) else text)
    shadow(plain, ["."], marked)
    setup = configuration(**options)  # type: ignore[arg-type]
    tree = FolderTree(plain)
    report = Walker(tree).walk(TranslationUnit(unit, setup), every=True)
    oracle = Oracle(marked, setup)
    return [d for world in worlds for d in disagreements(tree, oracle, unit, world, report)]
