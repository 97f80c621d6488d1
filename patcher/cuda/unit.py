"""One unit's walk: the rows of its files, for all worlds at once."""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Sequence

from patcher.arch import ALL_BITS
from patcher.cuda.conditions import Conditions, Truths, WorldScope, computed_include
from patcher.cuda.files import Files, LoadedRow
from patcher.cuda.includes import Found, Lookup, SearchPath
from patcher.cuda.ladder import LadderWalk
from patcher.cuda.model import Missing
from patcher.cuda.predefined import HostAnswers
from patcher.cuda.problems import MAX_LADDERS, MAX_NESTING, MAX_WORK, Malformed, TooComplex
from patcher.cuda.record import Memo, Record
from patcher.cuda.skeleton import Op, Test
from patcher.cuda.state import State, worlds_defined
from patcher.cuda.values import VISITED, Mixed, Open, Saved, Value, Values, parts_of

_IF, _ELIF, _END, _DEFINE, _UNDEF = int(Op.IF), int(Op.ELIF), int(Op.END), int(Op.DEFINE), int(
    Op.UNDEF)
_ARM = (_IF, _ELIF)
_VISIT_COST = 400  # in rows; a walk of a tiny file costs as much
_INCLUDE, _ONCE, _PUSH = int(Op.INCLUDE), int(Op.ONCE), int(Op.PUSH)


class UnitWalk:
    """Holds what is specific to one unit; everything shared is passed in."""

    def __init__(self, files: Files, values: Values, memo: Memo, conditions: Conditions,
                 search: SearchPath, answers: HostAnswers, state: State) -> None:
        self._files = files
        self._values = values
        self._memo = memo
        self._conditions = conditions
        self._search = search
        self._answers = answers
        self._state = state
        self._record = Record("", ALL_BITS, 0)
        self._found = Found("", "")
        self._path = ""
        self._budget = MAX_WORK
        self.level = -1
        self.line = 0

    def start(self, path: str, forced: Sequence[str]) -> Record:
        """Walk a unit; the record's first children are its forced includes."""
        self._found = Found(path, "")
        self._path = path
        self._state.noting = False
        for name in forced:
            self._include(f'"{name}"', None, ALL_BITS, 0, ())
        self._visit(Found(path, ""), ALL_BITS, 0, ())
        return self._record

    # what conditions ask (conditions.Place)

    def has_include(self, include: str, *, following: bool) -> bool:
        return self._look(include, following=following) is not None

    def spend(self, work: int) -> None:
        if self._budget < 0:
            raise TooComplex("the unit takes too long, the rest is unknown")
        self._budget -= work

    def _look(self, include: str, *, following: bool) -> Found | None:
        here = self._found
        beside = posixpath.dirname(here.path) if include[0] == '"' else ""
        after = here.folder if following and self.level > 0 else None
        lookup: Lookup = (beside, include, after)
        found = self._search.find(lookup)
        self._record.lookups.append((lookup, found))
        return found

    def warn(self, problem: str) -> None:
        self._record.warnings.append(f"{self._found.path}:{self.line}: {problem}")

    # files

    def _visit(self, found: Found, worlds: int, maybe: int, names: tuple[str, ...]) -> None:
        file = self._files.load(found.path)
        if isinstance(file, str):
            self.warn(file)
            self._lose(found.path, worlds)
            return
        state = self._state
        if file.once:
            worlds &= ~_visited(state.read(file.once))
            maybe &= worlds
            if not worlds:
                return
        if self.level >= MAX_NESTING - 1 or self._budget < 0:  # gcc counts the unit, too
            self._give_up(found.path)
            return
        key = (found.path, found.folder if file.uses_next else None, worlds, maybe, names,
               file.digest)
        record = self._memo.find(key, state.table, self._search)
        if record is not None:
            self._record.children.append(record)
            self._record.lost |= record.lost
            state.note(record.names, record.values)
            state.replay(record.writes)
            return
        record = Record(found.path, worlds, maybe)
        record.warnings += [f"{found.path}:{warning}" for warning in file.warnings]
        outer = (self._record, self._found, self.line, state.reads, state.writes, state.noting)
        self._record, self._found, state.reads, state.writes = record, found, {}, {}
        # the unit itself comes once, and it wrote every macro there is
        whole = found.path == self._path and self.level < 0
        state.noting = not whole
        self.level += 1
        self._budget -= len(file.rows) + _VISIT_COST
        self._walk(file.rows, worlds, maybe, names)
        self.level -= 1
        record.names, record.values = tuple(state.reads), tuple(state.reads.values())
        record.writes = state.writes
        self._record, self._found, self.line, state.reads, state.writes, state.noting = outer
        self._record.children.append(record)
        self._record.repeatable &= record.repeatable
        self._record.lost |= record.lost
        if whole:
            record.names, record.values, record.writes = (), (), {}
            return
        if record.repeatable:
            self._memo.keep(key, record)
        state.note(record.names, record.values)
        if state.noting:
            state.writes.update(record.writes)

    def _give_up(self, path: str) -> None:
        self._record.repeatable = False
        if self._budget >= 0:
            self.warn(f"{path} is included {MAX_NESTING} levels deep and was left out")
        elif self._budget > -(1 << 60):
            self._budget = -(1 << 60)
            self.warn(f"{path}: the unit is too large, the rest was left out")

    # rows

    def _walk(self, rows: Sequence[LoadedRow], live: int, maybe: int,
              names: tuple[str, ...]) -> None:
        state = self._state
        write = state.write
        stack: list[LadderWalk] = []
        at, end = 0, len(rows)
        while at < end:
            row = rows[at]
            at += 1
            op = row[0]
            if op == _DEFINE:
                write(row[2], row[3], live)
            elif op in _ARM:
                if op == _IF:
                    if len(stack) >= MAX_LADDERS:
                        self.line = row[1]
                        self.warn(f"more than {MAX_LADDERS} #ifs within each other")
                        break
                    stack.append(LadderWalk(state, self._values, live, maybe, names))
                ladder = stack[-1]
                self.line = row[1]
                if ladder.left:
                    if ladder.fork is not None:
                        ladder.end_arm()
                    live = ladder.enter(row, self._test(row), self)
                    maybe, names = ladder.arm_maybe, ladder.arm_names
                else:
                    live = ladder.skip(row)
                if not live:
                    at = row[4]
            elif op == _END:
                ladder = stack.pop()
                self._record.ladders.append(ladder.close())
                live, maybe, names = ladder.live, ladder.maybe, ladder.names
            else:
                self.line = row[1]
                self._other(row, live, maybe, names)
        while stack:  # only where the walk was given up
            self._record.ladders.append(stack.pop().close())

    def _other(self, row: LoadedRow, live: int, maybe: int, names: tuple[str, ...]) -> None:
        op = row[0]
        if op == _INCLUDE:
            self._include(row[2], row[3], live, maybe, names)
        elif op == _UNDEF:
            self._state.write(row[2], None, live)
        elif op == _ONCE:
            self._state.write(self._files.once_key(self._found.path), VISITED, live)
        elif op == _PUSH:
            stack = "%" + row[2]
            saved = self._values.saved(self._state.read(row[2]), self._state.read(stack))
            self._state.write(stack, saved, live)
        else:
            self._pop(row[2], live)

    def _pop(self, name: str, live: int) -> None:
        for mask, saved in parts_of(self._state.read("%" + name)):
            if mask & live and isinstance(saved, Saved):
                self._state.write(name, saved.top, mask & live)
                self._state.write("%" + name, saved.below, mask & live)

    def _test(self, row: LoadedRow) -> Truths:
        test, text = row[2], row[3]
        if test == Test.DEFINED:
            return Truths(*worlds_defined(self._state.read(text)))
        if test == Test.UNDEFINED:
            defined, undefined, names = worlds_defined(self._state.read(text))
            return Truths(undefined, defined, names)
        if test == Test.TRUE:
            return _TRUE
        if test == Test.FALSE:
            return _FALSE
        truths, asked = self._conditions.truths(text, self._state, self._answers, self)
        if asked:
            self._note_asked(asked, text)
        return truths

    def _note_asked(self, asked: Collection[str], text: str) -> None:
        """Whether a file may be remembered that asked this. One that itself says
        ``__has_include_next`` is remembered with the folder it was found in."""
        if "__INCLUDE_LEVEL__" in asked or (
                "__has_include_next" in asked and "__has_include_next" not in text):
            self._record.repeatable = False

    # includes

    def _include(self, text: str, is_next: int | None, live: int, maybe: int,
                 names: tuple[str, ...]) -> None:
        if text[:1] in ("<", '"') and text[-1:] in (">", '"') and len(text) > 2:
            self._enter(text, bool(is_next), live, maybe, names)
            return
        pending = live
        while pending:
            scope = WorldScope(self._state, self._answers, self)
            scope.enter(pending & -pending)
            try:
                spelled = computed_include(text, scope)
            except (Malformed, TooComplex) as error:
                self.warn(f"#include {text}: {error}")
                spelled = ""
            self._state.note(scope.reads.keys(), scope.reads.values())
            self._note_asked(scope.asked, text)
            worlds = scope.same & pending
            pending &= ~worlds
            if spelled[:1] in ("<", '"') and len(spelled) > 2:
                self._enter(spelled, bool(is_next), worlds, maybe & worlds, names)
            else:
                self._lose(text, worlds)

    def _enter(self, include: str, is_next: bool, live: int, maybe: int,
               names: tuple[str, ...]) -> None:
        found = self._look(include, following=is_next)
        if found is None:
            self._lose(include, live)
            return
        self._record.includes.append(found.path)
        self._visit(found, live, maybe, names)

    def _lose(self, include: str, worlds: int) -> None:
        self._record.missing.append(Missing(include, self._found.path, self.line))
        self._record.lost |= worlds
        self._state.table.lose(worlds)


def _visited(value: Value) -> int:
    """The worlds that surely included a file; after a fork it is walked again."""
    if value is VISITED:
        return ALL_BITS
    if isinstance(value, Mixed):
        return sum(mask for mask, part in value.parts
                   if part is not None and not isinstance(part, Open))
    return 0


_TRUE = Truths(ALL_BITS, 0)
_FALSE = Truths(0, ALL_BITS)
