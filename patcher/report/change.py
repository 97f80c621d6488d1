"""The text of apply and revert: the answer first, the next command last."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from patcher.caches.actions import Action, CacheAction
from patcher.operations.base import Outcome
from patcher.patchset.load import typed
from patcher.plan import Plan
from patcher.report.plan import PackageRow, command, lines
from patcher.report.wrapping import wrap
from patcher.status import Effective

_SCREEN = 20  # lines for the files of one change
_DEEPEST = 12
Effects = Mapping[tuple[str, str], tuple[Effective, str]]


def applied(plan: Plan, rows: Sequence[PackageRow], effects: Effects,
            caches: Iterable[CacheAction], restart: Sequence[Mapping[str, Any]], *,
            changed: bool, check: bool) -> Iterator[str]:
    """What apply did, or would do, or why it did not."""
    yield from wrap(_answer(plan, rows, changed, check))
    yield from lines(plan, "apply", done=changed and not check)
    for (patchset, group), (state, reason) in effects.items():
        yield f"{patchset}/{group}: effective: {state.value}{f' ({reason})' if reason else ''}"
    yield from _around(caches, restart)
    names = [typed(item.patchset) for item in plan.patchsets]
    if plan.refused and not changed:
        yield "next: " + _way_on(plan)
    elif check:
        yield "next: " + (f"sm-patch apply {' '.join(names)}" if changed else "sm-patch status")
    else:
        yield from long_verify(sum(group.selected for item in plan.patchsets
                                   for group in item.groups)) if changed else ()
        yield "next: " + (f"sm-patch verify {names[0]}" if changed else "sm-patch status")


def long_verify(groups: int) -> list[str]:
    """How long what comes next takes."""
    less = "; --group ID takes one group alone" if groups > 1 else ""
    return wrap(f"verify compiles, for minutes the first time{less}")


def _answer(plan: Plan, rows: Sequence[PackageRow], changed: bool, check: bool) -> str:
    where = ", ".join(f"{row.name} {row.version or '(no version)'}" for row in rows)
    chosen = [(item.patchset.name, group) for item in plan.patchsets for group in item.groups
              if group.selected]
    done = [f"{name}/{group.id}" for name, group in chosen if group.outcome is Outcome.APPLICABLE]
    lost = [f"{name}/{group.id}" for name, group in chosen if group.outcome.refused]
    if lost and not changed:
        return f"not applied, nothing was written: {', '.join(lost)} cannot go through"
    if changed:
        verb = "would apply" if check else "applied"
        rest = f"; not {', '.join(lost)}" if lost else ""
        return f"{verb} {', '.join(done) or 'what had changed'} to {where}{rest}"
    kept = [f"{name}/{group.id} {group.outcome.value}" for name, group in chosen]
    return f"nothing to do in {where}: {', '.join(kept) or 'no group is selected'}"


def _way_on(plan: Plan) -> str:
    for item in plan.patchsets:
        fine = [group.id for group in item.groups
                if group.selected and group.outcome is Outcome.APPLICABLE]
        if fine:
            return command("apply", typed(item.patchset), fine)
    return f"sm-patch scan {plan.packages[0] if plan.packages else ''}".rstrip()


def reverted(names: Sequence[str], files: Sequence[str], left: Sequence[str],
             caches: Iterable[CacheAction], restart: Sequence[Mapping[str, Any]], *,
             check: bool) -> Iterator[str]:
    """What revert did: which patchsets left, which files changed, what remains applied."""
    verb = "would revert" if check else "reverted"
    count = f"{len(files)} file{'' if len(files) == 1 else 's'}"
    if names:
        yield f"{verb} {', '.join(names)}: {count}"
    else:
        yield f"nothing to do: {'that' if left else 'nothing'} is {'not ' if left else ''}applied"
    yield from _listed(files)
    yield from _around(caches, restart)
    if left:
        yield f"still applied: {', '.join(left)}"
    yield "next: sm-patch status"


def _listed(files: Sequence[str]) -> Iterator[str]:
    """Each file, or how many of each folder where they would fill more than a screen."""
    if len(files) <= _SCREEN:
        yield from (f"  {path}" for path in files)
        return
    counts = Counter[str]()
    for depth in range(1, _DEEPEST):
        deeper = Counter("/".join(path.split("/")[:-1][:depth]) for path in files)
        if counts and len(deeper) > _SCREEN:
            break
        counts = deeper
    for folder, count in sorted(counts.items()):
        yield f"  {folder or '.'}/: {count} file{'' if count == 1 else 's'}"


def _around(caches: Iterable[CacheAction], restart: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for action in caches:
        said = "" if action.action in (Action.DELETE, Action.REMOVE) else f": {action.reason}"
        yield f"cache {action.cache}: {action.action.value} {action.path}{said}"
    for process in restart:
        yield f"restart: {process['pid']} still runs the code from before ({process['file']})"
