"""A patchset's own snippets: what must not change, and what must come out.

``patchsets/NAME.test.yaml`` stands beside ``NAME.yaml``. Every snippet is the
whole file that its patch looks at: ``valid`` ones must stay as they are,
``invalid`` ones must become their ``after``, once and not twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from patcher.edits import apply_edits, unified_diff
from patcher.errors import InputError, SchemaError
from patcher.operations.base import Finding, Outcome
from patcher.operations.registry import find
from patcher.patchset.document import MAX_BYTES, parse_document
from patcher.patchset.load import load_patchset
from patcher.patchset.parse import Problems, read_object
from patcher.patchset.schema import (
    Count,
    CudaGuard,
    Flag,
    Identifier,
    Operation,
    Patch,
    Patchset,
    PythonGate,
    Text,
)

VERSION = 1
SUFFIX = ".test.yaml"


@dataclass(frozen=True, slots=True, kw_only=True)
class Valid:
    """A source that the patch must leave alone; ``outcome`` when that is not the usual one."""

    id: str
    source: str
    outcome: Outcome | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Invalid:
    """A source that the patch must turn into ``after``."""

    id: str
    before: str
    after: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PatchTest:
    """The snippets of ``patch`` (group/patch); ``variant`` counts from 1."""

    patch: str
    variant: Count | None = None
    valid: tuple[Valid, ...] = ()
    invalid: tuple[Invalid, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Document:
    patchset: Identifier
    tests: tuple[PatchTest, ...]


class Verdict(str, Enum):
    PASSED = "passed"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Result:
    """One snippet: what it says about its patch, and how it differs where it failed."""

    patch: str
    kind: str  # valid or invalid
    id: str
    verdict: Verdict
    reason: str = ""
    diff: str = ""  # from what was expected to what came out


@dataclass(frozen=True, slots=True)
class Outcomes:
    """All snippets of a patchset, and its patches that have none."""

    patchset: Patchset
    results: tuple[Result, ...]
    untested: tuple[str, ...]

    @property
    def failed(self) -> tuple[Result, ...]:
        return tuple(r for r in self.results if r.verdict is Verdict.FAILED)


@dataclass(frozen=True, slots=True)
class OneFile:
    """A tree that holds the same bytes wherever it is asked."""

    data: bytes
    root: Path = Path()

    def read(self, path: str) -> bytes:
        return self.data

    def names(self, folder: str) -> frozenset[str]:
        return frozenset()

    def folders(self, folder: str) -> frozenset[str]:
        return frozenset()


def run_snippets(name: str) -> Outcomes:
    """Try every snippet of the patchset ``name`` (a path or a shipped one).

    Raises InputError when there is no test file, SchemaError with every
    problem of it at once.
    """
    patchset = load_patchset(name)
    tests = load_tests(patchset)
    results = [result for test, patch in tests for result in _results(test, patch.operation)]
    seen = {(test.patch, test.variant) for test, _ in tests}
    lacking = [_shown(key) for key, patch in _patches(patchset).items()
               if key not in seen and has_snippets(patch.operation)]
    return Outcomes(patchset, tuple(results), tuple(lacking))


def has_snippets(operation: Operation) -> bool:
    """True for what edits one file; folders and links are shown by the diff alone."""
    return isinstance(operation, PythonGate | CudaGuard | Flag | Text)


def load_tests(patchset: Patchset) -> list[tuple[PatchTest, Patch]]:
    """The tests beside a patchset, each with its patch. Raises as ``run_snippets``."""
    source = Path(patchset.source)
    path = source.with_name(source.stem + SUFFIX)
    try:
        with path.open("rb") as handle:
            data = handle.read(MAX_BYTES + 1)
    except OSError as error:
        raise InputError(f"no snippets to test with: {error.strerror}", where=str(path),
                         next_step="write valid and invalid snippets there") from error
    value, notes = parse_document(data, str(path))
    problems = Problems()
    problems.found.extend(notes)
    document = _read(value, problems)
    if problems.found:
        raise SchemaError(problems.found, where=str(path))
    found = _matched(document, patchset, problems)
    if problems.found:
        raise SchemaError(problems.found, where=str(path))
    return found


def _read(value: Any, problems: Problems) -> _Document:
    version = value.get("sm-patch-test") if isinstance(value, dict) else None
    if version != VERSION or version is True:
        problems.add("sm-patch-test", f"expected {VERSION}")
    return read_object(_Document, value, "", problems, also=("sm-patch-test",))


def _matched(document: _Document, patchset: Patchset, problems: Problems
             ) -> list[tuple[PatchTest, Patch]]:
    if document.patchset != patchset.name:
        problems.add("patchset", f"is {document.patchset}, beside {patchset.name}")
    known, found = _patches(patchset), []
    for index, test in enumerate(document.tests):
        path, patch = f"tests[{index}]", known.get((test.patch, test.variant))
        if patch is None:
            problems.add(path, f"no patch {_shown((test.patch, test.variant))}; there are "
                               f"{', '.join(map(_shown, known))}")
        elif not has_snippets(patch.operation):
            problems.add(path, f"{test.patch} does not edit one file")
        elif not (test.valid or test.invalid):
            problems.add(path, "neither valid nor invalid snippets")
        else:
            found.append((test, patch))
    return found


_Key = tuple[str, int | None]


def _patches(patchset: Patchset) -> dict[_Key, Patch]:
    """Every patch as tests name it."""
    found: dict[_Key, Patch] = {}
    for group in patchset.groups:
        for patch in group.patches:
            found[f"{group.id}/{patch.id}", None] = patch
        for number, variant in enumerate(group.variants, 1):
            for patch in variant.patches:
                found[f"{group.id}/{patch.id}", number] = patch
    return found


def _shown(key: _Key) -> str:
    return key[0] if key[1] is None else f"{key[0]} (variant {key[1]})"


def _results(test: PatchTest, operation: Operation) -> Iterator[Result]:
    name = _shown((test.patch, test.variant))
    for stays in test.valid:
        reason, diff = _must_stay(operation, stays)
        yield Result(name, "valid", stays.id, _verdict(reason), reason, diff)
    for changes in test.invalid:
        reason, diff = _must_become(operation, changes)
        yield Result(name, "invalid", changes.id, _verdict(reason), reason, diff)


def _verdict(reason: str) -> Verdict:
    return Verdict.FAILED if reason else Verdict.PASSED


def _must_stay(operation: Operation, case: Valid) -> tuple[str, str]:
    """What is wrong, and the unwanted edit; both empty when it is well."""
    data = case.source.encode()
    finding = find(operation, OneFile(data))
    # text alone never proves that nothing is needed; its group's gates do
    usual = Outcome.CONFLICT if isinstance(operation, Text) else Outcome.NOT_NEEDED
    wanted = case.outcome or usual
    if finding.outcome is wanted:
        return "", ""
    reason = f"is {finding.outcome.value}, not {wanted.value}"
    return (f"{reason}: {finding.reason}" if finding.reason else reason,
            unified_diff(data, _edited(data, finding), finding.files[0]))


def _must_become(operation: Operation, case: Invalid) -> tuple[str, str]:
    before, after = case.before.encode(), case.after.encode()
    finding = find(operation, OneFile(before))
    if finding.outcome is not Outcome.APPLICABLE:
        return f"is {finding.outcome.value}: {finding.reason}", ""
    made = _edited(before, finding)
    if made != after:
        return "comes out differently", unified_diff(after, made, finding.files[0])
    again = find(operation, OneFile(after))
    if again.outcome is Outcome.APPLICABLE:
        return "would be edited a second time", unified_diff(after, _edited(after, again),
                                                             finding.files[0])
    return "", ""


def _edited(data: bytes, finding: Finding) -> bytes:
    edits = [edit for edits in finding.edits.values() for edit in edits]
    return apply_edits(data, edits)
