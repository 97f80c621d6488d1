"""Macro expansion inside conditions and computed includes.

Prosser's algorithm: every token carries the set of macros that may not be
expanded in it any more. What a name stands for is asked of a ``Scope``.
"""

from __future__ import annotations

import re
from typing import Protocol

from patcher.cuda.expression import OpenToken
from patcher.cuda.problems import MAX_CONDITION, MAX_EXPANSION, Malformed, TooComplex
from patcher.cuda.tokens import Tokens, is_identifier, tokenise
from patcher.cuda.values import Builtin, Macro, Open

Hidden = frozenset[str]
Token = tuple[str, Hidden]

_NOTHING: Hidden = frozenset()
_PLACEMARKER = ("", _NOTHING)
_QUOTED = re.compile(r"[\"\\]")


class Scope(Protocol):
    """What expansion asks about names, in one world."""

    def lookup(self, name: str) -> Macro | Open | Builtin | None: ...

    def spend(self, work: int) -> None: ...

    def builtin(self, name: str, arguments: Tokens | None) -> str | None:
        """A built-in's replacement; None leaves the name alone."""


def plain(tokens: Tokens | list[str]) -> list[Token]:
    return [(token, _NOTHING) for token in tokens]


class Expander:
    """Expands one condition in one world; ``budget`` bounds what it may produce."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self._budget = MAX_EXPANSION
        self._depth = 0

    def expand(self, tokens: list[Token], *, condition: bool) -> list[Token]:
        """All macros replaced. In a condition ``defined X`` becomes 0 or 1 first.

        Raises Malformed for a call without its end, TooComplex past the budget.
        """
        self._depth += 1
        if self._depth > 100:
            raise TooComplex("macro arguments are nested too deep")
        pending = tokens[::-1]
        done: list[Token] = []
        while pending:
            text, hidden = token = pending.pop()
            if not text or not is_identifier(text) or text in hidden:
                done.append(token)
            elif text == "defined" and condition:
                done.append((self._defined(pending), _NOTHING))
            elif isinstance(text, OpenToken):
                done.append(token)
            else:
                self._replace(text, hidden, pending, done)
        self._depth -= 1
        return done

    def _replace(self, name: str, hidden: Hidden, pending: list[Token], done: list[Token]) -> None:
        value = self._scope.lookup(name)
        if value is None:
            done.append((name, hidden))
        elif isinstance(value, Open):
            done.append((OpenToken.of(name, value.deciders), hidden))
        elif isinstance(value, Builtin):
            done.append((self._call_builtin(name, pending), _NOTHING))
        elif value.parameters is None:
            body = self._substitute(value, {})
            self._push(pending, body, hidden | {name})
        else:
            self._call(name, hidden, value, pending, done)

    def _call(self, name: str, hidden: Hidden, macro: Macro, pending: list[Token],
              done: list[Token]) -> None:
        if not _opens(pending):
            done.append((name, hidden))
            return
        arguments, close_hidden = _collect(name, pending)
        bound = self._bind(name, macro, arguments)
        body = self._substitute(macro, bound)
        self._push(pending, body, (hidden & close_hidden) | {name})

    def _push(self, pending: list[Token], body: list[Token], hidden: Hidden) -> None:
        self.spend(len(body) + 1)
        pending.extend([(text, own | hidden) for text, own in reversed(body) if text])

    def _defined(self, pending: list[Token]) -> str:
        name = _next(pending)
        bracket = name == "("
        if bracket:
            name = _next(pending)
        if not name or not is_identifier(name) or (bracket and _next(pending) != ")"):
            return "0"  # an error in gcc, which goes on
        if isinstance(name, OpenToken):
            return name
        value = self._scope.lookup(name)
        return OpenToken.of(name, value.deciders) if isinstance(value, Open) else str(
            int(value is not None))

    def _call_builtin(self, name: str, pending: list[Token]) -> str:
        arguments: Tokens | None = None
        if name.startswith("__has_"):
            if not _opens(pending):
                raise Malformed(f"missing '(' after {name}")
            inner, _ = _collect(name, pending, split=False)
            tokens = _strip(inner[0])
            literal = name.startswith("__has_include") and tokens and tokens[0][0][0] in '<"'
            if not literal:
                tokens = self.expand(tokens, condition=False)
            arguments = tuple(text for text, _ in tokens if text)
        replacement = self._scope.builtin(name, arguments)
        return name if replacement is None else replacement

    def _bind(self, name: str, macro: Macro, arguments: list[list[Token]]) -> Bound:
        names = macro.parameters or ()
        given = len(arguments)
        if not names and given == 1 and not _strip(arguments[0]):
            given, arguments = 0, []
        if macro.variadic and given >= len(names):
            tail = arguments[len(names) - 1 :]
            joined = tail[0]
            for more in tail[1:]:
                joined = [*joined, (",", _NOTHING), *more]
            arguments = [*arguments[: len(names) - 1], joined]
        elif macro.variadic and given == len(names) - 1:
            pass
        elif given != len(names):
            raise Malformed(f"macro {name} takes {len(names)} arguments, not {given}")
        return {n: _Argument(_strip(a), self) for n, a in zip(names, arguments, strict=False)}

    def _substitute(self, macro: Macro, bound: Bound) -> list[Token]:
        if len(macro.body) > MAX_CONDITION:
            raise TooComplex("a macro is too long")
        return _Substitution(macro, macro.tokens, bound, self).run()

    def spend(self, count: int) -> None:
        """Account for tokens that came into being."""
        self._budget -= count
        self._scope.spend(count)
        if self._budget < 0:
            raise TooComplex("a macro expands without end")


class _Argument:
    """A macro's argument, raw and (once it is needed) expanded."""

    def __init__(self, raw: list[Token], expander: Expander) -> None:
        self.raw = raw
        self._expander = expander
        self._expanded: list[Token] | None = None

    @property
    def expanded(self) -> list[Token]:
        if self._expanded is None:
            self._expanded = self._expander.expand(self.raw, condition=False)
        self._expander.spend(len(self._expanded))
        return self._expanded


Bound = dict[str, _Argument]


class _Substitution:
    """Puts arguments into a macro's body: parameters, # and ##, __VA_OPT__."""

    def __init__(self, macro: Macro, body: Tokens, bound: Bound, expander: Expander) -> None:
        self._macro = macro
        self._body = body
        self._bound = bound
        self._expander = expander
        self._names = frozenset(macro.parameters or ())

    def run(self) -> list[Token]:
        body, out, at = self._body, list[Token](), 0
        while at < len(body):
            text = body[at]
            if text == "##" and out and at + 1 < len(body):
                at, right = self._piece(self._skip(at + 1), pasted=True)
                _paste(out, right or [_PLACEMARKER])
                continue
            at, piece = self._piece(at, pasted=self._next_is_paste(at))
            out += piece
        return out

    def _skip(self, at: int) -> int:
        while at < len(self._body) and self._body[at] == " ":
            at += 1
        return at

    def _next_is_paste(self, at: int) -> bool:
        if self._body[at] == "__VA_OPT__":
            return False
        after = self._skip(at + 1)
        return after < len(self._body) and self._body[after] == "##"

    def _piece(self, at: int, *, pasted: bool) -> tuple[int, list[Token]]:
        """The replacement of the token at ``at``, and where to go on."""
        text = self._body[at]
        if text == "#" and self._macro.parameters is not None:
            after = self._skip(at + 1)
            if after < len(self._body) and self._body[after] in self._names:
                argument = self._bound.get(self._body[after])
                return after + 1, [(_stringify(argument.raw if argument else []), _NOTHING)]
        if text == "," and pasted and self._swallows(at):
            return self._comma(at)
        if text == "__VA_OPT__" and self._macro.variadic:
            return self._optional(at)
        if text not in self._names:
            return at + 1, [(text, _NOTHING)]
        argument = self._bound.get(text)
        if argument is None:
            return at + 1, [_PLACEMARKER]
        return at + 1, (argument.raw or [_PLACEMARKER]) if pasted else argument.expanded

    def _swallows(self, at: int) -> bool:
        after = self._skip(self._skip(at + 1) + 1)
        names = self._macro.parameters or ()
        return self._macro.variadic and after < len(self._body) and self._body[after] == names[-1]

    def _comma(self, at: int) -> tuple[int, list[Token]]:
        """GNU's ``, ## __VA_ARGS__``: no comma when the argument was left out."""
        after = self._skip(self._skip(at + 1) + 1) + 1
        argument = self._bound.get((self._macro.parameters or ("",))[-1])
        if argument is None:
            return after, []
        return after, [(",", _NOTHING), *argument.expanded]

    def _optional(self, at: int) -> tuple[int, list[Token]]:
        start = self._skip(at + 1)
        depth, end = 0, start
        while end < len(self._body):
            depth += {"(": 1, ")": -1}.get(self._body[end], 0)
            if not depth:
                break
            end += 1
        variadic = self._bound.get((self._macro.parameters or ("",))[-1])
        if variadic is None or not any(t.strip() for t, _ in variadic.expanded):
            return end + 1, [_PLACEMARKER]
        inner = self._body[start + 1 : end]
        return end + 1, _Substitution(self._macro, inner, self._bound, self._expander).run()


def _next(pending: list[Token]) -> str:
    while pending:
        text = pending.pop()[0]
        if text != " ":
            return text
    return ""


def _opens(pending: list[Token]) -> bool:
    """Whether a call's "(" follows; it is taken then, white space before it too."""
    at = len(pending)
    while at and pending[at - 1][0] == " ":
        at -= 1
    if not at or pending[at - 1][0] != "(":
        return False
    del pending[at - 1 :]
    return True


def _collect(name: str, pending: list[Token], *, split: bool = True,
             ) -> tuple[list[list[Token]], Hidden]:
    """The arguments up to the closing parenthesis, and that one's hidden set."""
    arguments: list[list[Token]] = [[]]
    depth = 1
    while pending:
        token = pending.pop()
        text = token[0]
        depth += {"(": 1, ")": -1}.get(text, 0)
        if not depth:
            return arguments, token[1]
        if text == "," and depth == 1 and split:
            arguments.append([])
        else:
            arguments[-1].append(token)
    raise Malformed(f"unterminated call of {name}")


def _strip(tokens: list[Token]) -> list[Token]:
    low, high = 0, len(tokens)
    while low < high and tokens[low][0] == " ":
        low += 1
    while high > low and tokens[high - 1][0] == " ":
        high -= 1
    return tokens[low:high]


def _stringify(tokens: list[Token]) -> str:
    texts = (text for text, _ in tokens)
    return '"' + "".join(_QUOTED.sub(r"\\\g<0>", t) if t[-1:] in "\"'" else t for t in texts) + '"'


def _paste(out: list[Token], right: list[Token]) -> None:
    """Join the last token of ``out`` with the first of ``right``."""
    while out and out[-1][0] == " ":
        out.pop()
    if not out:
        out += right
        return
    left, hidden = out.pop()
    joined = tokenise(left + right[0][0]) if left + right[0][0] else ("",)
    common = hidden & right[0][1] if left and right[0][0] else hidden | right[0][1]
    out += [(text, common) for text in joined]
    out += right[1:]
