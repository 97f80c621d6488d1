"""Lists of a CMake file: commands, their arguments, and where an element goes.

Nothing is evaluated but what is written: ``set(NAME ...)``, ``list(APPEND NAME
...)`` and the argument behind NAME in any other command, such as
``cuda_archs_loose_intersection(NAME "9.0a;10.0a" ...)``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from patcher.edits import Edit, Span

_BLANK = re.compile(
    rb"(?:[ \t\r\n]|#\[(?P<open>=*)\[.*?(?:\](?P=open)\]|\Z)|#(?!\[=*\[)[^\n]*)*", re.S)
_COMMAND = re.compile(rb"([A-Za-z_]\w*)[ \t]*\(")
_BRACKET = re.compile(rb"\[(=*)\[.*?\]\1\]", re.S)
_QUOTED = re.compile(rb'"(?:[^"\\]|\\.)*"', re.S)
_UNQUOTED = re.compile(rb'(?!\[=*\[)(?:[^\s()#"\\]|\\.|(?<=[^\s(])"(?:[^"\\\n]|\\.)*")+', re.S)
_KEYWORDS = frozenset({b"CACHE", b"PARENT_SCOPE"})
_WORDS = re.compile(rb"CMAKE_(?:C|CXX|CUDA|HIP)_FLAGS\w*")  # CMake's own strings of flags
_UNWRITABLE = re.compile(r'["\\$;\[\]\x00-\x1f]')
_NEEDS_QUOTES = re.compile(r"[\s()#]")


def is_cmake(path: str) -> bool:
    return path.rpartition("/")[2] == "CMakeLists.txt" or path.endswith(".cmake")


@dataclass(frozen=True, slots=True)
class Argument:
    """``span`` has the quotes or brackets, ``text``, which ends at ``end``, has not."""

    span: Span
    end: int
    text: bytes
    quoted: bool


@dataclass(frozen=True, slots=True)
class Command:
    name: bytes  # in lower case, as CMake takes it
    start: int
    arguments: Sequence[Argument]


@dataclass(frozen=True, slots=True)
class CMakeList:
    """The written arguments that are a list.

    ``behind`` is where the first one goes, ``words`` tells a string of words
    parted by spaces from a list, ``single`` that the list has to stay one argument.
    """

    data: bytes
    behind: int
    arguments: Sequence[Argument]
    words: bool
    single: bool

    @property
    def elements(self) -> Sequence[str]:
        return [item.decode("utf-8", "replace") for argument in self.arguments
                for item in (argument.text.split() if self.words else argument.text.split(b";"))
                if item]

    def insertion(self, flag: str) -> tuple[Edit, ...]:
        """The edits that add it. Raises ValueError for what cannot be written as one element."""
        if not flag or _UNWRITABLE.search(flag) or (self.words and not flag.split() == [flag]):
            raise ValueError(f"{flag!r} cannot be written as one element of this CMake list")
        if not self.arguments:
            return (_insert(self.behind, b" " + _written(flag, self.words)),)
        last = self.arguments[-1]
        alone = len(self.arguments) == 1 and last.quoted and not self._own_line(last)
        if self.words or self.single or alone or b";" in last.text:
            return self._within(last, flag.encode())
        return self._behind(last, _written(flag, last.quoted))

    def _own_line(self, last: Argument) -> bytes:
        """The line break and the indentation of an argument that begins its line."""
        line_start = self.data.rfind(b"\n", 0, last.span.start) + 1
        indent = self.data[line_start:last.span.start]
        if indent.strip() or not line_start:
            return b""
        crlf = self.data[:line_start].endswith(b"\r\n")
        return (b"\r\n" if crlf else b"\n") + indent

    def _within(self, last: Argument, text: bytes) -> tuple[Edit, ...]:
        separator = b" " if self.words else b";"
        lead = b"" if not last.text or last.text.endswith(separator) else separator
        if last.quoted:
            return (_insert(last.end, lead + text),)
        if not self.words and not self.single:
            return (_insert(last.span.end, lead + text),)
        # unquoted, the separator would make two arguments of it
        return (_insert(last.span.start, b'"'), _insert(last.span.end, lead + text + b'"'))

    def _behind(self, last: Argument, text: bytes) -> tuple[Edit, ...]:
        data, place = self.data, last.span.end
        lead = self._own_line(last)
        if not lead:
            return (_insert(place, b" " + text),)
        # a comment behind the last element stays with it
        comment = re.match(rb"[ \t]*#(?!\[=*\[)[^\r\n]*", data[place:])
        return (_insert(place + (comment.end() if comment else 0), lead + text),)


def _insert(place: int, text: bytes) -> Edit:
    return Edit(Span(place, place), text)


def _written(flag: str, quoted: bool) -> bytes:
    return (f'"{flag}"' if quoted or _NEEDS_QUOTES.search(flag) else flag).encode()


def lists(data: bytes, name: str, within: str = "") -> list[CMakeList]:
    """Every place where the list called ``name`` gets elements.

    ``within`` is a function or macro. Raises ValueError for a file that does not parse.
    """
    wanted, found = name.encode(), []
    inside = [] if within else [b""]
    for command in commands(data):
        if command.name in (b"function", b"macro"):
            inside.append(command.arguments[0].text if command.arguments else b"")
        elif command.name in (b"endfunction", b"endmacro") and inside:
            inside.pop()
        elif not within or within.encode() in inside:
            index = _index(command, wanted)
            if index:
                found.append(_list(data, command, index))
    return found


def _list(data: bytes, command: Command, index: int) -> CMakeList:
    behind = command.arguments[index - 1].span.end
    values = _values(command, index)
    texts = [argument.text for argument in values if argument.quoted]
    spaced = any(b" " in text.strip() for text in texts)
    if spaced and (len(values) > 1 or b";" in texts[0]):
        spaced = False  # elements with spaces in them
    words = spaced or bool(_WORDS.fullmatch(command.arguments[index - 1].text))
    single = command.name not in (b"set", b"list")
    return CMakeList(data, behind, values, words, single)


def _index(command: Command, name: bytes) -> int:
    """The place of the list's first element among the arguments; 0 when it is given none here."""
    arguments = command.arguments
    if command.name == b"set":
        return 1 if arguments and arguments[0].text == name else 0
    if command.name == b"list":
        verb = arguments[0].text.upper() if arguments else b""
        grows = verb in (b"APPEND", b"PREPEND") and len(arguments) > 1
        return 2 if grows and arguments[1].text == name else 0
    for place, argument in enumerate(arguments[:-1]):
        if argument.text == name and not argument.quoted:
            return place + 1
    return 0


def _values(command: Command, index: int) -> Sequence[Argument]:
    if command.name not in (b"set", b"list"):
        return command.arguments[index:index + 1]
    values = []
    for argument in command.arguments[index:]:
        if not argument.quoted and argument.text in _KEYWORDS:
            break
        values.append(argument)
    return values


def commands(data: bytes) -> Iterator[Command]:
    """Every command with its arguments, nested parentheses flattened."""
    position = 3 if data.startswith(b"\xef\xbb\xbf") else 0
    while True:
        position = _skip(data, position)
        if position == len(data):
            return
        head = _COMMAND.match(data, position)
        if head is None:
            raise _unparsed(data, position)
        arguments, position = _arguments(data, head.end())
        yield Command(head[1].lower(), head.start(), arguments)


def _arguments(data: bytes, position: int) -> tuple[Sequence[Argument], int]:
    found: list[Argument] = []
    depth = 1
    while True:
        position = _skip(data, position)
        character = data[position:position + 1]
        if character in (b"(", b")"):
            depth += 1 if character == b"(" else -1
            position += 1
            if not depth:
                return found, position
            continue
        match = next(filter(None, (pattern.match(data, position) for pattern in
                                   (_BRACKET, _QUOTED, _UNQUOTED))), None)
        if match is None:
            raise _unparsed(data, position)
        strip = (len(match[1]) + 2 if match.re is _BRACKET else 1 if match.re is _QUOTED else 0)
        span = Span(*match.span())
        end = span.end - strip
        found.append(Argument(span, end, data[span.start + strip:end], strip > 0))
        position = span.end


def _unparsed(data: bytes, position: int) -> ValueError:
    line = data.count(b"\n", 0, position) + 1
    return ValueError(f"does not parse as CMake, line {line}")


def _skip(data: bytes, position: int) -> int:
    match = _BLANK.match(data, position)
    assert match
    return match.end()
