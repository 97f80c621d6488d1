"""Functions and macros of a project, the variables of their calls, and commands as text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from patcher.cmake.syntax import Argument, Block, Command, Kind, Node


@dataclass
class Scope:
    """Variables of a function; None hides one of the scope above."""

    parent: Scope | None = None
    values: dict[str, str | None] = field(default_factory=dict)

    def get(self, name: str) -> str | None:
        here: Scope | None = self
        while here is not None:
            if name in here.values:
                return here.values[name]
            here = here.parent
        return None


@dataclass(frozen=True, slots=True)
class Routine:
    """A function or macro of the project."""

    name: str
    parameters: tuple[str, ...]
    body: tuple[Node, ...]
    is_macro: bool
    path: str  # where it stands


def substituted(nodes: Sequence[Node], given: dict[str, str]) -> list[Node]:
    """A macro's body: its parameters are text, not variables."""
    pattern = re.compile(r"\$\{(" + "|".join(map(re.escape, given)) + r")\}")

    def replaced(node: Command) -> Command:
        arguments = tuple(
            a if a.kind is Kind.BRACKET or "$" not in a.text
            else Argument(pattern.sub(lambda m: given[m[1]], a.text), a.kind)
            for a in node.arguments)
        return Command(node.name, arguments, node.line)

    result: list[Node] = []
    for node in nodes:
        if isinstance(node, Command):
            result.append(replaced(node))
        else:
            arms = tuple((replaced(head), tuple(substituted(body, given)))
                         for head, body in node.arms)
            result.append(Block(arms[0][0], arms))
    return result


def gives_up(body: Sequence[Node]) -> bool:
    return any(isinstance(n, Command) and n.name == "message" and n.arguments
               and n.arguments[0].text == "FATAL_ERROR" for n in body)


def written(command: Command) -> str:
    marks = {Kind.PLAIN: "", Kind.QUOTED: '"', Kind.BRACKET: ""}
    words = [f"{marks[a.kind]}{a.text}{marks[a.kind]}" for a in command.arguments]
    return f"{command.name}({' '.join(' '.join(words).split())[:300]})"
