"""In which worlds a condition on nothing but the architecture holds."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from patcher.arch import HOST_BIT, known_targets
from patcher.cuda.expression import Parser, evaluate
from patcher.cuda.problems import Malformed, TooComplex
from patcher.cuda.tokens import is_identifier, significant, tokenise


def truths(conditions: Iterable[str]) -> list[int]:
    """The worlds, as bits, in which each condition is true; undefined names are 0, as in C.

    Conditions are on one line, without comments. Raises ValueError for one that
    a compiler would report as an error in some world.
    """
    return [_truth(tuple(significant(tokenise(text)))) for text in conditions]


@lru_cache(maxsize=4096)
def _truth(tokens: tuple[str, ...]) -> int:
    answers: dict[tuple[str, ...], bool] = {}
    bits = 0
    for bit, macros in _worlds():
        seen = tuple(_substituted(tokens, macros))
        if seen not in answers:
            answers[seen] = _holds(list(seen))
        bits |= bit if answers[seen] else 0
    return bits


@lru_cache(maxsize=1)
def _worlds() -> list[tuple[int, dict[str, str]]]:
    device = [(1 << target.index, target.macros) for target in known_targets()]
    return [*device, (HOST_BIT, {})]


def _substituted(tokens: tuple[str, ...], macros: dict[str, str]) -> Iterable[str]:
    position = 0
    while position < len(tokens):
        token = tokens[position]
        if token == "defined":
            bracket = tokens[position + 1:position + 2] == ("(",)
            name = "".join(tokens[position + 1 + bracket:position + 2 + bracket])
            yield str(int(name in macros))
            position += 4 if bracket else 2
            continue
        if is_identifier(token):
            token = macros.get(token, "0")
        if token:
            yield token
        position += 1


def _holds(tokens: list[str]) -> bool:
    try:
        value = evaluate(Parser(tokens).parse())
    except (Malformed, TooComplex) as error:
        raise ValueError(f"{' '.join(tokens)}: {error}") from None
    return not isinstance(value, frozenset) and bool(value[0])
