"""Build macros and the sources that test them: never set, or set although a unit is not built."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from patcher.arch import DEVICE, EMPTY, ArchSet, Capability
from patcher.gates import Effect, Evidence, Gate, Layer, Location, Worlds
from patcher.profiles.known import data
from patcher.tree import Tree

_CONDITION = re.compile(rb"^[ \t]*#[ \t]*(?:el)?if(?:n?def)?\b(.*)", re.MULTILINE)
_DEFINE = re.compile(rb"^[ \t]*#[ \t]*define[ \t]+(\w+)", re.MULTILINE)
_WORD = re.compile(rb"[A-Za-z_]\w*")
_DIRECTIVE = re.compile(r"[ \t]*#[ \t]*(if|ifdef|ifndef|elif|else|endif)\b(.*)")
_CALLED = re.compile(r"\b([A-Za-z_]\w*)\s*\(")
_DEFINED = re.compile(r"^[A-Za-z_][\w:<>,&*\s]*?\b([A-Za-z_]\w*)\s*\(([^;{}]*)\)\s*(?:const\s*)?\{",
                      re.MULTILINE)
_MAX_BYTES = 2 << 20
RULE = "MACRO-WITHOUT-UNIT"


@dataclass(frozen=True, slots=True)
class Tested:
    """A build macro in a condition of a source."""

    name: str
    path: str
    line: int


def tested(tree: Tree, paths: Iterable[str]) -> tuple[list[Tested], set[str]]:
    """The build macros that conditions name, first place of each, and all that are defined."""
    pattern = re.compile(data()["cmake"]["build_macros"])
    found: dict[str, Tested] = {}
    defined: set[str] = set()
    for path in paths:
        text = tree.read(path)
        defined |= {name.decode() for name in _DEFINE.findall(text)}
        for match in _CONDITION.finditer(text):
            for word in _WORD.findall(match[1]):
                name = word.decode()
                if name not in found and pattern.match(name):
                    line = text.count(b"\n", 0, match.start(1)) + 1
                    found[name] = Tested(name, path, line)
    return list(found.values()), defined


def without_unit(tree: Tree, paths: Iterable[str], macros: Mapping[Capability, frozenset[str]],
                 compiled: Mapping[str, ArchSet]) -> Iterator[Gate]:
    """Macros under which a source calls what only a unit defines that is not built there.

    ``compiled`` are the devices whose build has a unit, for whatever code: its symbols are
    there. A call into one that is not compiled is a symbol that is missing when the library
    is loaded, or a link that fails.
    """
    texts = {path: _text(tree, path) for path in paths}
    homes: dict[str, set[str]] = {}
    for path in compiled:
        for match in _DEFINED.finditer(texts.get(path, "")):
            homes.setdefault(match[1], set()).add(path)
    names = frozenset(name for held in macros.values() for name in held)
    for path, text in texts.items():
        if path not in compiled:
            continue
        for macro, line, symbol in _calls(text, names):
            units = homes.get(symbol, set()) - {path}
            if not units or path in homes.get(symbol, ()):
                continue
            built = EMPTY
            for unit in units:
                built |= compiled[unit]
            lacking = ArchSet.of(*(c for c, held in macros.items() if macro in held)) - built
            lacking &= compiled[path]
            if lacking:
                unit = min(units)
                said = f"{macro} is set, but {unit}, which defines {symbol}, is not built"
                yield Gate(
                    Layer.BUILD, RULE, Location(path, line, line), macro,
                    Worlds(open=built, closed=lacking, unreached=DEVICE - built - lacking),
                    effect=Effect.ERROR, evidence=(Evidence(unit, 0, said),), within=symbol,
                    names=(symbol,), units=(path,))


def _calls(text: str, macros: frozenset[str]) -> Iterator[tuple[str, int, str]]:
    """Calls and declarations in arms that need one of the macros alone: macro, line, name."""
    stack: list[str] = []
    seen: set[tuple[str, str]] = set()
    for number, line in enumerate(text.split("\n"), 1):
        match = _DIRECTIVE.match(line)
        if match is None:
            needed = [name for name in stack if name]
            for symbol in _CALLED.findall(line) if needed else ():
                if (needed[-1], symbol) not in seen:
                    seen.add((needed[-1], symbol))
                    yield needed[-1], number, symbol
        elif match[1] in ("if", "ifdef"):
            stack.append(_alone(match[1], match[2], macros))
        elif match[1] == "ifndef":
            stack.append("")
        elif stack and match[1] in ("elif", "else"):
            stack[-1] = _alone("if", match[2], macros) if match[1] == "elif" else ""
        elif stack:
            stack.pop()


def _alone(kind: str, condition: str, macros: frozenset[str]) -> str:
    """The macro that the condition comes down to; empty for any other condition."""
    words = re.findall(r"[A-Za-z_]\w*", condition)
    names = list({word for word in words if word != "defined"})  # ``defined X && X`` is X
    simple = not re.search(r"[!|<>]", condition) or kind == "ifdef"
    return names[0] if len(names) == 1 and names[0] in macros and simple else ""


def _text(tree: Tree, path: str) -> str:
    from patcher.cuda.effects.tokens import blank_comments

    source = tree.read(path)
    return blank_comments(source).decode("utf-8", "replace") if len(source) <= _MAX_BYTES else ""
