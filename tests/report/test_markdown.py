"""Markdown for GitHub: read by a parser of that dialect, hostile words stay words."""

from __future__ import annotations

from pathlib import Path

import pytest

from patcher import cli
from patcher.report.markdown import LENGTH, code, plain, scan_markdown
from tests.conftest import REPOSITORY
from tests.report import made

MINI = REPOSITORY / "corpus" / "mini" / "0.6.3"


@pytest.mark.parametrize(("text", "span"), [
    ("a | b", "`a \\| b`"), ("`x`", "`` `x` ``"), ("a ``b`` c", "```a ``b`` c```"), ("", ""),
    ("two\nlines", "`two lines`"),
])
def test_a_code_span_ends_where_it_should(text: str, span: str) -> None:
    """CommonMark: a span ends at a run of backticks as long as the one that began it."""
    assert code(text) == span


def test_words_are_no_markup() -> None:
    text = plain("<img src=x> @someone #1 [a](b) **c** `d` a|b &lt; e_f_g ~~h~~")
    assert not set("<@[]*`|_~") & set(text.replace("&#", ""))


@pytest.mark.parametrize("form", ["html", "rows"])
def test_github_renders_a_table_and_no_foreign_markup(form: str) -> None:
    markdown_it = pytest.importorskip("markdown_it", reason="comes with rich")
    parser = markdown_it.MarkdownIt("gfm-like", {"linkify": False, "html": True})
    text = scan_markdown(made.hostile())
    tokens = [inner for token in parser.parse(text) for inner in (token, *(token.children or ()))]
    if form == "html":
        html = {token.content.strip() for token in tokens if token.type.startswith("html")}
        assert all(part.startswith(("<details>", "</details>")) for part in html), html
        assert not any(token.type in ("image", "link_open") for token in tokens)
    else:
        rows = sum(token.type == "tr_open" for token in tokens)
        assert rows == 2 + 2 * len(made.HOSTILE), "two tables with a head and a row each"


def test_it_fits_into_a_comment() -> None:
    gates = [made.gate(f"{'d' * 150}/{n}.cuh", 1, "x" * 300, id=f"PR-{n}") for n in range(5000)]
    modules = [made.module(f"{'m' * 190}{n}", gates[n: n + 1]) for n in range(5000)]
    text = scan_markdown(made.report(gates, modules))
    assert len(text) <= LENGTH < 65_536


def test_the_verbs_write_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    where = ["--root", str(MINI), "--arch", "sm_120a", "--format", "markdown"]
    assert cli.main(["scan", "flashinfer", *where]) == 0
    text = capsys.readouterr().out
    assert "| `trtllm_comm` | python: `flashinfer/jit/comm.py:20`" in text
    assert text.rstrip().endswith("Next: `sm-patch diff flashinfer-sm120 --group trtllm-comm`")
    assert cli.main(["diff", "flashinfer-sm120", *where]) == 0
    assert "| `flashinfer-sm120/trtllm-comm` | applicable |" in capsys.readouterr().out
