"""The law: an edit under ``affects: asked`` changes the asked worlds and no other.

Checked on the real files by walking every unit that includes an edited file,
before and after, with all ladders recorded:

- for every world that is not asked, host included, each distinct inclusion of
  each file, in order, has the same arms open, closed, unreached and unknown, so
  the sequence of live lines outside the edits is equal; a text that is replaced
  must not be live in such a world at all;
- an opened arm lets the asked worlds pass in exactly the inclusions where some
  device world already passed it, and a closed arm lets them pass in none;
- no gate that was hidden from an asked world, and now is reached, leaves it with
  nothing where a reference has something.

Pure over walk reports: ``patcher.lawful`` gets those from a package.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from patcher.arch import DEFAULT_REFERENCES, DEVICE, EMPTY, ArchSet
from patcher.cuda.directives import SourceFile, parse
from patcher.cuda.model import UNREACHED, ArmState, Context, UnitReport
from patcher.edits import Edit

_REFERENCES = ArchSet.of(*DEFAULT_REFERENCES)


@dataclass(frozen=True, slots=True)
class Rule:
    """Edits of one file (in the walked tree's coordinates) and the worlds they may change.

    ``opens`` is None for a text.
    """

    path: str
    edits: tuple[Edit, ...]
    effective: ArchSet
    opens: bool | None


@dataclass(frozen=True, slots=True)
class Breach:
    """One place where the law does not hold, with both sets of worlds."""

    unit: str
    path: str
    line: int
    what: str
    before: ArchSet
    after: ArchSet

    def __str__(self) -> str:
        return (f"{self.path}:{self.line} in {self.unit}: {self.what} "
                f"(before: {self.before}; after: {self.after})")


class EditedFile:
    """How the lines and arms of one edited file correspond before and after."""

    def __init__(self, path: str, data: bytes, rules: Iterable[Rule],
                 source: SourceFile | None = None) -> None:
        self.path = path
        self.source = source or parse(data)
        self.arms: dict[int, Rule] = {}
        self.texts: list[tuple[int, int, Rule]] = []
        self._shifts: list[tuple[int, int]] = []  # last line of an edit, lines added by it
        self.edits: tuple[Edit, ...] = ()
        for rule in rules:
            self.edits += rule.edits
            for edit in rule.edits:
                first = data.count(b"\n", 0, edit.span.start) + 1
                last = first + data.count(b"\n", edit.span.start, edit.span.end)
                self._shifts.append((last, edit.new.count(b"\n") - (last - first)))
                arm = self._arm_at(edit) if rule.opens is not None else None
                if arm is None:
                    self.texts.append((first, last, rule))
                else:
                    self.arms[arm] = rule
        self._shifts.sort()
        self.lines = {line: self.after(line) for line in self.source.arms
                      if not self.inside_text(line)}  # of unreplaced arms: before to after
        self.kept = {line: line for line in self.lines.values()}

    def _arm_at(self, edit: Edit) -> int | None:
        for line, (_, arm) in self.source.arms.items():
            if arm.word.start <= edit.span.start and edit.span.end <= arm.span.end:
                return line
        return None

    def after(self, line: int) -> int:
        """Where an unedited line stands after the edits."""
        index = bisect_right(self._shifts, (line - 1, 1 << 60))
        return line + sum(added for _, added in self._shifts[:index])

    def inside_text(self, line: int) -> bool:
        return any(first <= line <= last for first, last, _ in self.texts)


def breaches(before: UnitReport, after: UnitReport, files: Mapping[str, EditedFile],
             parsed: Callable[[str], SourceFile]) -> Iterator[Breach]:
    """Every way in which this unit breaks the law. Both reports need ``every=True``.

    ``parsed`` gives the ladders of a file that is not edited.
    """
    asked, opened = EMPTY, EMPTY
    for file in files.values():
        for rule in (*file.arms.values(), *(rule for _, _, rule in file.texts)):
            asked |= rule.effective
            opened |= rule.effective if rule.opens else EMPTY
    unit = before.unit.path
    for path in sorted(set(before.contexts) | set(after.contexts)):
        old, new = before.contexts.get(path, ()), after.contexts.get(path, ())
        if old != new:
            edited = files.get(path)
            yield from _others(unit, path, old, new, ~asked, edited)
            yield from _revealed(unit, edited or _unedited(path, parsed(path)), old, new, opened)
    for path, file in sorted(files.items()):
        old, new = before.contexts.get(path, ()), after.contexts.get(path, ())
        for line, rule in sorted(file.arms.items()):
            yield from _arm(unit, file, line, rule, old, new)
        yield from _texts(unit, file, old)


def _unedited(path: str, source: SourceFile) -> EditedFile:
    return EditedFile(path, b"", (), source)


def _restricted(state: ArmState, worlds: int) -> tuple[int, int, int, int]:
    return (state.open & worlds, state.closed & worlds, state.unreached & worlds,
            state.unknown & worlds)


_Key = tuple[int, int, frozenset[tuple[int, tuple[int, int, int, int]]]]


def _key(context: Context, worlds: int, lines: Mapping[int, int] | None = None) -> _Key:
    """One inclusion as the given worlds see it; ``lines`` maps and selects its arms.

    An arm that none of these worlds reaches counts as absent, as in a region the
    walk has skipped.
    """
    arms = frozenset((line if lines is None else lines[line], _restricted(state, worlds))
                     for line, state in context.arms.items()
                     if worlds & ~state.unreached and (lines is None or line in lines))
    return context.worlds & worlds, context.maybe & worlds, arms


def _others(unit: str, path: str, old: Iterable[Context], new: Iterable[Context],
            others: ArchSet, file: EditedFile | None) -> Iterator[Breach]:
    """Worlds that are not asked must see the same inclusions with the same arms."""
    lines, kept = (file.lines, file.kept) if file is not None else (None, None)
    was = _distinct(_key(c, others.bits, lines) for c in old if c.worlds & others.bits)
    now = _distinct(_key(c, others.bits, kept) for c in new if c.worlds & others.bits)
    if was == now:
        return
    line, one, two = _first_difference(set(was) - set(now), set(now) - set(was))
    yield Breach(unit, path, line, "a world that was not asked sees other lines",
                 ArchSet(one), ArchSet(two))


def _distinct(keys: Iterable[_Key]) -> tuple[_Key, ...]:
    """In order: two inclusions that trade their lines are not what they were."""
    return tuple(dict.fromkeys(keys))


def _first_difference(was: set[_Key], now: set[_Key]) -> tuple[int, int, int]:
    """The first arm whose open worlds differ: its line, and both sets."""
    def open_of(keys: set[_Key]) -> dict[int, int]:
        found: dict[int, int] = {}
        for _, _, arms in keys:
            for line, state in arms:
                found[line] = found.get(line, 0) | state[0] | state[3]
        return found

    one, two = open_of(was), open_of(now)
    for line in sorted(set(one) | set(two)):
        if one.get(line, 0) != two.get(line, 0):
            return line, one.get(line, 0), two.get(line, 0)
    worlds = [0, 0]
    for index, keys in enumerate((was, now)):
        for key in keys:
            worlds[index] |= key[0]
    return 1, worlds[0], worlds[1]


def _arm(unit: str, file: EditedFile, line: int, rule: Rule, old: Iterable[Context],
         new: Iterable[Context]) -> Iterator[Breach]:
    """An edited arm in the asked worlds, inclusion by inclusion."""
    asked, others = rule.effective.bits, (DEVICE - rule.effective).bits
    place = file.after(line)
    held: dict[_Key, int] = {}
    for context in old:
        if line in context.arms:
            key = _key(context, others, file.lines)
            held[key] = held.get(key, 0) | (context.arms[line].live & asked)
    for context in new:
        if place not in context.arms:
            continue
        state = context.arms[place]
        allowed = held.get(_key(context, others, file.kept), 0)
        live, sure = state.live & asked, state.open & asked
        if rule.opens is False:
            if live:
                yield _breach(unit, file, line, "stays open", allowed, live)
        elif state.open & others:
            if sure != asked:
                yield _hidden(unit, file, line, place, context, asked & ~sure, sure)
        elif state.unknown & others:
            if live != asked:
                yield _hidden(unit, file, line, place, context, asked & ~live, live)
        elif live & ~allowed:
            yield _breach(unit, file, line, "opens where no device world passed", allowed, live)


def _revealed(unit: str, file: EditedFile, old: Iterable[Context], new: Iterable[Context],
              asked: ArchSet) -> Iterator[Breach]:
    """Gates behind the opened one that keep an asked world out, with no other arm for it."""
    others = (~asked).bits
    hidden: dict[tuple[_Key, int], int] = {}
    for context in old:
        key = _key(context, others, file.lines)
        for line in file.lines:
            state = context.arms.get(line)
            if state is not None:
                hidden[key, line] = hidden.get((key, line), 0) | (state.unreached & asked.bits)
    for context in new:
        key = _key(context, others, file.kept)
        for line, place in file.lines.items():
            state = context.arms.get(place)
            if state is None or line in file.arms or not state.open & _REFERENCES.bits & others:
                continue
            # an inclusion that only opened worlds enter was hidden from them altogether
            left = state.closed & context.worlds & hidden.get((key, line), asked.bits)
            ladder, _ = file.source.arms[line]
            for arm in ladder.arms:
                later = context.arms.get(file.after(arm.line)) if arm.line > line else None
                left &= ~later.live if later is not None else -1
            if left & asked.bits:
                yield Breach(unit, file.path, line, "was hidden behind the opened gate and still "
                             f"excludes {ArchSet(left & asked.bits)}", EMPTY, ArchSet(state.open))


def _breach(unit: str, file: EditedFile, line: int, what: str, before: int, after: int) -> Breach:
    return Breach(unit, file.path, line, what, ArchSet(before), ArchSet(after))


def _hidden(unit: str, file: EditedFile, line: int, place: int, context: Context,
            left: int, now: int) -> Breach:
    """The arm was opened, but something in front of it still keeps asked worlds out."""
    state = context.arms[place]
    ladder, _ = file.source.arms[line]
    parent = ladder.parent
    if state.unknown & left:
        why = f"is unknown, {', '.join(state.decided_by) or 'an include'} would decide"
    elif state.unreached & left and any(_takes(context, file, arm.line, left)
                                        for arm in ladder.arms if arm.line < line):
        why = "is not reached: an earlier arm of its ladder is taken"
    elif state.unreached & left and parent is not None:
        why = f"is not reached: the gate at line {parent} still excludes"
    elif left & ~context.worlds:
        why = "is not reached: this file is not included there"
    else:
        why = "stays closed"
    return Breach(unit, file.path, line, f"for {ArchSet(left)} it {why}",
                  ArchSet(0), ArchSet(now))


def _takes(context: Context, file: EditedFile, line: int, worlds: int) -> bool:
    state = context.arms.get(file.after(line))
    return state is not None and bool(state.open & worlds)


def _texts(unit: str, file: EditedFile, old: Iterable[Context]) -> Iterator[Breach]:
    """A replaced text must not be live in a world that was not asked."""
    for first, last, rule in file.texts:
        for context in old:
            live = 0
            for line in range(first, last + 1):
                arm = file.source.enclosing(line)
                state = UNREACHED if arm is None else context.arms.get(arm.line, UNREACHED)
                live |= context.worlds if arm is None else state.live
            surplus = live & ~rule.effective.bits
            if surplus:
                yield _breach(unit, file, first, "the replaced text is live in worlds that were "
                              "not asked; say 'affects: all' and why", live, surplus)
                break
