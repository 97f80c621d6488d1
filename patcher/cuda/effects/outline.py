"""Functions of a C++ file by matched braces: which one a line is in, and is it a kernel."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field

from patcher.cuda.effects.tokens import Kind, Token

KERNEL_WORDS = frozenset({"__global__", "CUTLASS_GLOBAL"})
_TYPE_WORDS = frozenset({"class", "struct", "union", "enum"})
# Names with parentheses in front of a body that are not the function's own name.
_NOT_A_NAME = frozenset(
    {
        "__launch_bounds__", "__cluster_dims__", "__maxnreg__", "__attribute__", "__declspec",
        "__align__", "alignas", "decltype", "noexcept", "requires", "explicit", "throw",
        "__block_size__", "if", "for", "while", "switch", "catch",
    }
)
_AFTER_PARAMETERS = frozenset(
    {
        "const", "noexcept", "override", "final", "volatile", "mutable", "requires", "try", "->",
        ":", "&", "&&", "throw",
    }
)
_CLOSERS = {")": "(", "]": "[", "}": "{"}


@dataclass(frozen=True, slots=True)
class Function:
    """A function with a body; ``first`` and ``last`` are the token indices of its braces."""

    name: str
    kernel: bool
    first: int
    last: int
    line: int  # of the opening brace
    end_line: int  # of the closing brace


@dataclass(frozen=True, slots=True)
class Outline:
    """The outermost functions in order. ``balanced`` is False when braces do not match."""

    functions: tuple[Function, ...]
    balanced: bool

    def around(self, index: int) -> Function | None:
        """The function whose body holds this token index."""
        position = bisect_right([f.first for f in self.functions], index) - 1
        if position < 0 or index >= self.functions[position].last:
            return None
        return self.functions[position]


@dataclass(slots=True)
class _Open:
    """An opening bracket not yet closed."""

    text: str
    index: int
    kind: str = ""  # for braces: "function", "type", "namespace" or "" (a block)
    name: str = ""
    kernel: bool = False


@dataclass(slots=True)
class _Reader:
    stack: list[_Open] = field(default_factory=list)
    head: list[Token] = field(default_factory=list)
    found: list[Function] = field(default_factory=list)
    balanced: bool = True
    inside: int = 0  # how many function bodies are open

    def open(self, token: Token, index: int) -> None:
        entry = _Open(token.text, index)
        if token.text == "{" and not self.inside and not self.in_parentheses():
            entry.kind, entry.name, entry.kernel = _classify(self.head)
            self.inside += entry.kind == "function"
            self.head = []
        elif not self.inside:
            self.head.append(token)
        self.stack.append(entry)

    def in_parentheses(self) -> bool:
        return bool(self.stack) and self.stack[-1].text != "{"

    def close(self, token: Token, index: int, opened: Token | None) -> None:
        entry = self.stack.pop()
        if entry.kind == "function":
            self.inside -= 1
            types = [o.name for o in self.stack if o.kind == "type" and o.name]
            assert opened is not None
            self.found.append(
                Function("::".join([*types, entry.name]), entry.kernel, entry.index, index,
                         opened.line, token.line)
            )
        if token.text == "}" and not self.in_parentheses():
            self.head = []
        elif not self.inside:
            self.head.append(token)


def outline(all_tokens: Sequence[Token], live: Sequence[int]) -> Outline:
    """Match braces over the tokens at the indices ``live``, in order."""
    reader = _Reader()
    for index in live:
        token = all_tokens[index]
        if token.kind is Kind.DIRECTIVE:
            continue
        text = token.text if token.kind is Kind.PUNCT else ""
        if text in ("(", "[", "{"):
            reader.open(token, index)
        elif text in _CLOSERS:
            while reader.stack and reader.stack[-1].text != _CLOSERS[text] and text == "}":
                reader.balanced = False
                reader.stack.pop()
            if reader.stack and reader.stack[-1].text == _CLOSERS[text]:
                reader.close(token, index, all_tokens[reader.stack[-1].index])
            else:
                reader.balanced = False
        elif not reader.inside:
            if text == ";" and not reader.in_parentheses():
                reader.head = []
            else:
                reader.head.append(token)
    balanced = reader.balanced and not reader.stack
    return Outline(tuple(sorted(reader.found, key=lambda f: f.first)), balanced)


def _classify(head: list[Token]) -> tuple[str, str, bool]:
    """Kind, name, and whether it is a kernel, of the brace that follows these tokens."""
    words = _without_template(head)
    texts = [t.text for t in words]
    if "namespace" in texts or (texts[:1] == ["extern"] and len(texts) == 2):
        return "namespace", "", False
    name = _function_name(texts)
    if name is not None and texts[-1] != "=":
        return "function", name, not KERNEL_WORDS.isdisjoint(texts)
    for position, text in enumerate(texts):
        if text in _TYPE_WORDS and name is None:
            return "type", _type_name(texts[position + 1 :]), False
    return "", "", False


def _without_template(head: list[Token]) -> list[Token]:
    """Drop the leading ``template <...>`` clauses, whose defaults may hold parentheses."""
    words = list(head)
    while words and words[0].text == "template":
        end = angle_end([t.text for t in words], 1)
        if end == 1:
            return words
        words = words[end:]
    return words


def angle_end(texts: Sequence[str], position: int) -> int:
    """The index behind the ``<...>`` that begins at ``position``, itself when none does."""
    depth = inside = 0  # a comparison inside parentheses is no bracket
    for index in range(position, len(texts)):
        inside += (texts[index] == "(") - (texts[index] == ")")
        depth += {"<": 1, ">": -1, ">>": -2}.get(texts[index], 0) if not inside else 0
        if depth <= 0:
            return index + 1 if index > position else position
    return position


def _type_name(texts: list[str]) -> str:
    depth = 0
    for text in texts:
        depth += (text == "(") - (text == ")")
        if depth == 0 and (text[0].isalpha() or text[0] == "_") and text not in _NOT_A_NAME:
            return "" if text in ("class", "struct") else text
    return ""


def _function_name(texts: list[str]) -> str | None:
    """The name in front of the parameter list, None when this is no function's head."""
    depth = 0
    for position, text in enumerate(texts):
        if text == "(" and depth == 0 and position:
            end = _closing(texts, position)
            following = texts[end + 1] if end + 1 < len(texts) else ""
            if not following or following in _AFTER_PARAMETERS:
                name = _spelled(texts, position)
                if name and name not in _NOT_A_NAME:
                    return name
        depth += (text == "(") - (text == ")")
    return None


def _closing(texts: list[str], position: int) -> int:
    depth = 0
    for index in range(position, len(texts)):
        depth += (texts[index] == "(") - (texts[index] == ")")
        if depth == 0:
            return index
    return len(texts)


def _spelled(texts: list[str], position: int) -> str:
    """The function name that ends just before ``position``, "" when none does."""
    for back in (1, 2, 3):  # operator+, operator[], operator()
        if position - back >= 0 and texts[position - back] == "operator":
            return "" if back == 1 and texts[position + 1] == ")" else "".join(
                texts[position - back : position]
            )
    last = texts[position - 1]
    if not (last[0].isalpha() or last[0] == "_"):
        return ""
    return f"~{last}" if position >= 2 and texts[position - 2] == "~" else last
