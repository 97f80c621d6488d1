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
from patcher.edits import Edit, Span
from patcher.operations import opening
from patcher.operations.base import Evidence, Finding, Outcome, Source
from patcher.operations.region import function_spans, inside
from patcher.patchset.schema import CudaGuard

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
    from patcher.cuda.lexer import directives

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


def find(operation: CudaGuard, source: Source) -> Finding:
    """The edits for every matching arm, or why there are none."""
    asked, files = operation.open or operation.close, (operation.file,)
    effective = opening.cells(asked)

    def answer(outcome: Outcome, reason: str, edits: tuple[Edit, ...] = (),
               evidence: Evidence = Evidence.GATES) -> Finding:
        made = {operation.file: edits} if edits else {}
        return Finding(outcome, reason, made, (), asked, effective, evidence, files)

    try:
        data = source.read(operation.file)
    except FileNotFoundError:
        return answer(Outcome.MISSING, f"{operation.file} is not in this package")
    old = opening.table(operation.condition)
    if old is None or not opening.mentions_arch(operation.condition):
        return answer(Outcome.CONFLICT, f"{operation.file}: the architecture does not decide "
                      f"{operation.condition!r} by itself; patch the gate that defines its macros")
    wanted = old.opened(effective) if operation.open else old.closed(effective)
    if wanted == old:
        return answer(Outcome.CONFLICT, f"{operation.condition!r} already has the asked worlds: "
                      "this anchor cannot be right")
    return _judge(operation, data, old, wanted, effective, answer)


def _judge(operation: CudaGuard, data: bytes, old: opening.Table, wanted: opening.Table,
           effective: ArchSet, answer: object) -> Finding:
    assert callable(answer)
    from patcher.cuda.directives import normalise

    key, name = normalise(operation.condition), operation.file
    found = list(_inside(operation, data))
    matching = [arm for arm in found if normalise(arm.condition) == key]
    if len(matching) == operation.count:
        return _edit(operation, matching, effective, answer)
    if matching:
        return answer(Outcome.CONFLICT, f"{name}: {len(matching)} conditions match (lines "
                      f"{_lines(matching)}), expected {operation.count}; not applied")
    respelled = [arm for arm in found if opening.table(arm.condition, old.atoms) == old]
    if respelled:
        return answer(Outcome.CONFLICT, f"{name}: no condition matches, but lines "
                      f"{_lines(respelled)} still exclude the asked targets; not applied")
    opened = [arm for arm in found if opening.table(arm.condition, wanted.atoms) == wanted]
    if opened:
        return answer(Outcome.NOT_NEEDED, f"{name}: {len(opened)} such conditions (lines "
                      f"{_lines(opened)}) have the asked worlds")
    return answer(Outcome.CONFLICT, f"{name}: no condition matches; not applied",
                  evidence=Evidence.ABSENCE)


def _inside(operation: CudaGuard, data: bytes) -> Iterator[Arm]:
    if not operation.within:
        return arms(data)
    spans = function_spans(operation.file, data, operation.within)
    return (arm for arm in arms(data) if inside(arm.span, spans))


def _edit(operation: CudaGuard, matching: list[Arm], effective: ArchSet,
          answer: object) -> Finding:
    assert callable(answer)
    rewrite = opening.open_condition if operation.open else opening.close_condition
    edits: list[Edit] = []
    new: dict[str, str | None] = {}
    for arm in matching:
        if arm.condition not in new:
            new[arm.condition] = rewrite(arm.condition, effective)
        text = new[arm.condition]
        if text is None:
            return answer(Outcome.CONFLICT, f"{operation.file}:{arm.line}: no edit of "
                          f"{arm.condition!r} changes the asked targets and nothing else")
        edits += arm.edits(text)
    return answer(Outcome.APPLICABLE, "", tuple(edits))


def _lines(found: list[Arm]) -> str:
    shown = ", ".join(str(arm.line) for arm in found[:8])
    return shown + (", ..." if len(found) > 8 else "")
