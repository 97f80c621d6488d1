"""Find checks of the device's capability: check macros, and branches that refuse."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from patcher.arch import ArchSet, Target, known_targets
from patcher.cuda.effects.outline import Function, outline
from patcher.cuda.effects.tokens import Kind, Token, bare_code, blank_comments, tokens
from patcher.gates import Effect, Gate, Layer, Location, Worlds
from patcher.host.values import Value, Values, evaluate, table, words

_CONSTANT = re.compile(
    rb"\b(?:constexpr|const)\b[^;=(){}\n]{0,80}\b([A-Za-z_]\w*)\s*=\s*(\d{1,4})\s*;"
)


def worth_reading(data: bytes) -> bool:
    """False when the source cannot ask for the device's capability."""
    return any(word in data for word in _triggers())


def _triggers() -> tuple[bytes, ...]:
    names = [*words("number"), *words("pair"), *words("attributes"), *words("properties")]
    return tuple(name.encode() for name in names)


def constants(sources: Iterable[bytes]) -> dict[str, int]:
    """Integer constants of these sources; a name with two values is left out."""
    found: dict[str, set[int]] = {}
    for data in sources:
        for match in _CONSTANT.finditer(data):
            found.setdefault(match[1].decode(), set()).add(int(match[2]))
    return {name: values.pop() for name, values in found.items() if len(values) == 1}


def find_host_gates(path: str, data: bytes, known: Mapping[str, int] | None = None) -> list[Gate]:
    """Checks in one C++ file that some target fails and another passes.

    ``known`` are constants of other files. Gates come in source order; their
    ``open`` holds the targets for which control goes on.
    """
    if not worth_reading(data):
        return []
    code = blank_comments(data)
    functions = outline(bare_code(code)).functions
    all_tokens = _plain(code, 1)
    whole = Values(constants={**constants([data]), **(known or {})})
    whole.learn(all_tokens)
    members = {n: v for n, v in whole.single.items() if n.endswith("_") or re.match(r"m[A-Z]", n)}
    telling = [*_triggers(), *(name.encode() for name in members)]
    gates: list[Gate] = []
    for function in functions:
        start = max(code.rfind(b";", 0, function.first), code.rfind(b"}", 0, function.first)) + 1
        text = code[start : function.last]
        if not any(name in text for name in telling):
            continue  # nothing in it can depend on the device
        body = _plain(text, code.count(b"\n", 0, start) + 1)
        values = Values(dict(members), constants=whole.constants)
        values.learn(body)
        texts = [token.text for token in body]
        ifs = tuple(_ifs(texts, values))
        for check in _checks(texts, values, ifs):
            gates.append(_gate(path, function, body, check, _reached(check.first, ifs)))
    gates.sort(key=lambda gate: gate.location.line)
    return [gate for gate in gates if gate.worlds.open and gate.worlds.closed]


def _plain(code: bytes, line: int) -> tuple[Token, ...]:
    return tuple(t for t in tokens(code, line) if t.kind is not Kind.DIRECTIVE)


@dataclass(frozen=True, slots=True)
class _Check:
    """A condition and the tokens it stands between; ``passed`` is 1 where control goes on."""

    rule: str
    condition: str
    first: int
    last: int
    passed: Value


@dataclass(frozen=True, slots=True)
class _If:
    """``if`` with its two parts as token ranges; the second may be empty."""

    first: int
    condition: Sequence[str]
    value: Value | None
    then: range
    other: range


def _ifs(texts: Sequence[str], values: Values) -> Iterator[_If]:
    for position, text in enumerate(texts[:-1]):
        if text == "if" and texts[position + 1] == "(":
            end = _closing(texts, position + 1)
            inner = texts[position + 2 : end]
            then = range(end + 1, _statement_end(texts, end + 1))
            other = range(0)
            if texts[then.stop : then.stop + 1] == ["else"]:
                other = range(then.stop + 1, _statement_end(texts, then.stop + 1))
            yield _If(position, inner, evaluate(inner, values), then, other)


def _checks(texts: Sequence[str], values: Values, ifs: Sequence[_If]) -> Iterator[_Check]:
    for position, text in enumerate(texts[:-1]):
        if text in words("checks") and texts[position + 1] == "(":
            end = _closing(texts, position + 1)
            parts = _arguments(texts[position + 2 : end])
            operator = table("checks")[text]
            tested = parts[0]
            if operator and len(parts) > 1:
                tested = [*parts[0], operator, *parts[1]]
            value = evaluate(tested, values)
            if value is not None:
                yield _Check("check", _spelled(tested), position, end, value)
    for branch in ifs:
        if branch.value is None or None in branch.value:
            continue
        condition = _spelled(branch.condition)
        if _refuses(texts[branch.then.start : branch.then.stop]):
            passed: Value = tuple(int(not v) for v in branch.value)
            yield _Check("refusing-branch", f"!({condition})", branch.first,
                         branch.then.stop - 1, passed)
        elif texts[branch.other.start : branch.other.start + 1] == ["{"] and _refuses(
            texts[branch.other.start : branch.other.stop]
        ):
            yield _Check("guarded-branch", condition, branch.first, branch.other.stop - 1,
                         branch.value)


def _reached(position: int, ifs: Sequence[_If]) -> list[bool]:
    """Per target, whether the enclosing branches may let control come here."""
    reached = [True] * len(known_targets())
    for branch in ifs:
        if branch.value is not None and (position in branch.then or position in branch.other):
            wanted = position in branch.then
            reached = [
                r and (v is None or bool(v) is wanted)
                for r, v in zip(reached, branch.value, strict=True)
            ]
    return reached


def _refuses(block: Sequence[str]) -> bool:
    """True when the block's own statements (not those of nested blocks) refuse."""
    depth, refuses = 0, words("refusals")
    for text in block:
        depth += (text == "{") - (text == "}")
        if text in refuses and depth <= 1:
            return True
    return False


def _statement_end(texts: Sequence[str], start: int) -> int:
    """The index behind the statement that begins at ``start``, its else parts included."""
    position = start
    while texts[position : position + 1] == ["if"]:
        opening = position + 1 + (texts[position + 1 : position + 2] == ["constexpr"])
        position = _statement_end(texts, _closing(texts, opening) + 1)
        if texts[position : position + 1] != ["else"]:
            return position
        position += 1
    depth = 0
    for index in range(position, len(texts)):
        depth += (texts[index] in ("(", "{", "[")) - (texts[index] in (")", "}", "]"))
        if depth == 0 and texts[index] in (";", "}"):
            return index + 1
    return len(texts)


def _closing(texts: Sequence[str], start: int) -> int:
    depth = 0
    for index in range(start, len(texts)):
        depth += (texts[index] == "(") - (texts[index] == ")")
        if depth == 0:
            return index
    return len(texts)


def _arguments(texts: Sequence[str]) -> list[list[str]]:
    parts: list[list[str]] = [[]]
    depth = 0
    for text in texts:
        depth += (text in ("(", "[", "{")) - (text in (")", "]", "}"))
        if text == "," and depth == 0:
            parts.append([])
        else:
            parts[-1].append(text)
    return parts


def _gate(
    path: str, function: Function, body: Sequence[Token], check: _Check, reached: list[bool]
) -> Gate:
    groups: dict[str, list[Target]] = {"open": [], "closed": [], "unreached": [], "unknown": []}
    for target, value, here in zip(known_targets(), check.passed, reached, strict=True):
        state = "open" if value else "unknown" if value is None else "closed"
        groups[state if here else "unreached"].append(target)
    last = body[min(check.last, len(body) - 1)]
    return Gate(
        Layer.HOST,
        check.rule,
        Location(path, body[check.first].line, last.line),
        check.condition,
        Worlds(**{state: ArchSet.of(*targets) for state, targets in groups.items()}),
        effect=Effect.ERROR,
        within=function.name,
        names=(function.name,),
    )


def _spelled(texts: Sequence[str]) -> str:
    """Tokens joined for reading."""
    text = re.sub(r"\s*(::|\.|->)\s*", r"\1", " ".join(texts))
    text = re.sub(r"\(\s+", "(", re.sub(r"\s+\)", ")", text))
    text = re.sub(r"(\w)\s+\(", r"\1(", text)
    return re.sub(r"\b(get|static_cast) < (\w+) > ?\(", r"\1<\2>(", text)
