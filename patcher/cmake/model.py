"""What reading a project gives: targets, their sources, and the options of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Place:
    """A command of the project's own files, outside every function; ``text`` as written."""

    path: str
    line: int
    text: str
    arm: tuple[str, int] = ("", 0)  # the ``if`` arm around it, by file and line


@dataclass(frozen=True, slots=True)
class Option:
    """Compiler options of one source, with who gave them and where that one's list came from."""

    text: str
    place: Place
    origins: tuple[Place, ...] = ()


@dataclass
class BuildTarget:
    """One library or program. Options may hold generator expressions."""

    name: str
    place: Place
    sources: list[str] = field(default_factory=list)
    options: list[str] = field(default_factory=list)
    definitions: list[str] = field(default_factory=list)
    include: list[str] = field(default_factory=list)
    properties: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Undecided:
    """A condition that only the machine would decide; its first arm without an error was taken."""

    path: str
    line: int
    text: str


@dataclass(frozen=True)
class Project:
    """What would be built. ``fatal`` is where and why CMake itself would stop.

    Paths of sources are the tree's; those of ``fetched`` projects begin with ``@``.
    ``flags`` says, for each macro of a -D option and each code of a -gencode option, where
    it was named; ``named``, for a
    source, where the variables were given that the conditions around its name hang on.
    """

    targets: tuple[BuildTarget, ...]
    source_options: Mapping[str, tuple[Option, ...]]
    variables: Mapping[str, str]
    flags: Mapping[str, tuple[Place, ...]]
    named: Mapping[str, tuple[Place, ...]] = field(default_factory=dict)
    undecided: tuple[Undecided, ...] = ()
    fetched: tuple[str, ...] = ()
    fatal: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a function of the project that asks the machine would set: the variable that its
    argument of that number names. ``when`` is a part of the arguments of the call."""

    when: str
    argument: int
    value: str


@dataclass(frozen=True)
class Settings:
    """What the project finds on the machine: variables, the environment, and answers.

    ``answers`` are by the name (in lower case) of functions that are not run.
    """

    variables: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    answers: Mapping[str, Sequence[Answer]] = field(default_factory=dict)
