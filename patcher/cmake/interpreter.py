"""Run a project's CMake files in our own interpreter: no process, no network, no writing."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from patcher.cmake.conditions import Operand, Truth, World, decide
from patcher.cmake.model import Answer, BuildTarget, Option, Place, Settings, Undecided
from patcher.cmake.routines import Routine, Scope, gives_up, substituted, written
from patcher.cmake.syntax import Argument, Block, Command, Kind, Node, parse
from patcher.cmake.text import HOLE, MAX_VALUE, is_unknown, split_list
from patcher.errors import InputError, UnsafePath
from patcher.tree import Tree, exists, walk

SOURCE, BINARY = "/@source", "/@build"  # the tree and the build folder, as its files see them
_MAX_STEPS = 200_000  # vllm 0.33.0 takes 5,000
_MAX_WRITTEN = 64 << 20  # characters of all values together
_MAX_CALLS = 100
_REFERENCE = re.compile(r"\$(ENV|CACHE)?\{([^${}]*)\}")
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "0": ""}
_NAME = re.compile(r"\$\{(\w+)\}")


class Stop(Exception):
    """The project itself gives up: message(FATAL_ERROR)."""


class _Return(Exception):
    pass


class _Break(Exception):
    pass


class _Continue(Exception):
    pass


Values = list[str]
Builtin = Callable[["Interpreter", Values], None]


@dataclass
class Interpreter:
    """The state of a run; ``builtins`` are the commands that are known, by name."""

    tree: Tree
    folder: str
    settings: Settings
    builtins: dict[str, Builtin]
    scope: Scope = field(default_factory=Scope)
    cache: dict[str, str] = field(default_factory=dict)
    routines: dict[str, Routine] = field(default_factory=dict)
    targets: dict[str, BuildTarget] = field(default_factory=dict)
    source_options: dict[str, list[Option]] = field(default_factory=dict)
    flags: dict[str, list[Place]] = field(default_factory=dict)
    undecided: list[Undecided] = field(default_factory=list)
    fetched: list[str] = field(default_factory=list)
    properties: dict[str, str] = field(default_factory=dict)
    place: Place = field(default_factory=lambda: Place("", 0, ""))
    origins: dict[str, Place] = field(default_factory=dict)
    _files: list[str] = field(default_factory=list)
    named: dict[str, tuple[Place, ...]] = field(default_factory=dict)
    _arms: list[tuple[str, int, str]] = field(default_factory=list)
    _depth: int = 0
    _steps: int = 0
    _written: int = 0

    # -- files

    def include(self, path: str) -> bool:
        """Run a file of the tree in the current scope; False when there is none."""
        inside = self.inside(path)
        if inside is None or not exists(self.tree, inside) or len(self._files) > _MAX_CALLS:
            return False
        nodes = parse(self.tree.read(inside).decode("utf-8", "replace"), inside)
        before = self.get("CMAKE_CURRENT_LIST_DIR")
        self.set("CMAKE_CURRENT_LIST_DIR", path.rpartition("/")[0])
        self._files.append(inside)
        try:
            self.run(nodes)
        except _Return:
            pass
        finally:
            self._files.pop()
            self.set("CMAKE_CURRENT_LIST_DIR", before or "")
        return True

    def absolute(self, path: str) -> str:
        """A path as the project's files see it; relative ones stand in the current folder."""
        path = path if path.startswith("/") else f"{self.get('CMAKE_CURRENT_SOURCE_DIR')}/{path}"
        parts: list[str] = []
        for part in path.split("/"):
            if part == "..":
                del parts[-1:]
            elif part not in ("", "."):
                parts.append(part)
        return "/" + "/".join(parts)

    def inside(self, path: str) -> str | None:
        """The tree's path, None for what is outside of the tree or not known."""
        path = self.absolute(path)
        if HOLE in path or (path != SOURCE and not path.startswith(SOURCE + "/")):
            return None
        return path[len(SOURCE) + 1:]

    def files_below(self, path: str) -> list[str]:
        """The files below a folder of the project, as its files see them."""
        inside = self.inside(path)
        if inside is None:
            return []
        return [f"{SOURCE}/{found}" for found in walk(self.tree, inside)]

    # -- variables

    def get(self, name: str) -> str | None:
        value = self.scope.get(name)
        return self.cache.get(name) if value is None else value

    def set(self, name: str, value: str | None, *, above: bool = False) -> None:
        scope = self.scope.parent if above and self.scope.parent else self.scope
        if value is not None and len(value) > MAX_VALUE:
            value = HOLE
        self._written += len(value or "")
        scope.values[name] = value
        if above or self._depth == 0:
            self.origins[name] = self.place

    def expand(self, text: str) -> str:
        """References replaced, inner ones first; escapes stay."""
        if "$" not in text:
            return text
        for _ in range(16):
            replaced = _REFERENCE.sub(self._referred, text)
            if replaced == text or len(replaced) > MAX_VALUE:
                return replaced[:MAX_VALUE]
            text = replaced
        return text

    def _referred(self, match: re.Match[str]) -> str:
        kind, name = match[1], match[2]
        if kind == "ENV":
            return self.settings.environment.get(name, "")
        value = self.cache.get(name) if kind == "CACHE" else self.get(name)
        # a value is no reference again, and its backslashes are no escapes
        return (value or "").replace("\\", "\\\\").replace("$", "\1")

    def evaluate(self, argument: Argument) -> list[str]:
        """The values of one argument: several where a list stands without quotes."""
        if argument.kind is Kind.BRACKET:
            return [argument.text]
        text = self.expand(argument.text)
        text = _ESCAPE.sub(_unescaped, text).replace("\1", "$") if "\\" in text or "\1" in text \
            else text
        if argument.kind is Kind.QUOTED:
            return [text]
        return [item for item in split_list(text) if item]

    def values(self, arguments: Sequence[Argument]) -> Values:
        return [value for argument in arguments for value in self.evaluate(argument)]

    # -- running

    def run(self, nodes: Sequence[Node]) -> None:
        for node in nodes:
            self._step()
            if isinstance(node, Block):
                self._block(node)
            else:
                self._command(node)

    def _step(self) -> None:
        self._steps += 1
        if self._steps > _MAX_STEPS or self._written > _MAX_WRITTEN:
            raise InputError("the project takes too many steps", where=self.place.path)

    def _command(self, command: Command) -> None:
        if self._depth == 0:
            self.place = Place(self._files[-1], command.line, written(command),
                               self._arms[-1][:2] if self._arms else ("", 0))
        name = command.name
        if name in ("return", "break", "continue"):
            raise {"return": _Return, "break": _Break, "continue": _Continue}[name]
        answers = self.settings.answers.get(name)
        if answers is not None:
            self._answer(self.values(command.arguments), answers)
        elif name in self.routines:
            self._call(self.routines[name], command.arguments)
        elif name in self.builtins:
            self.builtins[name](self, self.values(command.arguments))

    def _answer(self, values: Values, answers: Sequence[Answer]) -> None:
        """What the machine would have said; the first answer whose words the arguments hold."""
        text = " ".join(values)
        for answer in answers:
            if answer.when in text:
                if answer.argument < len(values):
                    self.set(values[answer.argument], answer.value)
                return

    def origins_of_place(self) -> tuple[Place, ...]:
        """Where the variables that the current command of the project names were given."""
        named = _NAME.findall(self.place.text)
        return tuple(self.origins[name] for name in named if name in self.origins)

    def note_source(self, path: str) -> None:
        """A source is named here: remember what the conditions around this place hang on."""
        if path not in self.named and self._arms:
            words = [word for arm in self._arms for word in re.findall(r"\w+", arm[2])]
            self.named[path] = tuple(self.origins[w] for w in words if w in self.origins)

    def _call(self, routine: Routine, arguments: Sequence[Argument]) -> None:
        if self._depth >= _MAX_CALLS:
            raise InputError("functions call each other too deeply", where=self.place.path)
        values = self.values(arguments)
        rest = values[len(routine.parameters):]
        given = dict(zip(routine.parameters, values, strict=False))
        given |= {"ARGN": ";".join(rest), "ARGV": ";".join(values), "ARGC": str(len(values)),
                  **{f"ARGV{n}": value for n, value in enumerate(values)}}
        self._depth += 1
        self._files.append(routine.path)
        try:
            if routine.is_macro:
                self.run(substituted(routine.body, given))
            else:
                self.scope = Scope(self.scope, dict(given))
                try:
                    self.run(routine.body)
                except _Return:
                    pass
                finally:
                    self.scope = self.scope.parent or self.scope
        finally:
            self._files.pop()
            self._depth -= 1

    def _block(self, block: Block) -> None:
        head, name = block.head, block.head.name
        if name == "if":
            self._if(block)
        elif name == "foreach":
            self._foreach(block)
        elif name == "while":
            self._while(block)
        elif name == "block":
            self.run(block.arms[0][1])
        else:
            title, *parameters = self.values(head.arguments) or [""]
            self.routines[title.lower()] = Routine(title, tuple(parameters), block.arms[0][1],
                                                   name == "macro", self._files[-1])

    def _if(self, block: Block) -> None:
        unknown = False
        for head, body in block.arms:
            truth = True if head.name == "else" else self._truth(head)
            if truth is None:
                if not unknown:
                    self.undecided.append(Undecided(self._files[-1], head.line, written(head)))
                unknown = True
            if truth or (truth is None and not gives_up(body)):
                if self._depth == 0:
                    self._arms.append((self._files[-1], head.line, written(head)))
                depth = self._depth
                try:
                    self.run(body)
                finally:
                    if depth == 0:
                        self._arms.pop()
                return

    def _truth(self, head: Command) -> Truth:
        operands = [Operand(value, argument.kind is Kind.PLAIN)
                    for argument in head.arguments for value in self.evaluate(argument)]
        try:
            return decide(operands, World(self.get, self._defined, self._known, self._is_target,
                                          self._exists, self.matched))
        except (ValueError, RecursionError):
            return None

    def matched(self, groups: list[str]) -> None:
        """What the last regular expression found; nothing when it did not match."""
        for number in range(10):
            if number < len(groups) or self.get(f"CMAKE_MATCH_{number}"):
                self.set(f"CMAKE_MATCH_{number}", groups[number] if number < len(groups) else "")
        self.set("CMAKE_MATCH_COUNT", str(max(0, len(groups) - 1)))

    def _defined(self, name: str) -> bool:
        match = re.fullmatch(r"(ENV|CACHE)\{(.*)\}", name)
        if match is None:
            return self.get(name) is not None
        return match[2] in (self.settings.environment if match[1] == "ENV" else self.cache)

    def _known(self, name: str) -> bool:
        return name.lower() in self.routines or name.lower() in self.builtins

    def _is_target(self, name: str) -> bool:
        return name in self.targets

    def _exists(self, path: str, folder: bool) -> Truth:
        inside = self.inside(path)
        if inside is None:  # a build begins in an empty folder
            return False if self.absolute(path).startswith(f"{BINARY}/") else None
        above, _, leaf = inside.rpartition("/")
        if inside in ("", self.folder) or leaf in self.tree.folders(above):
            return True
        return not folder and exists(self.tree, inside)

    def _foreach(self, block: Block) -> None:
        name, *items = self.values(block.head.arguments) or [""]
        before = self.get(name)
        for item in _loop_items(self, items):
            self.set(name, item)
            if not self._again(block):
                break
        self.set(name, before)

    def _while(self, block: Block) -> None:
        while self._truth(block.head) and self._again(block):
            pass

    def _again(self, block: Block) -> bool:
        """Run the body of a loop once; False after ``break()``."""
        self._step()
        try:
            self.run(block.arms[0][1])
        except _Break:
            return False
        except _Continue:
            pass
        return True

    def read(self, path: str) -> str:
        """A file's text, unknown where it is none of the project's."""
        inside = self.inside(path)
        try:
            return HOLE if inside is None else self.tree.read(inside).decode("utf-8", "replace")
        except (OSError, InputError, UnsafePath):
            return HOLE


def _loop_items(machine: Interpreter, items: Values) -> list[str]:
    if items[:1] == ["RANGE"]:
        numbers = [int(n) for n in items[1:4] if n.isdigit()]
        first, last = (0, numbers[0]) if len(numbers) == 1 else numbers[:2]
        step = numbers[2] if len(numbers) > 2 else 1
        return [str(n) for n in range(first, min(last, first + 100_000) + 1, step or 1)]
    if items[:1] == ["IN"]:
        found, kind = [], ""
        for item in items[1:]:
            if item in ("LISTS", "ITEMS", "ZIP_LISTS"):
                kind = item
            else:
                found += split_list(machine.get(item) or "") if kind == "LISTS" else [item]
        return found
    return items


def _unescaped(match: re.Match[str]) -> str:
    char = match[1]
    return "\\;" if char == ";" else _ESCAPED.get(char, char)


__all__ = ["BINARY", "SOURCE", "Interpreter", "Stop", "Values", "is_unknown"]
