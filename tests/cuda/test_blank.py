"""What is a comment, what is a literal: pieces whose meaning is plain, in every order."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from patcher.cuda.effects.tokens import bare_code, blank_comments, comments

# a piece, and whether it is a comment, a literal or code
PIECES = [
    (b"x = R + 1;", "code"), (b"a / b", "code"), (b"1'000'000", "code"), (b"\n", "code"),
    (b"it(&R)", "code"), (b"// one \" line", "comment"), (b"// goes \\\n on", "comment"),
    (b"// goes \\\r\n on", "comment"), (b"/* \" ' R\"( */", "comment"), (b"/*\n\n*/", "comment"),
    (b'"text"', "literal"), (b'"a \\" b // no"', "literal"), (b'"/* no */"', "literal"),
    (b'"two \\\n lines"', "literal"), (b'"two \\\r\n lines"', "literal"), (b'""', "literal"),
    (b"'c'", "literal"), (b"'\\''", "literal"), (b"'\"'", "literal"),
    (b'R"(raw " // \n )"', "literal"), (b'R"x(raw )" )x"', "literal"), (b'"R"', "literal"),
]


@given(st.lists(st.sampled_from(PIECES), max_size=150))
@settings(deadline=None)
def test_comments_and_literals_are_told_apart(pieces: list[tuple[bytes, str]]) -> None:
    text, blanked, bare, said = b"", b"", b"", []
    for piece, kind in pieces:
        end = b"\n" if piece.startswith(b"//") else b" "
        spaces = bytes(10 if byte == 10 else 32 for byte in piece)
        text += piece + end
        blanked += (spaces if kind == "comment" else piece) + end
        bare += (piece if kind == "code" else spaces) + end
        said += [piece.decode()] if kind == "comment" else []
    assert blank_comments(text) == blanked
    assert bare_code(blanked) == bare
    assert [comment for _, comment in comments(text)] == said


def test_what_never_ends_is_bounded() -> None:
    """An open quote is no literal: what follows it is code."""
    for text in (b'"' + b"a" * 1000, b'x = "a\n// c', b"/" * 5, b'R"(' + b"a" * 1000):
        assert len(blank_comments(text)) == len(text)
    assert blank_comments(b'x = "a\n// c') == b'x = "a\n    '
