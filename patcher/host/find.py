"""Find checks of the device's capability: check macros, and branches that refuse."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

from patcher.arch import DEVICE, EMPTY, ArchSet, Target, known_targets
from patcher.cuda.effects.outline import Function, Outline, outline
from patcher.cuda.effects.tokens import Kind, Token, bare_code, blank_comments, tokens
from patcher.gates import Effect, Gate, Layer, Location, Worlds
from patcher.host.arms import conditions, first_arms, variants
from patcher.host.dispatch import dispatches
from patcher.host.statements import If, arguments, closing, ifs, refuses
from patcher.host.values import Value, Values, evaluate, table, words

_ROUNDS = 4  # of names that functions learn from each other, until the whole text is read
_WORDS = re.compile(rb"\w+")
_CONSTANT = re.compile(
    rb"\b(?:constexpr|const)\b[^;=(){}\n]{0,80}\b([A-Za-z_]\w*)\s*=\s*(\d{1,4})\s*;"
)


def worth_reading(data: bytes) -> bool:
    """False when the source cannot ask for the device's capability."""
    return any(stem in data for stem in _stems()) and any(word in data for word in _triggers())


@cache
def _stems() -> tuple[bytes, ...]:
    """Few words of which each trigger holds one."""
    return tuple(stem.encode() for stem in words("stems"))


@cache
def _triggers() -> tuple[bytes, ...]:
    names = [*words("number"), *words("pair"), *words("attributes"), *words("properties")]
    return tuple(name.encode() for name in names)


def constants_in(data: bytes) -> tuple[str, ...]:
    """The integer constants of a source, each as ``name value``."""
    found = {f"{match[1].decode()} {int(match[2])}" for match in _CONSTANT.finditer(data)}
    return tuple(sorted(found))


def constants(sources: Iterable[tuple[str, ...]]) -> dict[str, int]:
    """The constants of several sources (``constants_in``); a name with two values is left out."""
    found: dict[str, set[int]] = {}
    for name, value in (one.split() for source in sources for one in source):
        found.setdefault(name, set()).add(int(value))
    return {name: values.pop() for name, values in found.items() if len(values) == 1}


def find_host_gates(path: str, data: bytes, known: Mapping[str, int] | None = None) -> list[Gate]:
    """Checks in one C++ file that some target fails and another passes.

    ``known`` are constants of other files. Gates come in source order; their
    ``open`` holds the targets for which control goes on. What the arms of a
    directive between a function's lines answer differently is unknown.
    """
    if not worth_reading(data):
        return []
    code = blank_comments(data)
    outlined = _outline(code)
    functions = outlined.functions
    whole = _learnt(code, outlined, {**constants([constants_in(data)]), **(known or {})})
    members = {n: v for n, v in whole.single.items() if n.endswith("_") or re.match(r"m[A-Z]", n)}
    telling = [*_triggers(), *(name.encode() for name in members)]
    parts = [(function, _tokens_of(function, code, telling)) for function in functions]
    file = Values(dict(members), constants=whole.constants)
    file.calls.update(_helpers(parts, file))
    telling = [name.encode() for name in file.calls]
    parts = [(function, stream or _tokens_of(function, code, telling))
             for function, stream in parts]
    gates = [gate for function, stream in parts for gate in _in_function(path, function, stream,
                                                                         file)]
    gates.sort(key=lambda gate: gate.location.line)
    return [gate for gate in gates
            if gate.worlds.closed and (gate.worlds.open or gate.decided_by)]


def _outline(code: bytes) -> Outline:
    """The functions of the text as it stands, and where two arms open one body, of first arms."""
    outlined = outline(bare_code(code))
    found = list(outlined.functions)
    if not outlined.balanced:
        found += [f for f in outline(bare_code(first_arms(code))).functions
                  if not any(f.first < g.last and g.first < f.last for g in found)]
    return Outline(tuple(sorted(found, key=lambda function: function.first)), outlined.balanced)


def _learnt(code: bytes, outlined: Outline, known: Mapping[str, int]) -> Values:
    """All that the text says about the device. A function that names nothing of that adds
    nothing and is not read, be it a kernel of a megabyte."""
    bodies = [(f, frozenset(_WORDS.findall(code, f.first + 1, f.last)))
              for f in outlined.functions]
    telling = frozenset(_triggers())
    for _ in range(_ROUNDS if outlined.balanced else 0):
        values = Values(constants=known)
        values.learn(_plain(tokens(_without(code, [
            f for f, found in bodies if found.isdisjoint(telling)]))))
        names = telling.union(map(str.encode, values.names))
        if names == telling:
            return values
        if not all(map(_WORDS.fullmatch, names)):
            break
        telling = names
    values = Values(constants=known)
    values.learn(_plain(tokens(code)))
    return values


def _without(code: bytes, functions: Iterable[Function]) -> bytes:
    """The text without the bodies of these functions."""
    pieces, position = [], 0
    for function in functions:
        pieces.append(code[position : function.first + 1])
        position = function.last
    return b"".join([*pieces, code[position:]])


def _tokens_of(function: Function, code: bytes, telling: Sequence[bytes]) -> tuple[Token, ...]:
    """A function's tokens from its head on; none when it names nothing that depends on a device."""
    start = max(code.rfind(b";", 0, function.first), code.rfind(b"}", 0, function.first)) + 1
    text = code[start : function.last]
    if not any(name in text for name in telling):
        return ()
    return tuple(tokens(text, code.count(b"\n", 0, start) + 1))


def _helpers(parts: Iterable[tuple[Function, Sequence[Token]]], file: Values) -> dict[str, Value]:
    """Functions of this file that only return something about the device."""
    found: dict[str, set[Value]] = {}
    for function, stream in parts:
        body = _plain(stream)
        texts = [token.text for token in body]
        if texts.count("return") != 1:
            continue
        values = file.local()
        values.learn(body)
        end = texts.index(";", texts.index("return")) if ";" in texts else len(texts)
        value = evaluate(texts[texts.index("return") + 1 : end], values)
        if value is not None and None not in value and len(set(value)) > 1:
            found.setdefault(function.name.rpartition("::")[2], set()).add(value)
    return {name: answers.pop() for name, answers in found.items() if len(answers) == 1}


def _in_function(path: str, function: Function, stream: Sequence[Token], file: Values,
                 ) -> Iterator[Gate]:
    """A function's gates; what its variants answer differently is unknown."""
    found: dict[tuple[int, str], list[Gate]] = {}
    compiled: list[set[int]] = []
    for variant in variants(stream):
        body = variant.tokens
        compiled.append({token.line for token in body})
        values = file.local()
        values.learn(body)
        texts = [token.text for token in body]
        branches = tuple(ifs(texts, values))
        for check in _checks(texts, values, branches):
            gate = _gate(path, function, body, check, _reached(check.first, branches))
            line = gate.location.end_line if check.rule == "dispatch" else gate.location.line
            found.setdefault((line, check.rule), []).append(gate)
    for (line, rule), gates in found.items():
        there = sum(line in lines for lines in compiled)
        bare = rule == "dispatch" and len(gates) < there  # a refusal without the ranges
        yield _merged(gates, stream, nobody_passes=bare)


def _merged(gates: Sequence[Gate], stream: Sequence[Token], *, nobody_passes: bool) -> Gate:
    first = max(gates, key=lambda gate: len(gate.condition))
    open_, closed, unreached = (
        _everywhere([getattr(gate.worlds, state) for gate in gates])
        for state in ("open", "closed", "unreached"))
    open_ = EMPTY if nobody_passes else open_
    unknown = DEVICE - open_ - closed - unreached
    deciding: tuple[str, ...] = ()
    if unknown - first.worlds.unknown:
        place = first.location
        before = [t.line for t in stream if t.kind is not Kind.DIRECTIVE and t.line < place.line]
        deciding = conditions(stream, max(before, default=0), place.end_line)
    return replace(first, worlds=Worlds(open_, closed, unreached, unknown), decided_by=deciding)


def _everywhere(sets: Sequence[ArchSet]) -> ArchSet:
    shared = sets[0]
    for each in sets[1:]:
        shared &= each
    return shared


def _plain(stream: Iterable[Token]) -> tuple[Token, ...]:
    return tuple(t for t in stream if t.kind is not Kind.DIRECTIVE)


@dataclass(frozen=True, slots=True)
class _Check:
    """A condition and the tokens it stands between; ``passed`` is 1 where control goes on."""

    rule: str
    condition: str
    first: int
    last: int
    passed: Value


def _checks(texts: Sequence[str], values: Values, branches: Sequence[If]) -> Iterator[_Check]:
    for position, text in enumerate(texts[:-1]):
        if text in words("checks") and texts[position + 1] == "(":
            end = closing(texts, position + 1)
            parts = arguments(texts[position + 2 : end])
            operator = table("checks")[text]
            tested = parts[0]
            if operator and len(parts) > 1:
                tested = [*parts[0], operator, *parts[1]]
            value = evaluate(tested, values)
            if value is not None:
                yield _Check("check", _spelled(tested), position, end, value)
    for branch in branches:
        if branch.value is None or None in branch.value:
            continue
        condition = _spelled(branch.condition)
        if refuses(texts[branch.then.start : branch.then.stop]):
            passed: Value = tuple(int(not v) for v in branch.value)
            yield _Check("refusing-branch", f"!({condition})", branch.first,
                         branch.then.stop - 1, passed)
        elif texts[branch.other.start : branch.other.start + 1] == ["{"] and refuses(
            texts[branch.other.start : branch.other.stop]
        ):
            yield _Check("guarded-branch", condition, branch.first, branch.other.stop - 1,
                         branch.value)
    for one in dispatches(texts, values, branches):
        yield _Check("dispatch", _spelled(one.condition), one.first, one.last, one.passed)


def _reached(position: int, ifs: Sequence[If]) -> list[bool]:
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
