"""Changes known to be wrong: what apply refuses of anybody's patchset, and draft never proposes.

Each row of ``known_wrong.json`` names a place by path and text, a direction and its evidence. A
row speaks of what an edit does there, not of who wrote it: shipped patchsets are held to it, too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cache
from pathlib import Path

from patcher.arch import ArchSet, Capability
from patcher.edits import Edit
from patcher.gates import Gate
from patcher.operations.base import Outcome
from patcher.patchset.schema import CudaGuard, Flag, Patchset, PythonGate
from patcher.plan import GroupPlan, PatchPlan, Subjects

_DATA = Path(__file__).parent / "data" / "known_wrong.json"
_AROUND = 3  # lines before and after an edit that tell what it stands in
_NAMED = re.compile(r"(?i)sm_?12\d[af]?|\b12\.[01][af]?\b|\b(?:12|120|121|1200|1210)\b")

_NUMBER = re.compile(r"(?<![\w.])\d{1,4}\b")


class Direction(str, Enum):
    OPENS = "opens"
    CLOSES = "closes"
    ANY = "any"


class Weight(str, Enum):
    WARN = "warn"
    REFUSE = "refuse"


@dataclass(frozen=True, slots=True)
class Wrong:
    """One row; ``near`` is looked for in the lines around an edit, ``adds`` in what it adds."""

    id: str
    path: re.Pattern[str]
    within: re.Pattern[str]
    near: re.Pattern[str]
    adds: re.Pattern[str]
    direction: Direction
    worlds: ArchSet
    verdict: Weight
    what: str
    why: str
    instead: str
    evidence: tuple[str, ...]
    references: tuple[str, ...]

    def __str__(self) -> str:
        return (f"known to be wrong ({self.id}): {self.what}: {self.why}; instead: "
                f"{self.instead}; see {', '.join(self.references)}")


@cache
def known_wrong() -> tuple[Wrong, ...]:
    """Every row, in the order of the file."""
    rows = json.loads(_DATA.read_text("utf-8"))["changes"]
    return tuple(Wrong(
        row["id"], re.compile(row["path"]), re.compile(row.get("within", "")),
        re.compile(row["near"]), re.compile(row.get("adds", "")), Direction(row["direction"]),
        ArchSet.of(*map(Capability.parse, row["capabilities"])), Weight(row["verdict"]),
        row["what"], row["why"], row["instead"], tuple(row["evidence"]),
        tuple(row["references"])) for row in rows)


class KnownWrong:
    """A check of planned groups; ``tell`` takes what is only worth a warning."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell

    def __call__(self, patchset: Patchset, group: GroupPlan, earlier: Sequence[GroupPlan],
                 subjects: Subjects) -> GroupPlan:
        """The group, or its refusal."""
        for patch in group.patches:
            for wrong in of_patch(patch, subjects(patch.package).base.read):
                if wrong.verdict is Weight.REFUSE:
                    return group.refuse(Outcome.UNSUPPORTED, f"{patch.id}: {wrong}")
                self._tell(f"{patchset.name}/{group.id}/{patch.id}: {wrong}")
        return group


def of_patch(patch: PatchPlan, read: Callable[[str], bytes]) -> Iterator[Wrong]:
    """The rows that speak of a patch's edits."""
    operation = patch.patch.operation
    within = getattr(operation, "within", "")
    for path, edits in patch.edits.items():
        rows = [row for row in known_wrong() if row.path.search(path) and
                row.within.search(within)]
        base = read(path) if rows else b""
        for row in rows:
            if any(_speaks(row, patch, edit, base) for edit in edits):
                yield row


def _speaks(row: Wrong, patch: PatchPlan, edit: Edit, base: bytes) -> bool:
    added = edit.new.decode("utf-8", "replace")
    if not (row.near.search(_around(base, edit)) and row.adds.search(added)):
        return False
    operation = patch.patch.operation
    if row.direction is Direction.ANY:
        return True
    if isinstance(operation, PythonGate | CudaGuard):
        opens = bool(operation.open)
        concerned = bool((patch.effective or patch.asked) & row.worlds)
        return concerned and opens is (row.direction is Direction.OPENS)
    removed = base[edit.span.start:edit.span.end].decode("utf-8", "replace")
    if isinstance(operation, Flag) or _grows(removed, added):
        return row.direction is Direction.OPENS
    return bool(row.near.search(removed))  # which way a text changes a gate, nobody can know


def _grows(removed: str, added: str) -> bool:
    """A text that names more of 12.x than before, or a higher bound."""
    if len(_NAMED.findall(added)) > len(_NAMED.findall(removed)):
        return True
    old, new = (list(map(int, _NUMBER.findall(text))) for text in (removed, added))
    return bool(old and new) and max(new) > max(old)


def _around(base: bytes, edit: Edit) -> str:
    """The lines of an edit and those beside them."""
    first = last = -1
    start, end = edit.span.start, edit.span.end
    for _ in range(_AROUND + 1):
        first = base.rfind(b"\n", 0, start)
        start = max(first, 0)
        last = base.find(b"\n", end)
        end = last + 1 if last >= 0 else len(base)
    return base[max(first, 0):end].decode("utf-8", "replace")


def of_gate(gate: Gate, wanted: ArchSet) -> Wrong | None:
    """The row that forbids opening a scanned gate for ``wanted``."""
    return next((row for row in known_wrong()
                 if row.direction is not Direction.CLOSES and row.worlds & wanted
                 and not row.adds.pattern
                 and row.path.search(gate.location.path) and row.within.search(gate.within)
                 and row.near.search(gate.condition)), None)
