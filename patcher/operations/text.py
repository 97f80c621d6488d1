"""Replace an exact text, for what no gate expresses: a stride, a clamp, a call.

Text proves nothing about a gate. A file may carry the new text for another
reason, or have lost the old one in a refactoring; so this operation never says
``not-needed`` or ``already-applied`` by itself. It says whether the anchor
stands there exactly ``count`` times, and the group decides by its gates:

- every gate of the group is open upstream: the text patch is not needed either,
  whatever its file holds;
- some gate still excludes: the anchor must match, else the group is a conflict;
- the group has no gate at all: the journal says whether ours is in, and at or
  above ``fixed-in`` a text that is gone (its replacement standing there ``count``
  times) is not needed. Anything else is a conflict.
"""

from __future__ import annotations

from patcher.edits import Edit, Span
from patcher.operations.base import Evidence, Finding, Outcome
from patcher.operations.region import function_spans, inside, line_of, without_code
from patcher.patchset.schema import Text
from patcher.tree import Tree

_MORE = 1000  # occurrences counted beyond the expected ones; then it is too many anyway


def find(operation: Text, source: Tree) -> Finding:
    """The edits, when the anchor stands exactly ``count`` times; else a conflict."""
    try:
        data = source.read(operation.file)
    except FileNotFoundError:
        return Finding(Outcome.MISSING, f"{operation.file} is not in this package",
                       evidence=Evidence.NONE, files=(operation.file,))
    newline = b"\r\n" if b"\r\n" in data else b"\n"
    old = operation.find.encode().replace(b"\n", newline)
    new = operation.replace.encode().replace(b"\n", newline)
    spans = anchors(operation, data, old)
    if len(spans) == operation.count:
        edits = tuple(Edit(span, new) for span in spans)
        return Finding(Outcome.APPLICABLE, "", {operation.file: edits},
                       evidence=Evidence.NONE, files=(operation.file,))
    replaced = len(anchors(operation, data, new)) if new else 0
    absent = not spans and replaced == operation.count
    return Finding(Outcome.CONFLICT, _reason(operation, data, spans, absent),
                   evidence=Evidence.ABSENCE if absent else Evidence.NONE, files=(operation.file,))


def anchors(operation: Text, data: bytes, needle: bytes) -> list[Span]:
    """Where ``needle`` stands as code, inside ``within`` when that is given."""
    allowed = function_spans(operation.file, data, operation.within) if operation.within else None
    dead = without_code(operation.file, data) if needle in data else []
    found: list[Span] = []
    start = data.find(needle)
    while start >= 0 and len(found) < operation.count + _MORE:
        span = Span(start, start + len(needle))
        if not inside(span, dead) and (allowed is None or inside(span, allowed)):
            found.append(span)
        start = data.find(needle, span.end)
    return found


def _reason(operation: Text, data: bytes, spans: list[Span], absent: bool) -> str:
    place = f"{operation.file}" + (f" in {operation.within}" if operation.within else "")
    first = operation.find.strip().partition("\n")[0][:60]
    if spans:
        lines = ", ".join(str(line_of(data, span.start)) for span in spans[:8])
        return (f"{place}: the text {first!r} stands {len(spans)} times (lines {lines}), "
                f"expected {operation.count}; not applied")
    hint = "; its replacement is there, but no gate says that it is ours" if absent else ""
    return f"{place}: the text {first!r} stands nowhere{hint}; not applied"
