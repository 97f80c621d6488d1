"""The values of partial evaluation: plain Python data, and what stands for the rest."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import PurePosixPath

Value = object  # str, int, float, bool, None, list, tuple, dict, set, paths, and the classes below

HOLE = "\ue000"  # the unknown part of a string (a private-use character, in no real name)
MAX_TEXT = 1 << 20
_PLACEHOLDER = re.compile(r"\{\{-?\s*(\w+)[^}]*\}\}")
_LOOP = re.compile(  # the innermost one over a literal list
    r"\{%-?\s*for\s+(\w+)\s+in\s+(\[[^\]\n]*\])\s*-?%\}((?:(?!\{%-?\s*for\b).)*?)"
    r"\{%-?\s*endfor\s*-?%\}", re.DOTALL)
_CHOICE = re.compile(  # a condition without another arm
    r"\{%-?\s*if\s+(\w+)\s*==\s*([^%\n]+?)\s*-?%\}((?:(?!\{%).)*)\{%-?\s*endif\s*-?%\}", re.DOTALL)
_MAX_LOOPS = 64
_TAG = re.compile(r"\{%-?.*?-?%\}|\{#.*?#\}", re.DOTALL)


class Stopped(Exception):
    """The evaluation ran out of its budget, or met something it cannot follow."""


class Raised(Exception):
    """The interpreted code raises."""


@dataclass(frozen=True, slots=True)
class Unknown:
    """A value that depends on an argument or on the machine; ``name`` is its expression."""

    name: str


@dataclass(frozen=True, slots=True)
class Symbol:
    """Something outside the package by its dotted name, as ``torch.float16``."""

    name: str


class Text(str):
    """The content of a package file, or what was rendered from one; knows its origin."""

    origin: str

    def __new__(cls, content: str, origin: str) -> Text:
        text = super().__new__(cls, content)
        text.origin = origin
        return text


@dataclass(frozen=True, slots=True)
class OpenFile:
    """The result of ``open(path)`` inside the tree."""

    path: PurePosixPath


@dataclass(frozen=True, slots=True)
class Template:
    """A jinja template as far as headers matter: placeholders filled, tags dropped."""

    text: str
    origin: str

    def render(self, values: dict[str, Value]) -> Text:
        """Both arms of a template condition stay in; unknown values keep their name."""

        def fill(match: re.Match[str]) -> str:
            value = values.get(match[1], match[1])
            return match[1] if isinstance(value, Unknown) else show(value).replace(HOLE, match[1])

        text = _unfold(self.text)
        return Text(_PLACEHOLDER.sub(fill, _TAG.sub("", text)), self.origin)


def _unfold(text: str) -> str:
    """Loops over literal lists written out, so that what is generated compiles."""
    for _ in range(_MAX_LOOPS):
        loop = _LOOP.search(text)
        if loop is None or len(text) > MAX_TEXT:
            break
        try:
            items = ast.literal_eval(loop[2])
        except (ValueError, SyntaxError):
            break
        bodies = [_with(loop[1], item, loop[3]) for item in items]
        text = text[:loop.start()] + "".join(bodies) + text[loop.end():]
    return text


def _with(name: str, item: Value, body: str) -> str:
    """One round of a loop: its variable filled in, conditions on it decided."""

    def decide(match: re.Match[str]) -> str:
        if match[1] != name:
            return match[0]
        return match[3] if match[2].strip("\"'") == str(item) else ""

    chosen = _CHOICE.sub(decide, body)
    return re.sub(r"\{\{-?\s*" + name + r"\s*-?\}\}", lambda _: str(item), chosen)


@dataclass(slots=True, repr=False)
class Module:
    """A module of the package; ``bindings`` are the top-level statements by the name they bind."""

    name: str
    path: str
    bindings: dict[str, list[ast.stmt]]
    source: str
    values: dict[str, Value] = field(default_factory=dict)
    pending: set[str] = field(default_factory=set)

    @property
    def package(self) -> str:
        """The package that relative imports start from."""
        return self.name if self.path.endswith("/__init__.py") else self.name.rpartition(".")[0]


@dataclass(slots=True)
class Frame:
    """Local names of one call; ``parent`` is the enclosing function's frame."""

    module: Module
    names: dict[str, Value]
    parent: Frame | None = None
    function: str = ""

    def find(self, name: str) -> Frame | None:
        frame: Frame | None = self
        while frame is not None and name not in frame.names:
            frame = frame.parent
        return frame


@dataclass(frozen=True, eq=False, slots=True, repr=False)
class Function:
    """A function of the package, or a lambda."""

    module: Module
    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
    closure: Frame | None = None

    @property
    def name(self) -> str:
        return getattr(self.node, "name", "<lambda>")


@dataclass(frozen=True, eq=False, slots=True, repr=False)
class Class:
    """A class of the package."""

    module: Module
    node: ast.ClassDef


@dataclass(frozen=True, eq=False, slots=True, repr=False)
class Instance:
    """An object of a package class; its attributes may be set."""

    cls: Class
    attributes: dict[str, Value]


@dataclass(frozen=True, eq=False, slots=True)
class Method:
    """A function bound to an object, or a method of a plain value by name."""

    owner: Value
    name: str
    function: Function | None = None


@dataclass(frozen=True, slots=True)
class Generated:
    """A file that the interpreted code would write."""

    path: str
    content: str
    origin: str


@dataclass(frozen=True, slots=True)
class Call:
    """A call as an intercept sees it: evaluated arguments and the syntax they came from."""

    node: ast.Call
    frame: Frame
    args: list[Value]
    keywords: dict[str, Value]

    def argument(self, position: int, name: str, default: Value = None) -> Value:
        if name in self.keywords:
            return self.keywords[name]
        return self.args[position] if position < len(self.args) else default


Intercept = Callable[[Call], Value]


def show(value: Value) -> str:
    """``str(value)`` with holes for what is unknown."""
    if isinstance(value, Unknown | Function | Class | Instance | Method | OpenFile | Template):
        return HOLE
    if isinstance(value, Symbol):
        return value.name
    if isinstance(value, list | tuple | set | dict):
        return HOLE if any(isinstance(v, Unknown) for v in value) else str(value)
    return str(value)


def show_name(value: Value) -> str:
    """A value as it appears in the name of an unknown."""
    return value.name if isinstance(value, Unknown | Symbol) else repr(value)[:60]


_PLAIN = (str, int, float, type(None), PurePosixPath)
_MANY = (list, tuple, set, frozenset)


def is_plain(value: Value) -> bool:
    """True for data that Python itself may compute with: nothing unknown at any depth."""
    if isinstance(value, _PLAIN):
        return True
    if isinstance(value, _MANY):
        return all(map(is_plain, value))
    return isinstance(value, dict) and all(map(is_plain, value)) and all(
        map(is_plain, value.values()))
