"""The #if ladders of one file, for whoever edits or reports them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from patcher.cuda.expression import Node, Parser
from patcher.cuda.lexer import CONDITIONAL, Directive, directives
from patcher.cuda.problems import Malformed, TooComplex, deep_recursion
from patcher.cuda.tokens import SPACES, significant, tokenise
from patcher.edits import Span


@dataclass(frozen=True, slots=True)
class Arm:
    """One arm of a ladder.

    ``condition`` is an expression (``defined(X)`` for #ifdef, empty for #else)
    on one line, as written otherwise; ``span`` are the bytes of what follows the
    directive's name, ``word`` those of the name. ``body_line`` is the first line
    below the directive, ``end_line`` that of the directive which ends the arm.
    """

    kind: str
    condition: str
    line: int
    body_line: int
    end_line: int
    span: Span
    word: Span


@dataclass(frozen=True, slots=True)
class Ladder:
    """``depth`` is 0 at file level; ``parent`` is the line of the enclosing arm."""

    arms: tuple[Arm, ...]
    depth: int
    parent: int | None

    @property
    def line(self) -> int:
        return self.arms[0].line

    @property
    def end_line(self) -> int:
        return self.arms[-1].end_line


@dataclass(frozen=True)
class SourceFile:
    """Ladders in the order of their first lines, and what is wrong with them."""

    ladders: tuple[Ladder, ...]
    warnings: tuple[str, ...] = ()
    arms: dict[int, tuple[Ladder, Arm]] = field(default_factory=dict)  # by the arm's line
    ends: dict[int, int] = field(default_factory=dict)  # an #endif's line -> the line below it

    def enclosing(self, line: int) -> Arm | None:
        """The innermost arm whose body holds the line."""
        inside = [arm for _, arm in self.arms.values() if arm.line < line < arm.end_line]
        return max(inside, key=lambda arm: arm.line, default=None)


@dataclass(slots=True)
class _Open:
    depth: int
    parent: int | None
    heads: list[Directive]
    arms: list[Arm] = field(default_factory=list)

    def close(self, line: int) -> None:
        head = self.heads[-1]
        self.arms.append(Arm(head.name, _condition(head), head.line, head.end_line + 1, line,
                             head.span, head.word))


def parse(data: bytes) -> SourceFile:
    """The ladders of a file; an unterminated one ends with the file and is warned of.

    Raises InputError for a file past the bounds of ``problems``.
    """
    return ladders_of(directives(data), data.count(b"\n") + 2)


def ladders_of(found: Iterable[Directive], last: int) -> SourceFile:
    """The ladders that directives make; an open one ends on the line ``last``."""
    done: list[Ladder] = []
    stack: list[_Open] = []
    warnings: list[str] = []
    ends: dict[int, int] = {}
    for item in found:
        if item.name not in CONDITIONAL:
            continue
        if item.name in ("if", "ifdef", "ifndef"):
            parent = stack[-1].heads[-1].line if stack else None
            stack.append(_Open(len(stack), parent, [item]))
        elif not stack:
            warnings.append(f"line {item.line}: #{item.name} without #if")
        else:
            stack[-1].close(item.line)
            if item.name == "endif":
                closed = stack.pop()
                ends[item.line] = item.end_line + 1
                done.append(Ladder(tuple(closed.arms), closed.depth, closed.parent))
            else:
                stack[-1].heads.append(item)
    for left in reversed(stack):
        warnings.append(f"line {left.heads[0].line}: unterminated #{left.heads[0].name}")
        left.close(last)
        done.append(Ladder(tuple(left.arms), left.depth, left.parent))
    ladders = tuple(sorted(done, key=lambda ladder: ladder.line))
    arms = {arm.line: (ladder, arm) for ladder in ladders for arm in ladder.arms}
    return SourceFile(ladders, tuple(warnings), arms, ends)


def _condition(head: Directive) -> str:
    if head.name in ("if", "elif"):
        return SPACES.sub(" ", head.text)
    if head.name == "else":
        return ""
    name = SPACES.split(head.text, maxsplit=1)[0]
    return f"{'!' if head.name.endswith('ndef') else ''}defined({name})"


def normalise(condition: str) -> str:
    """The form in which conditions are compared.

    Equal after dropping comments, white space, redundant parentheses, the
    spelling of ``defined``, alternative tokens, and the order under && and ||.
    A text that is no expression is only freed of comments and white space.
    """
    rows = directives(b"#if " + condition.encode("latin-1", "replace"))
    text = rows[0].text if rows else condition
    tokens = significant(tokenise(text))
    try:
        with deep_recursion():
            return _render(Parser(tokens, keep_names=True).parse())
    except (Malformed, TooComplex):
        return " ".join(tokens)


def _render(node: Node) -> str:
    kind = node[0]
    if kind == "text":
        return str(node[1])
    if kind == "number":
        return str(node[1])
    if kind == "chain":
        return _render_chain(node)
    if kind == "?:":
        return " ".join([_nested(node[1]), "?", _nested(node[2]), ":", _nested(node[3])])
    if kind == ",":
        return ", ".join(map(_nested, node[1]))
    return f"{kind}{_nested(node[1])}"


def _nested(node: Node) -> str:
    return f"({_render(node)})" if node[0] in ("chain", "?:", ",") else _render(node)


def _render_chain(node: Node) -> str:
    operator = node[2][0][0]
    if operator in ("&&", "||"):
        return f" {operator} ".join(sorted(_operands(node, operator)))
    parts = [_nested(node[1])]
    for op, operand in node[2]:
        parts += [op, _nested(operand)]
    return " ".join(parts)


def _operands(node: Node, operator: str) -> list[str]:
    """The operands of a chain, those of nested chains of the same operator included."""
    if node[0] != "chain" or node[2][0][0] != operator:
        return [_nested(node)]
    found = _operands(node[1], operator)
    for _, operand in node[2]:
        found += _operands(operand, operator)
    return found
