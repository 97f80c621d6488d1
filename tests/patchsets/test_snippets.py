"""``sm-patch test``: the shipped patchsets' own snippets, and the verb on broken ones."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from patcher.cli import main
from patcher.patchset.load import load_patchset
from patcher.patchset.shipped import shipped
from patcher.snippets import has_snippets, run_snippets

PATCHSET = """\
sm-patch: 1
name: tiny
package: tiny
groups:
  - id: main
    patches:
      - id: gate
        python-gate: {file: tiny/jit.py, within: gen, gate: majors, open: ["12.0", "12.1"]}
      - id: word
        affects: all
        reason: the same everywhere
        text: {file: tiny/k.cu, find: "n)", replace: "8)"}
"""
GATE = """\
sm-patch-test: 1
patchset: tiny
tests:
  - patch: main/gate
    valid:
      - {id: open, source: "def gen():\\n    f(supported_major_versions=[12])\\n"}
    invalid:
      - id: list
        before: "def gen():\\n    f(supported_major_versions=[9])\\n"
        after: "def gen():\\n    f(supported_major_versions=[9, 12])\\n"
"""
WORD = """\
  - patch: main/word
    valid: [{id: absent, source: "stride(m)"}]
    invalid: [{id: there, before: "stride(n)", after: "stride(8)"}]
"""
Write = Callable[[str], str]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Puts tests beside the patchset and gives the patchset's path."""

    def beside(tests: str) -> str:
        (tmp_path / "tiny.yaml").write_text(
            PATCHSET.replace("gate: majors", "gate: supported_major_versions"))
        (tmp_path / "tiny.test.yaml").write_text(tests)
        return str(tmp_path / "tiny.yaml")

    return beside


@pytest.mark.parametrize("name", [
    name for name in shipped()
    if any(has_snippets(patch.operation) for group in load_patchset(name).groups
           for patch in [*group.patches, *(p for v in group.variants for p in v.patches)])])
def test_every_shipped_patchset_that_edits_passes_its_own_snippets(name: str) -> None:
    found = run_snippets(name)
    assert found.results
    assert not found.failed, found.failed


def test_all_pass_and_nothing_is_left_out(
    write: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(GATE + WORD)
    assert main(["test", path]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines == ["all 4 snippets of tiny pass", f"next: sm-patch diff {path}"]


def test_a_patch_without_snippets_is_named(
    write: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["test", write(GATE)]) == 0
    assert "no snippet for main/word" in capsys.readouterr().out


@pytest.mark.parametrize(("old", "new", "reason"), [
    ("[9, 12])\\n\"", "[9, 13])\\n\"", "comes out differently"),
    ("versions=[12])", "versions=[9])", "is applicable, not not-needed"),
    ("versions=[9])", "versions=[9, 12])", "is not-needed"),
    ('source: "stride(m)"', 'source: "stride(n)"', "is applicable, not conflict"),
    ('after: "stride(8)"', 'after: "stride(9)"', "comes out differently"),
])
def test_a_wrong_snippet_fails_and_says_how(
    write: Write, capsys: pytest.CaptureFixture[str], old: str, new: str, reason: str
) -> None:
    tests = GATE + WORD
    assert old in tests
    assert main(["test", write(tests.replace(old, new, 1))]) == 1
    out = capsys.readouterr().out
    assert out.startswith("1 of 4 snippets of tiny fail")
    assert reason in out


def test_an_edit_that_would_be_made_twice_fails(tmp_path: Path) -> None:
    text = PATCHSET.replace('find: "n)", replace: "8)"', 'find: "n)", replace: "(n)"')
    (tmp_path / "tiny.yaml").write_text(text)
    (tmp_path / "tiny.test.yaml").write_text(
        "sm-patch-test: 1\npatchset: tiny\ntests:\n  - patch: main/word\n"
        '    invalid: [{id: again, before: "f(n)", after: "f((n)"}]\n')
    (result,) = run_snippets(str(tmp_path / "tiny.yaml")).failed
    assert result.reason == "would be edited a second time"


def test_json(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["test", write((GATE + WORD).replace("[9, 12])", "[9])")), "--format", "json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert (found["version"], found["patchset"], found["untested"]) == (1, "tiny", [])
    assert [r["verdict"] for r in found["results"]] == ["passed", "failed", "passed", "passed"]
    assert "-    f(supported_major_versions=[9])" in found["results"][1]["diff"]


@pytest.mark.parametrize(("old", "new", "problem"), [
    ("sm-patch-test: 1", "sm-patch-test: 2", "sm-patch-test: expected 1"),
    ("patchset: tiny", "patchset: other", "patchset: is other, beside tiny"),
    ("main/gate", "main/gat", "tests[0]: no patch main/gat; there are main/gate, main/word"),
    ("valid:\n", "vald:\n", "tests[0].vald: unknown key; did you mean valid?"),
    ("        before: ", "        befor: ", "tests[0].invalid[0]: 'before' is required"),
])
def test_a_broken_test_file_is_exit_2_with_its_path(
    write: Write, capsys: pytest.CaptureFixture[str], old: str, new: str, problem: str
) -> None:
    assert main(["test", write(GATE.replace(old, new, 1))]) == 2
    assert problem in capsys.readouterr().err


def test_no_test_file_is_exit_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "tiny.yaml").write_text(PATCHSET)
    assert main(["test", str(tmp_path / "tiny.yaml")]) == 2
    assert "no snippets to test with" in capsys.readouterr().err
