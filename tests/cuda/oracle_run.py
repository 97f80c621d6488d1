"""Hold the walker against nvcc on many real units, and write a table of the results.

    python -m tests.cuda.oracle_run --package corpus/unpacked/flashinfer_python-0.6.6 \\
        --folder CUTLASS=DIR:include,tools/util/include:test/unit/gemm/device/*.cu \\
        --system DIR ... --count 60 -o docs/oracle.md

Units of a package are those of its profile, with their real flags; those of a folder are
given by include folders and a pattern. ``--system`` adds folders of headers that are not
installed (cuRAND, NVSHMEM, torch); what is missing still is an empty file, for both sides,
and the unit does not count as complete. Results are kept beside the table, line by line:
a run that was stopped goes on where it was. With ``--compiled DIR`` what nvcc said is kept
too, under a digest of its call and of every marked file of the unit: only the walker's side
is worked out again. With ``--store DIR`` the walker recalls files and conditions from there, as
a second scan does.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatch
from pathlib import Path
from tempfile import TemporaryDirectory

from patcher.cuda.model import TranslationUnit
from patcher.cuda.predefined import ToolkitMacros
from patcher.cuda.record import Record
from patcher.cuda.store import Store
from patcher.package.find import find_package
from patcher.package.model import Environment, Package
from patcher.profiles import profile_for
from patcher.toolchain.find import find_toolkit
from patcher.tree import FolderTree, Tree, walk
from tests.cuda.oracle import (
    WORLDS,
    Oracle,
    configuration,
    mark,
    read_sequence,
    world_bit,
)
from tests.cuda.sequence import RecordingWalker, Sequences

_SHOWN = 12
_ROUNDS = 4


@dataclass(frozen=True)
class Corpus:
    """Units of one package or folder; every relative path is one of ``tree``."""

    name: str
    tree: Tree
    units: tuple[TranslationUnit, ...]
    macros: ToolkitMacros


def package_of(folder: Path) -> Package:
    """An unpacked wheel, with the unpacked tvm_ffi beside it as its neighbour."""
    folder = folder.resolve()
    beside = sorted(folder.parent.glob("apache_tvm_ffi-*"))
    environment = Environment(None, (folder, *beside), None, "the oracle", root=folder)
    return find_package(str(folder), environment)


def package_corpus(package: Package, count: int, system: Sequence[str]) -> Corpus:
    """Units of a package as its profile has them, spread over modules and folders."""
    toolkit = find_toolkit(None, package.environment)
    profile = profile_for(package)
    last = (*toolkit.system, *toolkit.host.include)  # nvcc's own come behind all others
    units = []
    for unit in profile.translation_units(package, toolkit):
        own = [folder for folder in unit.configuration.system if folder not in last]
        units.append(replace(unit, configuration=replace(
            unit.configuration, open_macros=frozenset(), system=(*own, *system, *last))))
    macros = ToolkitMacros(toolkit.version, toolkit.platform, toolkit.host.macros or None)
    return Corpus(f"{package.name} {package.version}", profile.tree(package, toolkit),
                  tuple(spread(units, count)), macros)


def folder_corpus(spec: str, count: int, system: Sequence[str]) -> Corpus:
    """``NAME=DIR:INCLUDE,INCLUDE:PATTERN[,PATTERN][:DEFINE,DEFINE]``; includes are below DIR."""
    name, _, rest = spec.partition("=")
    place, include, patterns, *more = rest.split(":")
    tree = FolderTree(Path(place))
    defines = [(n, v or "1") for text in more for n, _, v in
               (part.partition("=") for part in text.split(","))]
    setup = configuration([f for f in include.split(",") if f], defines, system=system)
    units = [TranslationUnit(path, setup) for path in walk(tree, "", (".cu",))
             if any(fnmatch(path, pattern) for pattern in patterns.split(","))]
    return Corpus(name, tree, tuple(spread(units, count)), ToolkitMacros())


def spread(units: Iterable[TranslationUnit], count: int) -> Iterator[TranslationUnit]:
    """The first of every module or folder, then the second, and so on."""
    groups: dict[str, list[TranslationUnit]] = {}
    for unit in units:
        key = unit.modules[0] if unit.modules else os.path.dirname(unit.path)
        groups.setdefault(key, []).append(unit)
    left = count
    for turn in range(max(map(len, groups.values()), default=0)):
        for group in groups.values():
            if turn < len(group) and left:
                left -= 1
                yield group[turn]


@dataclass(frozen=True)
class _WithStubs:
    """A tree, and the folder of empty headers as it is now: a tree remembers its listings."""

    base: Tree
    stubs: Path

    @property
    def root(self) -> Path:
        return self.base.root

    def read(self, path: str) -> bytes:
        return self.base.read(path)

    def names(self, folder: str) -> frozenset[str]:
        return self._now(folder).names(folder)

    def folders(self, folder: str) -> frozenset[str]:
        return self._now(folder).folders(folder)

    def _now(self, folder: str) -> Tree:
        return FolderTree(self.stubs) if folder.startswith(str(self.stubs)) else self.base


class Comparison:
    """One corpus in a marked shadow below ``folder``; ``kept`` has what the compiler said."""

    def __init__(self, corpus: Corpus, folder: Path, kept: Path | None = None,
                 store: Store | None = None) -> None:
        self.corpus = corpus
        self._kept, self._store = kept, store
        self.stubs = folder / "stubs"
        self.marked = folder / "marked"
        self.stubs.mkdir()
        self._marked: dict[str, str] = {}  # the digest of each file with markers
        self._sequences = Sequences(corpus.tree)
        self._tree = _WithStubs(corpus.tree, self.stubs)
        self._walker = self._new_walker()
        self._copied = False

    def _new_walker(self) -> RecordingWalker:
        return RecordingWalker(self._tree, toolkit=self.corpus.macros, store=self._store,
                               reports=False)

    def save(self) -> None:
        """Keep in the store what the walker learnt."""
        self._walker.save()

    def compare(self, unit: TranslationUnit) -> dict[str, object]:
        """What the compiler and the walker see differently, per world."""
        unit, record, stubs = self._complete(unit)
        oracle = self._oracle(unit, record)
        problems: list[str] = []
        compared = 0
        for world in WORLDS:
            sequence, entered = read_sequence(self._said(oracle, unit, record, world))
            real = [m for m in sequence if not m[0].startswith("/")]
            bit = world_bit(world)
            mine = self._sequences.of(record, bit)
            compared += len(real)
            if mine != real:
                problems.append(f"{world}: {first_difference(mine, real)}")
            problems += [f"{world}: {path}:{line} is unknown"
                         for path, line in self._sequences.unknown(record, bit)[:_SHOWN]]
            problems += self._files(record, entered, world)
        return {"corpus": self.corpus.name, "unit": unit.path, "as": unit.configuration.id,
                "stubs": stubs, "marks": compared, "problems": problems[:_SHOWN]}

    def oracle(self, unit: TranslationUnit) -> Oracle:
        """The compiler, with the unit and all it needs in the shadow."""
        unit, record, _ = self._complete(unit)
        return self._oracle(unit, record)

    def _oracle(self, unit: TranslationUnit, record: Record) -> Oracle:
        self._shadow(unit, record)
        return Oracle(self.marked, unit.configuration, as_written=True)

    def _said(self, oracle: Oracle, unit: TranslationUnit, record: Record, world: str) -> str:
        """The compiler's text for one world, kept where it was asked the same before."""
        if self._kept is None:
            return oracle.preprocess(unit.path, world)
        stubs = str(self.stubs)
        read = sorted((path, self._marked[path]) for path in _inside(record))
        key = [self.corpus.name, *oracle.commands(unit.path, world), *map(str, read)]
        digest = hashlib.sha256("\n".join(key).replace(stubs, "STUBS").encode()).hexdigest()
        place = self._kept / f"{digest}.z"
        if not place.exists():
            text = oracle.preprocess(unit.path, world).replace(stubs, "STUBS")
            place.write_bytes(zlib.compress(text.encode("latin-1")))
        return zlib.decompress(place.read_bytes()).decode("latin-1").replace("STUBS", stubs)

    def _complete(self, unit: TranslationUnit) -> tuple[TranslationUnit, Record, list[str]]:
        """The unit and its walk, with an empty file for every header that is not here."""
        setup = unit.configuration
        unit = replace(unit, configuration=replace(
            setup, system=(*setup.system, str(self.stubs))))
        for _ in range(_ROUNDS):
            report = self._walker.walk(unit)
            if not report.missing:
                break
            for missing in report.missing:
                stub = self.stubs / missing.include[1:-1]
                stub.parent.mkdir(parents=True, exist_ok=True)
                stub.touch()
            self._walker = self._new_walker()
        record, top = self._walker.record(unit), f"{self.stubs}/"
        return unit, record, sorted({  # those of earlier units, too
            r.path.removeprefix(top) for r in record.below() if r.path.startswith(top)})

    def _shadow(self, unit: TranslationUnit, record: Record) -> None:
        """The unit and what it reaches with markers; other headers as they are, to be found."""
        if not self._copied:
            self._copied = True
            for path in walk(self.corpus.tree, ""):
                if not path.endswith((".cu", ".py", ".so", ".md")):
                    self._write(path, self.corpus.tree.read(path))
        for path in sorted(_inside(record) - self._marked.keys()):
            own = unit.content if path == unit.path else None
            data = mark(own if own is not None else self.corpus.tree.read(path))
            self._write(path, data)
            self._marked[path] = hashlib.sha256(data).hexdigest()

    def _write(self, path: str, data: bytes) -> None:
        place = self.marked / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data)
        os.utime(place, (1, 1))  # gcc drops an equal file under #pragma once by mtime, too

    def _files(self, record: Record, entered: set[str], world: str) -> Iterator[str]:
        bit = world_bit(world)
        mine = {_real(r.path) for r in record.below() if r.path and r.worlds & bit}
        real = {_real(path) for path in entered if path != "."}
        for path in sorted(real - mine):
            if "." in path:
                yield f"{world}: only the compiler reads {path}"
        for path in sorted(mine - real):
            yield f"{world}: only the walker reads {path}"


def _inside(record: Record) -> set[str]:
    return {r.path for r in record.below() if r.path and not r.path.startswith("/")}


def _real(path: str) -> str:
    return os.path.realpath(path) if path.startswith("/") else path


def first_difference(mine: Sequence[object], real: Sequence[object]) -> str:
    """Where two sequences part, with what each has there."""
    at = next((n for n, (a, b) in enumerate(zip(mine, real, strict=False)) if a != b),
              min(len(mine), len(real)))
    return (f"mark {at} of {len(real)}: the walker has {mine[at:at + 1]}, "
            f"the compiler {real[at:at + 1]}")


def table(rows: Sequence[dict[str, object]], code: str = "") -> str:
    """The document; ``code`` says which commit was compared, and when."""
    lines = [
        "# The scanner against nvcc", "",
        "Written by `python -m tests.cuda.oracle_run`. A marker line follows every conditional",
        "directive of a copy of the sources; nvcc's own preprocessor calls say which markers each",
        "world compiles, in which order, and which files it reads. Compared are whole sequences,",
        "so that a header that is included twice counts twice. An arm that we call unknown is a",
        "difference. A unit is complete when every header it includes was there; for the others",
        "both sides got the same empty files.", "",
        "Worlds: " + ", ".join(WORLDS) + ".", "",
        "| sources | units | complete | comparisons | markers | units with a difference |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    names = list(dict.fromkeys(str(row["corpus"]) for row in rows))
    for name in [*names, ""]:
        mine = [row for row in rows if row["corpus"] == name or not name]
        lines.append(
            f"| {name or 'all'} | {len(mine)} | {sum(not row['stubs'] for row in mine)} | "
            f"{len(mine) * len(WORLDS)} | {sum(int(str(row['marks'])) for row in mine)} | "
            f"{sum(bool(row['problems']) for row in mine)} |")
    lines += ["", *([f"Compared: {code}.", ""] if code else []), *_details(rows)]
    return "\n".join(lines).rstrip() + "\n"


def _details(rows: Sequence[dict[str, object]]) -> Iterator[str]:
    missing: Counter[str] = Counter()
    for row in rows:
        missing.update(row["stubs"] if isinstance(row["stubs"], list) else ())
    if missing:
        shown = [f"`{name}` ({number})" for name, number in missing.most_common(_SHOWN)]
        yield "Headers that were not here, with the number of units: " + ", ".join(shown) + (
            f" and {len(missing) - len(shown)} more." if len(missing) > len(shown) else ".")
        yield ""
    for row in rows:
        problems = row["problems"] if isinstance(row["problems"], list) else []
        if problems:
            yield f"- `{row['unit']}` ({row['corpus']}): {problems[0]}"


def main() -> int:
    """Compare, keep each result, write the table; 1 when anything differs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--package", type=Path, action="append", default=[])
    parser.add_argument("--folder", action="append", default=[])
    parser.add_argument("--system", action="append", default=[])
    parser.add_argument("--count", type=int, default=50)
    parser.add_argument("--kept", type=Path, default=Path("oracle.jsonl"))
    parser.add_argument("--compiled", type=Path, help="keep what nvcc said in this folder")
    parser.add_argument("--store", type=Path, help="what earlier walks learnt, and this one")
    parser.add_argument("--code", default="", help="commit and time, for the document")
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    corpora = [package_corpus(package_of(folder), options.count, options.system)
               for folder in options.package]
    corpora += [folder_corpus(f, options.count, options.system) for f in options.folder]
    kept = options.kept.read_text("utf-8").splitlines() if options.kept.exists() else []
    rows = [json.loads(line) for line in kept]
    known = {(row["corpus"], row["unit"], row["as"]) for row in rows}
    if options.compiled:
        options.compiled.mkdir(parents=True, exist_ok=True)
    with options.kept.open("a", encoding="utf-8") as log:
        for corpus in corpora:
            with TemporaryDirectory(prefix="oracle-") as folder:
                comparison = Comparison(corpus, Path(folder), options.compiled,
                                        Store(options.store) if options.store else None)
                for unit in corpus.units:
                    if (corpus.name, unit.path, unit.configuration.id) in known:
                        continue
                    rows.append(comparison.compare(unit))
                    log.write(json.dumps(rows[-1]) + "\n")
                    log.flush()
                    print(len(rows), unit.path, rows[-1]["problems"] or "agrees", flush=True)
                comparison.save()
    if options.output:
        options.output.write_text(table(rows, options.code), "utf-8")
    return int(any(row["problems"] for row in rows))


if __name__ == "__main__":
    sys.exit(main())
