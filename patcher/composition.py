"""Composition of one file, pure: base + edits, and what a foreign edit on top of it means.

Two coordinate systems: edits of patchsets are written against the base; a
foreign edit and the step from one composition to another are written against
the *composed* bytes, which is what we left on the disk.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from difflib import SequenceMatcher

from patcher.edits import Edit, Span, apply_edits, merge_edits

_MANY_PAIRS = 2_000_000  # equal line pairs above which difflib's popular-line heuristic is used


class ForeignClash(ValueError):
    """Someone else's edit lies inside one of our spans."""

    def __init__(self, ours: Edit, foreign: Edit) -> None:
        super().__init__(f"a foreign edit at byte {foreign.span.start} meets ours")
        self.ours = ours
        self.foreign = foreign


def placed(base: bytes, edits: Iterable[Edit]) -> dict[Edit, Span]:
    """Where each edit's new text stands in the composed bytes."""
    spans, shift = {}, 0
    for edit in merge_edits(edits):
        start = edit.span.start + shift
        spans[edit] = Span(start, start + len(edit.new))
        shift += len(edit.new) - (edit.span.end - edit.span.start)
    return spans


def recompose(base: bytes, old: Iterable[Edit], new: Iterable[Edit]) -> tuple[Edit, ...]:
    """The edits that turn ``base + old`` into ``base + new``, in coordinates of ``base + old``.

    Both sets must merge. What the two have in common is not touched, so a
    foreign edit there does not matter.
    """
    before, after = merge_edits(old), merge_edits(new)
    kept = set(before) & set(after)
    removed = [edit for edit in before if edit not in kept]
    added = [edit for edit in after if edit not in kept]
    steps = []
    for cluster in _clusters([*removed, *added]):
        lo = min(edit.span.start for edit in cluster)
        hi = max(edit.span.end for edit in cluster)
        shift = sum(len(edit.new) - (edit.span.end - edit.span.start)
                    for edit in before if edit not in cluster and edit.span.end <= lo)
        was = _within(base, lo, hi, [edit for edit in removed if edit in cluster])
        becomes = _within(base, lo, hi, [edit for edit in added if edit in cluster])
        if was != becomes:
            steps.append(Edit(Span(lo + shift, lo + shift + len(was)), becomes))
    return tuple(steps)


def _clusters(edits: Sequence[Edit]) -> list[set[Edit]]:
    """Edits grouped so that those of different groups do not touch."""
    clusters: list[set[Edit]] = []
    end = -1
    for edit in sorted(edits):
        if clusters and edit.span.start <= end:
            clusters[-1].add(edit)
        else:
            clusters.append({edit})
            end = edit.span.end
        end = max(end, edit.span.end)
    return clusters


def _within(base: bytes, lo: int, hi: int, edits: Iterable[Edit]) -> bytes:
    moved = [Edit(Span(e.span.start - lo, e.span.end - lo), e.new) for e in edits]
    return apply_edits(base[lo:hi], moved)


def foreign_edits(composed: bytes, disk: bytes) -> tuple[Edit, ...]:
    """What someone else changed since: edits that turn ``composed`` into ``disk``, exactly.

    Found line by line, then narrowed to the bytes that differ.
    """
    head = _common(composed, disk)
    head = composed.rfind(b"\n", 0, head) + 1  # compare whole lines only
    tail = _common(composed[head:][::-1], disk[head:][::-1])
    tail_start = composed.find(b"\n", len(composed) - tail) + 1 if tail else 0
    tail = len(composed) - tail_start if tail_start else 0
    old = composed[head:len(composed) - tail].split(b"\n")
    new = disk[head:len(disk) - tail].split(b"\n")
    old_lines = [*(line + b"\n" for line in old[:-1]), old[-1]]
    new_lines = [*(line + b"\n" for line in new[:-1]), new[-1]]
    starts = [head]
    for line in old_lines:
        starts.append(starts[-1] + len(line))
    matcher = SequenceMatcher(None, old_lines, new_lines, autojunk=_popular(old_lines, new_lines))
    found = []
    for tag, i, j, k, m in matcher.get_opcodes():
        if tag != "equal":
            hunk = Edit(Span(starts[i], starts[j]), b"".join(new_lines[k:m]))
            found.append(_narrowed(composed, hunk))
    return tuple(found)


def _popular(old: Sequence[bytes], new: Sequence[bytes]) -> bool:
    """True when exact matching would compare too many equal lines; any alignment is valid."""
    counts = Counter(new)
    return sum(counts[line] for line in old) > _MANY_PAIRS


def _common(one: bytes, other: bytes) -> int:
    """Length of the common prefix, by halving: bytes compare fast, Python loops do not."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _narrowed(composed: bytes, hunk: Edit) -> Edit:
    was = composed[hunk.span.start:hunk.span.end]
    if not was or not hunk.new:
        return hunk
    head = _common(was, hunk.new)
    tail = _common(was[head:][::-1], hunk.new[head:][::-1])
    return Edit(Span(hunk.span.start + head, hunk.span.end - tail),
                hunk.new[head:len(hunk.new) - tail])


def meets(composed: bytes, ours: Span, foreign: Span) -> bool:
    """True when a foreign edit lies inside, across or against our span.

    Edits of neighbouring whole lines only touch at a line's start and are kept
    apart; where both are pure insertions there is no telling which comes first.
    """
    if not ours.touches(foreign):
        return False
    if ours.start < foreign.end and foreign.start < ours.end:
        return True
    if ours.start == ours.end and foreign.start == foreign.end:
        return True
    border = foreign.end if foreign.end == ours.start else foreign.start
    return not (border == 0 or composed[border - 1:border] == b"\n")


def transplant(composed: bytes, disk: bytes, steps: Iterable[Edit]) -> bytes:
    """Make ``steps`` (written against ``composed``) on ``disk``, keeping foreign edits.

    Raises ForeignClash when a foreign edit meets one of the steps.
    """
    foreign = foreign_edits(composed, disk) if composed != disk else ()
    moved = []
    for step in steps:
        shift = 0
        for edit in foreign:
            if meets(composed, step.span, edit.span):
                raise ForeignClash(step, edit)
            if edit.span.end <= step.span.start:
                shift += len(edit.new) - (edit.span.end - edit.span.start)
        moved.append(Edit(Span(step.span.start + shift, step.span.end + shift), step.new))
    return apply_edits(disk, moved)
