"""The truth of a condition in all worlds, remembered with the macro values it read."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple, Protocol

from patcher.arch import ALL_BITS
from patcher.cuda.expand import Expander, Token, plain
from patcher.cuda.expression import OpenToken, Parser, evaluate
from patcher.cuda.predefined import HostAnswers
from patcher.cuda.problems import MAX_CONDITION, Malformed, TooComplex
from patcher.cuda.state import State
from patcher.cuda.tokens import Tokens, significant, tokenise
from patcher.cuda.values import Builtin, Macro, Mixed, Open, Value

REMEMBERED = 12  # results per condition


class Truths(NamedTuple):
    """The worlds in which a condition holds and in which not; ``names`` decide the rest."""

    true: int
    false: int
    names: tuple[str, ...] = ()
    problem: str = ""


class Known(NamedTuple):
    """What a condition came to where these names stood for these values."""

    names: tuple[str, ...]
    values: tuple[Value, ...]
    truths: Truths


class Earlier(Protocol):
    """Results of earlier processes."""

    def of(self, condition: str) -> list[Known]: ...

    def save(self, known: Mapping[str, Sequence[Known]]) -> None: ...


class Place(Protocol):
    """Where the condition stands."""

    line: int
    level: int

    def spend(self, work: int) -> None:
        """Account for so many tokens; raises TooComplex when the unit's share is used up."""

    def has_include(self, include: str, *, following: bool) -> bool: ...


class WorldScope:
    """Names as one world sees them. ``same`` shrinks to the worlds that see the same."""

    def __init__(self, state: State, answers: HostAnswers, place: Place) -> None:
        self._table = state.table
        self._answers = answers
        self._place = place
        self.reads: dict[str, Value] = {}
        self.world = 1
        self.same = ALL_BITS
        self.deciders: frozenset[str] = frozenset()  # of the open names met in this world
        self.asked: set[str] = set()  # what depends on more than macros

    def spend(self, work: int) -> None:
        self._place.spend(work)

    def enter(self, world: int) -> None:
        self.world = world
        self.same = ALL_BITS
        self.deciders = frozenset()

    def lookup(self, name: str) -> Macro | Open | Builtin | None:
        value = self._table[name]
        self.reads[name] = value
        if isinstance(value, Mixed):
            for mask, part in value.parts:
                if mask & self.world:
                    self.same &= mask
                    value = part
                    break
        if isinstance(value, Open):
            self.deciders |= frozenset(value.deciders)
        return value if isinstance(value, Macro | Open | Builtin) else None

    def builtin(self, name: str, arguments: Tokens | None) -> str | None:
        if arguments is not None:
            return self._question(name, significant(arguments))
        if name == "__COUNTER__":  # counts in the text, which is not expanded here
            return OpenToken.of(name, (name,))
        if name in ("__LINE__", "__INCLUDE_LEVEL__"):
            self.asked.add(name)
            return str(self._place.line if name == "__LINE__" else self._place.level)
        return '""'  # __FILE__, __DATE__ and the like: a string, which no condition may hold

    def _question(self, name: str, arguments: list[str]) -> str:
        if name.startswith("__has_include"):
            include = "".join(arguments)
            if include[:1] not in ("<", '"') or len(include) < 3:
                raise Malformed(f"{name} needs a header")
            self.asked.add(name)
            found = self._place.has_include(include, following=name.endswith("next"))
            return str(int(found))
        return self._answers.ask(name, "".join(arguments))


class Conditions:
    """Evaluates conditions and remembers the results."""

    def __init__(self) -> None:
        self._memo: dict[str, list[Known]] = {}
        self.earlier: Earlier | None = None
        self.evaluations = 0

    def save(self) -> None:
        """Keep the results for later processes."""
        if self.earlier is not None:
            self.earlier.save(self._memo)

    def truths(self, text: str, state: State, answers: HostAnswers,
               place: Place) -> tuple[Truths, Collection[str]]:
        """The truths, and what was asked besides macros: they hold only right here then, and
        are not remembered. That shows when a condition is evaluated, not in its text: a macro
        may ask."""
        known = self._results(text)
        for names, values, truths in known:
            if state.table.agrees(names, values):
                state.note(names, values)
                return truths, ()
        scope = WorldScope(state, answers, place)
        truths = self._evaluate(text, scope)
        names, values = tuple(scope.reads), tuple(scope.reads.values())
        state.note(names, values)
        if not scope.asked:
            known.insert(0, Known(names, values, truths))
            del known[REMEMBERED:]
        return truths, scope.asked

    def _results(self, text: str) -> list[Known]:
        known = self._memo.get(text)
        if known is None:
            known = self._memo[text] = self.earlier.of(text) if self.earlier is not None else []
        return known

    def _evaluate(self, text: str, scope: WorldScope) -> Truths:
        if len(text) > MAX_CONDITION:
            return Truths(0, 0, (text[:80],), "the condition is too long")
        tokens = plain(tokenise(text))
        true = false = 0
        names: set[str] = set()
        problem = ""
        pending = ALL_BITS
        while pending:
            self.evaluations += 1
            scope.enter(pending & -pending)
            value: bool | frozenset[str]
            try:
                value = _value(tokens, scope)
            except Malformed as error:
                # what an open name stands for may be what is missing
                value = scope.deciders or False
                problem = problem if value else str(error)
            except TooComplex as error:
                value, problem = frozenset([text[:80]]), str(error)
                scope.same = ALL_BITS  # trying the other worlds would take as long again
            worlds = scope.same & pending
            pending &= ~worlds
            if isinstance(value, frozenset):
                names |= value
            elif value:
                true |= worlds
            else:
                false |= worlds
        return Truths(true, false, tuple(sorted(names)), problem)


def _value(tokens: list[Token], scope: WorldScope) -> bool | frozenset[str]:
    expanded = Expander(scope).expand(tokens, condition=True)
    value = evaluate(Parser(significant([text for text, _ in expanded])).parse())
    return value if isinstance(value, frozenset) else bool(value[0])


def computed_include(text: str, scope: WorldScope) -> str:
    """An include made by macros, in the scope's world: ``<name>``, ``"name"`` or what came out."""
    expanded = Expander(scope).expand(plain(tokenise(text)), condition=False)
    words = [word for word, _ in expanded if word]
    spelled = "".join(words).strip()
    if spelled.startswith('"'):
        return next(word for word in words if word != " ")
    return spelled[: spelled.find(">") + 1] if spelled.startswith("<") else spelled
