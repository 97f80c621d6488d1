"""A second opinion on single conditions: pcpp's, at their place and with the macros of there.

pcpp is an independent preprocessor. It is far too slow for a walk and lacks much (alternative
tokens, ``__has_include`` and its relatives), so it is asked only about conditions that tell
worlds apart, and what it cannot judge is counted.
"""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from patcher.arch import ALL_BITS, DEVICE, HOST_BIT, target
from patcher.cuda.conditions import Conditions, Place, Truths
from patcher.cuda.predefined import HostAnswers
from patcher.cuda.state import State, Table
from patcher.cuda.tokens import ALTERNATIVE, is_identifier, tokenise
from patcher.cuda.values import Macro, parts_of

WORLDS = (*(1 << target(name).index for name in (
    "sm_80", "sm_90a", "sm_100a", "sm_103a", "sm_120", "sm_120a", "sm_121a")), HOST_BIT)
_MAX_MACROS = 400  # in one condition; the numeric tables of some libraries have thousands


@dataclass(frozen=True, slots=True)
class Disagreement:
    """One condition in one world (a target's name, or host) on which the two differ."""

    condition: str
    world: str
    ours: bool
    theirs: bool


class CheckedConditions(Conditions):
    """Conditions that are evaluated twice, in some worlds (bits by number)."""

    def __init__(self, worlds: Sequence[int] = WORLDS) -> None:
        super().__init__()
        self._worlds = worlds
        self._known: dict[tuple[str, tuple[str, ...]], bool | None] = {}
        self.compared = 0
        self.skipped: Counter[str] = Counter()
        self.disagreements: list[Disagreement] = []

    def truths(self, text: str, state: State, answers: HostAnswers,
               place: Place) -> tuple[Truths, Collection[str]]:
        found, asked = super().truths(text, state, answers, place)
        if found.true not in (0, ALL_BITS) and not found.problem:
            for world in self._worlds:
                if (found.true | found.false) & world:
                    self._compare(text, state.table, world, bool(found.true & world))
        return found, asked

    def summary(self) -> str:
        """What was compared and what not, in one line."""
        left = ", ".join(f"{n} {why}" for why, n in self.skipped.most_common())
        return (f"{self.compared} evaluations compared with pcpp's, "
                f"{len(self.disagreements)} differ" + (f"; left out: {left}" if left else ""))

    def _compare(self, text: str, table: Table, world: int, ours: bool) -> None:
        macros = _macros(text, table, world)
        if isinstance(macros, str):
            self.skipped[macros] += 1
            return
        key = (text, macros)
        if key in self._known:
            return
        theirs = self._known[key] = _ask(text, macros)
        if theirs is None:
            self.skipped["pcpp cannot evaluate it"] += 1
            return
        self.compared += 1
        if theirs != ours:
            names = [t.name for t in DEVICE if world == 1 << t.index]
            name = "host" if world == HOST_BIT else names[0]
            self.disagreements.append(Disagreement(text, name, ours, theirs))


def _macros(text: str, table: Table, world: int) -> tuple[str, ...] | str:
    """The definitions that a condition can come to, as text; or why it cannot be judged."""
    wanted, found = [text], {}
    while wanted:
        for token in tokenise(wanted.pop()):
            if token in ALTERNATIVE:
                return "alternative tokens"
            if not is_identifier(token) or token in found:
                continue
            value = next(part for mask, part in parts_of(table.get(token)) if mask & world)
            if value is None:
                continue
            if not isinstance(value, Macro):
                return "only a compiler knows" if token.startswith("_") else "unknown macros"
            found[token] = _definition(token, value)
            wanted.append(value.body)
            if len(found) > _MAX_MACROS:
                return "too many macros"
    return tuple(sorted(found.values()))


def _definition(name: str, macro: Macro) -> str:
    if macro.parameters is None:
        return f"{name} {macro.body}"
    listed = ",".join(macro.parameters)
    if macro.variadic:
        listed = listed.removesuffix("__VA_ARGS__") + "..."
    return f"{name}({listed}) {macro.body}"


def _ask(text: str, macros: tuple[str, ...]) -> bool | None:
    from pcpp import OutputDirective, Preprocessor

    class Quiet(Preprocessor):  # type: ignore[misc]
        failed = False

        def on_error(self, file: str, line: int, msg: str) -> None:
            self.failed = True

        def on_unknown_macro_in_defined_expr(self, tok: Any) -> bool:
            return False

        def on_unknown_macro_in_expr(self, ident: str) -> int:
            return 0

    asked = Quiet()
    for macro in macros:
        asked.define(macro)
    out = io.StringIO()
    try:
        asked.parse(f"#if {text}\nyes\n#else\nno\n#endif\n")
        asked.write(out)
    except (RecursionError, ValueError, TypeError, IndexError, OutputDirective):
        return None
    words = out.getvalue().split()
    if asked.failed or words[-1:] not in (["yes"], ["no"]):
        return None
    return words[-1] == "yes"
