"""Find the architecture gates in a package's Python code.

A cascade: a byte pattern picks files, ``ast`` parses those, and only
expressions on lines that hint at an architecture are evaluated.

Rules: PY-IF (an arm), PY-REFUSAL (an arm that only refuses), PY-CHOICE (``a if
test else b``), PY-ASSERT, PY-RETURN and PY-VALUE (a test that is returned or
kept), PY-TABLE (a table keyed by architecture), PY-MAJORS and PY-NUMBERS (a
list given to a keyword), PY-DECORATOR, PY-BACKENDS, PY-ARCHS and PY-BOUND
(class attributes), PY-GENCODE (fixed compiler flags, layer build).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from patcher.arch import ALL, ArchSet, Target
from patcher.errors import InputError, UnsafePath
from patcher.gates import Cause, Gate, Location, Worlds
from patcher.python.evaluate import Evaluator
from patcher.python.flow import Row, Walk, gates_of
from patcher.python.index import Index, Module
from patcher.python.notes import Notes, judge
from patcher.python.sieve import places_of
from patcher.python.vocabulary import vocabulary
from patcher.room import collector_at_rest
from patcher.tree import Tree

_HEAD = 2000  # bytes in which a generator says so


def find_gates(tree: Tree, folder: str) -> list[Gate]:
    """Every gate below ``folder``, in path and source order.

    Worlds are device targets; the host pass is unreached. ``unreached`` also
    holds what another arm of the same ladder serves. ``unknown`` worlds are
    undecided only by what ``decided_by`` names, which is never the
    architecture. ``excludes_target`` is left to ``excludes``.
    """
    index = Index(tree, folder)
    return _found(index, (file for file in _python_files(tree, folder)
                          if index.marks(*file).may_hold))


def find_gates_in(tree: Tree, folder: str, files: Iterable[tuple[str, bytes]]) -> list[Gate]:
    """As ``find_gates``, for these files (path and source) of the package only."""
    return _found(Index(tree, folder), files)


def _found(index: Index, files: Iterable[tuple[str, bytes]]) -> list[Gate]:
    evaluator = Evaluator(index)
    found: list[Gate] = []
    with collector_at_rest():
        for path, source in files:
            found += _file_gates(path, source, index, evaluator)
        evaluator.forget_all()  # the collector does not come here
    return _numbered(found)


def _file_gates(path: str, source: bytes, index: Index, evaluator: Evaluator) -> Iterator[Gate]:
    module = index.scanned(path, source)
    if module is None:
        return
    try:
        walk = _whole_walk(module, index, evaluator)
        module, rows = walk.module, list(gates_of(walk))
    except RecursionError:  # expressions nested by the thousand: no gate that a person wrote
        rows = []
    if rows:
        notes = Notes(module)
        for group in _grouped(rows, by_worlds=_is_generated(path, source)):
            yield _gate(path, group, notes)
    evaluator.forget(module)
    index.forget(path)


def _whole_walk(module: Module, index: Index, evaluator: Evaluator) -> Walk:
    """A walk of the module with all the blocks that name what carries an architecture."""
    asked: set[str] = set()
    while True:
        walk = Walk(module, evaluator)
        asked |= walk.lines.carriers
        left_out = module.left_out
        if not any(name.encode() in left_out and places_of(name, left_out) for name in asked):
            return walk
        evaluator.forget(module)
        wide = index.widened(module, asked)
        if wide is None:
            return walk
        module = wide


def _python_files(tree: Tree, folder: str) -> Iterator[tuple[str, bytes]]:
    """Path and source of Python files; tests, examples and foreign code are left out."""
    words = vocabulary()
    stack = [folder.rstrip("/")]
    while stack:
        here = stack.pop()
        for name in sorted(n for n in tree.names(here) if n.endswith(".py")):
            path = f"{here}/{name}" if here else name
            try:
                source = tree.read(path)
            except (OSError, InputError, UnsafePath):
                continue
            yield path, source
        below = (f"{here}/{name}".lstrip("/") for name in tree.folders(here)
                 if name not in words.skipped_folders)
        stack += sorted((p for p in below if not p.endswith(words.skipped_paths)), reverse=True)


def excludes(gate: Gate, targets: ArchSet, references: ArchSet) -> bool:
    """A target is closed, and a reference passes or is undecided only by something else."""
    worlds = gate.worlds
    return bool(worlds.closed & targets) and bool((worlds.open | worlds.unknown) & references)


def hardware_only(gate: Gate, targets: Sequence[Target]) -> bool:
    """True when the words beside a gate name hardware that none of the targets has."""
    if gate.cause is not Cause.HARDWARE:
        return False
    texts = " ".join(e.text for e in gate.evidence)
    return any(marker.why in texts and not any(t.capability in marker.has for t in targets)
               for marker in vocabulary().hardware_markers)


def _is_generated(path: str, source: bytes) -> bool:
    words = vocabulary()
    head = source[:_HEAD].decode("utf-8", "replace")
    return bool(words.generated_paths.search(path) or words.generated_heads.search(head))


def _grouped(rows: list[Row], *, by_worlds: bool) -> list[list[Row]]:
    """Equal gates of one function are one row; a generated file has one per set of worlds."""
    groups: dict[object, list[Row]] = {}
    for row in rows:
        worlds = (row.open, row.closed, row.unknown)
        key = worlds if by_worlds else (row.layer, row.within, row.condition, row.effect, worlds)
        groups.setdefault((row.layer, key), []).append(row)
    return list(groups.values())


def _gate(path: str, group: list[Row], notes: Notes) -> Gate:
    first = group[0]
    beside = notes.beside(first.statement, first.end_line)
    known = first.open
    cause, evidence = judge([*beside, *first.evidence], f"{path}\0{first.within}", known)
    same = len({(row.within, row.condition) for row in group}) == 1
    worlds = Worlds(first.open, first.closed, ALL - first.open - first.closed - first.unknown,
                    first.unknown)
    return Gate(
        first.layer, first.rule, Location(path, first.line, first.end_line), first.condition,
        worlds, effect=first.effect, cause=cause, evidence=evidence,
        within=first.within if same else "", names=_merged(row.names for row in group),
        lines=tuple(row.line for row in group) if len(group) > 1 else (),
        decided_by=first.decided_by)


def _merged(names: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for group in names for name in group))


def _numbered(gates: list[Gate]) -> list[Gate]:
    """Give equal fingerprints an ordinal."""
    seen: Counter[str] = Counter()
    found = []
    for gate in gates:
        seen[gate.id] += 1
        found.append(gate if seen[gate.id] == 1 else replace(gate, id=f"{gate.id}-{seen[gate.id]}"))
    return found


