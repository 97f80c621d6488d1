"""Open or close preprocessor arms that match a condition, all ``count`` of them.

What counts is what an arm lets pass, not how it is spelled. With no arm that
matches the anchor, the file is looked at for two kinds of arms:

- one with the *same worlds* as the anchor: a guard that was respelled, and still
  excludes: a conflict;
- one with the worlds that the patch would give: the guard is there and open, so
  the patch is not needed.

Neither is found: nothing there decides, and the version label has to say the
rest (``Evidence.ABSENCE``).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from patcher.arch import ArchSet
from patcher.cuda.directives import normalise
from patcher.cuda.lexer import directives
from patcher.edits import Edit, Span
from patcher.operations import opening
from patcher.operations.base import Evidence, Finding, Outcome
from patcher.operations.condition import parse
from patcher.operations.region import function_spans, inside
from patcher.patchset.schema import CudaGuard
from patcher.tree import Tree

_DEFINED = {"ifdef": "defined({})", "elifdef": "defined({})",
            "ifndef": "!defined({})", "elifndef": "!defined({})"}
_PLAIN = {"ifdef": "if", "ifndef": "if", "elifdef": "elif", "elifndef": "elif"}


@dataclass(frozen=True, slots=True)
class Arm:
    """One ``#if``, ``#elif`` (and their def forms): its condition as an expression."""

    line: int
    word: str
    word_span: Span
    text: str  # as in the file; the macro's name for a def form
    span: Span

    @property
    def condition(self) -> str:
        return _DEFINED.get(self.word, "{}").format(self.text)

    def edits(self, new: str) -> tuple[Edit, ...]:
        """The edits that make ``new`` this arm's condition."""
        condition = trimmed(Edit(self.span, new.encode("latin-1")), self.text.encode("latin-1"))
        if self.word not in _PLAIN:
            return (condition,)
        whole = Span(self.word_span.start, self.span.end)
        return (Edit(whole, f"{_PLAIN[self.word]} {new}".encode("latin-1")),)


def arms(data: bytes) -> Iterator[Arm]:
    """Every arm with a condition of its own, in order."""
    for found in directives(data):
        if found.name in ("if", "elif") or found.name in _DEFINED:
            text = data[found.span.start:found.span.end].decode("latin-1")
            yield Arm(found.line, found.name, found.word, text, found.span)


def trimmed(edit: Edit, old: bytes) -> Edit:
    """The edit without what old and new text share at both ends."""
    new, head = edit.new, 0
    while head < min(len(old), len(new)) and old[head] == new[head]:
        head += 1
    tail = 0
    while tail < min(len(old), len(new)) - head and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    return Edit(Span(edit.span.start + head, edit.span.end - tail), new[head:len(new) - tail])


def find(operation: CudaGuard, source: Tree) -> Finding:
    """The edits for every matching arm, or why there are none."""
    asked = operation.open or operation.close
    request = _Request(operation, asked, opening.cells(asked))
    try:
        data = source.read(operation.file)
    except FileNotFoundError:
        return request.answer(Outcome.MISSING, f"{operation.file} is not in this package")
    old, obstacle = opening.table(operation.condition), opening.why_not(operation.condition)
    if old is None or obstacle:
        return request.conflict(f"{operation.condition!r} cannot be changed for some "
                                f"architectures alone: {obstacle}")
    wanted = old.opened(request.effective) if operation.open else old.closed(request.effective)
    if wanted == old:
        return request.conflict(f"{operation.condition!r} already has the asked worlds: "
                                "this anchor cannot be right")
    return request.judge(list(_inside(operation, data)), old, wanted)


def _inside(operation: CudaGuard, data: bytes) -> Iterator[Arm]:
    """The arms that an anchor can mean: well-formed, and on the architecture."""
    spans = None
    if operation.within:
        spans = function_spans(operation.file, data, operation.within)
    for arm in arms(data):
        meant = spans is None or inside(arm.span, spans)
        if meant and "__CUDA_ARCH" in arm.text and parse(arm.condition) is not None:
            yield arm


@dataclass(frozen=True, slots=True)
class _Request:
    """What is asked of which file, and the answer to it."""

    operation: CudaGuard
    asked: ArchSet
    effective: ArchSet

    def answer(self, outcome: Outcome, reason: str, edits: tuple[Edit, ...] = (),
               evidence: Evidence = Evidence.GATES) -> Finding:
        made: dict[str, tuple[Edit, ...]] = {self.operation.file: edits} if edits else {}
        return Finding(outcome, reason, made, (), self.asked, self.effective, evidence,
                       (self.operation.file,))

    def conflict(self, reason: str, evidence: Evidence = Evidence.GATES) -> Finding:
        place = f"{self.operation.file} {self.operation.within}".strip()
        return self.answer(Outcome.CONFLICT, f"{place}: {reason}; not applied", evidence=evidence)

    def judge(self, found: list[Arm], old: opening.Table, wanted: opening.Table) -> Finding:
        key = normalise(self.operation.condition)
        matching = [arm for arm in found if normalise(arm.condition) == key]
        if len(matching) == self.operation.count:
            return self.rewrite(matching)
        if matching:
            return self.conflict(f"{len(matching)} conditions match (lines {_lines(matching)}), "
                                 f"expected {self.operation.count}")
        respelled = [arm for arm in found if opening.table(arm.condition, old.atoms) == old]
        if respelled:
            return self.conflict(f"no condition matches, but lines {_lines(respelled)} still "
                                 "exclude the asked targets")
        opened = [arm for arm in found if opening.table(arm.condition, wanted.atoms) == wanted]
        if opened:
            return self.answer(Outcome.NOT_NEEDED, f"{self.operation.file}: {len(opened)} such "
                               f"conditions (lines {_lines(opened)}) have the asked worlds")
        return self.conflict("no condition matches", Evidence.ABSENCE)

    def rewrite(self, matching: list[Arm]) -> Finding:
        change = opening.open_condition if self.operation.open else opening.close_condition
        edits: list[Edit] = []
        new: dict[str, str | None] = {}
        for arm in matching:
            if arm.condition not in new:
                new[arm.condition] = change(arm.condition, self.effective)
            text = new[arm.condition]
            if text is None:
                return self.conflict(f"line {arm.line}: no edit of {arm.condition!r} changes the "
                                     "asked targets and nothing else")
            edits += arm.edits(text)
        return self.answer(Outcome.APPLICABLE, "", tuple(edits))


def _lines(found: list[Arm]) -> str:
    shown = ", ".join(str(arm.line) for arm in found[:8])
    return shown + (", ..." if len(found) > 8 else "")
