"""Documents that somebody damaged: an error with a place, or a patchset; never anything else."""

from __future__ import annotations

import random
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from patcher.errors import PatcherError
from patcher.patchset.load import parse_patchset
from tests.patchset.test_load import EXAMPLE, MINIMAL
from tests.shapes import examples, printed_shapes, seen

__all__ = ["printed_shapes"]

PIECES = ("&a ", "*a", "!!python/object:os.system ", "<<: *a", "? ", "- ", ": ", "\t", "\0", "{",
          "[", "}", "]", "|", ">", "'", '"', "\ufeff", "---\n", "...\n", "%YAML 1.1\n", "../..",
          "/etc",
          "\ud800", "0x7f", "1e999", "null", "~", "yes", "\r", "\u2028", "# ")


def broken(text: str, seed: int) -> tuple[str, str]:
    """A document with one to three damages, and their kinds."""
    choose, kinds = random.Random(seed), []
    for _ in range(choose.randint(1, 3)):
        at = choose.randrange(len(text) + 1)
        kind = choose.choice(("cut", "insert", "double a line", "swap lines", "drop a line"))
        kinds.append(kind)
        lines = text.split("\n")
        row, other = choose.randrange(len(lines)), choose.randrange(len(lines))
        if kind == "cut":
            text = text[:at] + text[at + choose.randint(1, 40):]
        elif kind == "insert":
            text = text[:at] + choose.choice(PIECES) + text[at:]
        else:
            if kind == "double a line":
                lines.insert(other, lines[row])
            elif kind == "swap lines":
                lines[row], lines[other] = lines[other], lines[row]
            else:
                del lines[row]
            text = "\n".join(lines)
    return text, " + ".join(sorted(set(kinds)))


@settings(max_examples=examples(150), deadline=None)
@given(st.sampled_from([MINIMAL, EXAMPLE]), st.integers(0, 1 << 40))
def test_a_damaged_document_is_an_error_or_a_patchset(text: str, seed: int) -> None:
    document, kinds = broken(text, seed)
    try:
        patchset = parse_patchset(document.encode("utf-8", "surrogatepass"), "damaged.yaml")
    except PatcherError:
        seen("damaged YAML", "refused", kinds)
        return
    seen("damaged YAML", "loaded", kinds)
    # what was loaded names no place outside the package
    for group in patchset.groups:
        for patch in group.patches:
            path = str(getattr(patch.operation, "file", ""))
            assert not path.startswith("/")
            assert ".." not in path.split("/")


@pytest.mark.parametrize("document", [
    "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
        f"{chr(98 + n)}: &{chr(98 + n)} [{', '.join(['*' + chr(97 + n)] * 9)}]\n"
        for n in range(9)),
    "[" * 100_000, "{a: " * 50_000, "- " * 100_000, "? " * 50_000, "a: " + "1" * 1_000_000,
    "'" * 100_001, "&a " * 50_000, "x: !!" + "y" * 100_000, "# " * 500_000,
], ids=["laughs", "brackets", "braces", "dashes", "keys", "number", "quotes", "anchors", "tag",
        "comments"])
def test_a_bomb_is_refused_in_time(document: str) -> None:
    start = time.process_time()
    with pytest.raises(PatcherError):
        parse_patchset(document.encode(), "bomb.yaml")
    assert time.process_time() - start < 5
