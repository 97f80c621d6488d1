"""The page as text: nothing in it can become markup, and its numbers are those of the files."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from patcher import cli
from patcher.report.html.documents import scan_page
from patcher.report.html.excerpts import Excerpts
from patcher.report.html.interning import Interned
from patcher.report.html.patch_part import hunks
from tests.conftest import REPOSITORY
from tests.report import made

MINI = REPOSITORY / "corpus" / "mini" / "0.6.3"


class Page(HTMLParser):
    """The elements of a page, and the text of its scripts and styles."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.inner: list[tuple[str, str]] = []
        self.open = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

        self.open = tag

    def handle_endtag(self, tag: str) -> None:
        self.open = ""

    def handle_data(self, data: str) -> None:
        if self.open in ("script", "style"):
            self.inner.append((self.open, data))

    def named(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]

    def data(self) -> dict[str, Any]:
        """The JSON of the page."""
        texts = [text for tag, text in self.inner if tag == "script"]
        document: dict[str, Any] = json.loads(texts[0])
        return document


def source(path: str) -> bytes | None:
    """Every file holds every attack, once per line."""
    return "\n".join(made.HOSTILE * 3).encode()


def test_nothing_of_a_package_becomes_markup() -> None:
    page = Page(scan_page(made.hostile(), source))
    assert len(page.named("script")) == 2
    assert {tag for tag, _ in page.tags}.isdisjoint({"img", "iframe", "object", "xss", "b"})
    handlers = [a for _, attributes in page.tags for a in attributes if a.startswith("on")]
    assert handlers == []
    scan = page.data()["scan"]
    assert {row["name"] for row in scan["modules"]} == set(made.HOSTILE)
    assert set(made.HOSTILE) <= set(scan["strings"]), "the words arrive as they are"


def test_the_policy_allows_the_own_script_and_style_and_nothing_else() -> None:
    page = Page(scan_page(made.hostile(), source))
    (policy,) = [a["content"] for a in page.named("meta") if a.get("http-equiv")]
    assert policy is not None
    assert policy.startswith("default-src 'none';")
    assert "unsafe" not in policy
    digests = set(re.findall(r"'sha256-([^']+)'", policy))
    inner = [("style", text) for tag, text in page.inner if tag == "style"]
    inner.append([one for one in page.inner if one[0] == "script"][1])
    assert digests == {base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
                       for _, text in inner}


def test_the_page_asks_no_network_for_anything() -> None:
    page = Page(scan_page(made.hostile(), source))
    assert not page.named("link")
    assert all("src" not in attributes for attributes in page.named("script"))
    style = next(text for tag, text in page.inner if tag == "style")
    assert "url(" not in style
    assert "@import" not in style


def test_excerpts_are_the_lines_of_the_files(tmp_path: Path) -> None:
    lines = [f"line {n}" for n in range(1, 101)]
    file = tmp_path / "a.cuh"
    file.write_text("\n".join(lines), "utf-8")
    excerpts = Excerpts(lambda path: file.read_bytes() if path == "a.cuh" else None)
    excerpts.gate(made.gate("a.cuh", 50))
    excerpts.gate(made.gate("gone.cuh", 5))
    ((start, text),) = excerpts.files()["a.cuh"]
    assert isinstance(start, int)
    shown = str(text).split("\n")
    assert shown == lines[start - 1: start - 1 + len(shown)]
    assert {"line 50", "line 54"} <= set(shown), "the guard and the line that ends it"
    assert "gone.cuh" not in excerpts.files()


def test_a_page_has_room_for_so_much_source_and_no_more(tmp_path: Path) -> None:
    excerpts = Excerpts(lambda path: b"x" * 100_000 + b"\n" + b"y\n" * 500, budget=300)
    for line in range(1, 400, 40):
        excerpts.gate(made.gate("big.cuh", line))
    size = sum(len(str(text)) for _, text in excerpts.files()["big.cuh"])
    assert 0 < size <= 300


@pytest.mark.parametrize(("directive", "line"), [
    ('#include "b.cuh"', 2), ("  #  include <dir/b.cuh>", 2), ('#include "../dir/b.cuh"', 2),
    ('#include "other/b.cuh"', 0), ('// #include "b.cuh"', 0), ("#include NAME", 0),
])
def test_a_chain_names_the_line_that_includes(directive: str, line: int) -> None:
    excerpts = Excerpts(lambda path: f"// first\n{directive}\n".encode())
    assert excerpts.chain(["a.cu", "include/dir/b.cuh"]) == [line]


def test_numbers_stand_for_what_was_interned() -> None:
    interned = Interned()
    numbers = [interned.list(["a", "b"]), interned.list(["b"]), interned.list(["a", "b"])]
    worlds = interned.set(made.OPEN)
    tables: dict[str, Any] = interned.tables()
    assert numbers[0] == numbers[2] != numbers[1]
    assert [tables["strings"][i] for i in tables["lists"][numbers[0]]] == ["a", "b"]
    assert interned.set(made.SHUT) != worlds == interned.set(made.OPEN)


def test_hunks_are_those_git_applies(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What stands on the right is what git makes of the file."""
    site = Path(shutil.copytree(MINI, tmp_path / "site"))
    common = ["diff", "flashinfer-sm120", "--root", str(site), "--arch", "sm_120a"]
    assert cli.main(common) == 0
    diff = capsys.readouterr().out
    assert cli.main([*common, "--format", "html"]) == 0
    groups = Page(capsys.readouterr().out).data()["patches"]
    files = [file for group in groups for patch in group["patches"] for file in patch["files"]]
    changed = {file["path"] for file in files}
    assert changed
    before = {path: (site / path).read_text("utf-8").split("\n") for path in changed}
    subprocess.run(["git", "apply", "-"], cwd=site, input=diff.encode(), check=True)
    for file in files:
        after = (site / file["path"]).read_text("utf-8").split("\n")
        for hunk in file["hunks"]:
            old = [line[1:] for line in hunk["lines"] if line[0] != "+"]
            new = [line[1:] for line in hunk["lines"] if line[0] != "-"]
            if sum(other["path"] == file["path"] for other in files) == 1:
                assert before[file["path"]][hunk["old"] - 1:][: len(old)] == old
                assert after[hunk["new"] - 1:][: len(new)] == new


def test_a_diff_of_signs_is_read_by_its_first_column() -> None:
    (hunk,) = hunks("--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n---x\n+++x\n y\n")
    assert hunk == {"old": 1, "new": 1, "lines": ["---x", "+++x", " y"]}


def test_the_verbs_write_pages(tmp_path: Path) -> None:
    out = tmp_path / "scan.html"
    assert cli.main(["scan", "flashinfer", "--root", str(MINI), "--arch", "sm_120a",
                     "--format", "html", "-o", str(out)]) == 0
    page = Page(out.read_text("utf-8"))
    document = page.data()
    assert document["answer"].startswith("2 modules closed on sm_120a")
    names = [group["name"] for group in document["patches"]]
    assert names == ["flashinfer-sm120/trtllm-comm"]
    header = "flashinfer/data/include/flashinfer/comm/trtllm_allreduce.cuh"
    text = (MINI / header).read_text("utf-8").split("\n")
    for start, window in document["scan"]["files"][header]:
        shown = window.split("\n")
        assert shown == text[start - 1: start - 1 + len(shown)]
