"""SARIF: the published schema, GitHub's limits, fingerprints, and fixes that git agrees with."""

from __future__ import annotations

import gzip
import io
import json
import shutil
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from patcher import __version__, cli
from patcher.edits import unified_diff
from patcher.gates import Severity
from patcher.report.html.patch_part import hunks
from patcher.report.sarif import LOCATIONS, RESULTS, fingerprints, render_sarif, rules
from patcher.report.sarif_fixes import replacements
from tests.conftest import REPOSITORY
from tests.report import made

MINI = REPOSITORY / "corpus" / "mini" / "0.6.3"
HEADER = "flashinfer/data/include/flashinfer/comm/trtllm_allreduce.cuh"
# "About code scanning limits on SARIF results" in GitHub's documentation: what is rejected
# above, and what is stored of it.
HARD = {"runs": 20, "results": 25_000, "rules": 25_000, "locations": 1000, "tags": 20}
STORED = {"results": 5000, "locations": 100, "tags": 10, "description": 1024}
MAX_GZIP = 10 * 1024 * 1024


def scan(root: Path, tmp_path: Path, *more: str) -> dict[str, Any]:
    out = tmp_path / "scan.sarif"
    assert cli.main(["scan", "flashinfer", "--root", str(root), "--arch", "sm_120a", "--format",
                     "sarif", "-o", str(out), *more]) == 0
    document: dict[str, Any] = json.loads(out.read_text("utf-8"))
    return document


@pytest.fixture(scope="session")
def schema(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The published schema of SARIF 2.1.0, out of a package of Microsoft's on npm."""
    npm = shutil.which("npm")
    if not npm:
        pytest.skip("needs npm, to get the published schema")
    folder = tmp_path_factory.mktemp("schema")
    done = subprocess.run([npm, "pack", "--silent", "@microsoft/jest-sarif@1.0.0-beta.0"],
                          cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"needs the npm registry: {done.stderr[-300:]}")
    with tarfile.open(folder / done.stdout.strip()) as archive:
        file = archive.extractfile("package/lib/schemas/sarif-2.1.0-rtm.5.json")
        assert file is not None
        found: dict[str, Any] = json.load(io.TextIOWrapper(file, "utf-8"))
    return found


@pytest.mark.slow
@pytest.mark.network
def test_documents_hold_to_the_published_schema(tmp_path: Path, schema: dict[str, Any]) -> None:
    from jsonschema import Draft7Validator

    validator = Draft7Validator(schema)
    hostile = json.loads(render_sarif(made.hostile(), lambda path: b"#include <x>\n", __version__))
    for document in (scan(MINI, tmp_path), hostile):
        assert [error.message for error in validator.iter_errors(document)] == []
    broken = scan(MINI, tmp_path)
    broken["runs"][0]["results"][0]["level"] = "fatal"
    assert list(validator.iter_errors(broken)), "the validator sees what is wrong"


def check_limits(document: dict[str, Any]) -> None:
    text = json.dumps(document).encode()
    assert len(gzip.compress(text)) < MAX_GZIP
    (run,) = document["runs"]
    declared = run["tool"]["driver"]["rules"]
    assert len(run["results"]) <= STORED["results"] < HARD["results"]
    assert len(declared) <= HARD["rules"]
    for rule in declared:
        assert len(rule["properties"]["tags"]) <= STORED["tags"] < HARD["tags"]
        for key in ("shortDescription", "fullDescription"):
            assert len(rule[key]["text"]) <= STORED["description"]
    for result in run["results"]:
        assert declared[result["ruleIndex"]]["id"] == result["ruleId"]
        assert len(result["message"]["text"]) <= STORED["description"]
        related = result.get("relatedLocations", [])
        assert len(result["locations"]) + len(related) <= STORED["locations"] < HARD["locations"]


def test_limits_hold_for_more_than_there_is_room_for() -> None:
    grave = made.gate("a.cuh", 7, id="PR-grave", lines=tuple(range(7, 900)))
    many = [made.gate(f"src/{n}.cuh", 1, "x" * 3000, id=f"PR-{n}", severity=Severity.INFO)
            for n in range(RESULTS + 50)]
    document = json.loads(render_sarif(made.report([*many, grave]), lambda path: None, "1"))
    check_limits(document)
    (run,) = document["runs"]
    assert len(run["results"]) == RESULTS
    assert run["results"][0]["properties"]["gate"] == "PR-grave", "the gravest are kept"
    assert len(run["results"][0]["relatedLocations"]) == LOCATIONS - 1
    (_, notice) = run["invocations"][0]["toolExecutionNotifications"]
    assert notice["message"]["text"].startswith("51 findings")


def test_every_rule_is_declared_and_every_result_has_one(tmp_path: Path) -> None:
    document = scan(MINI, tmp_path)
    check_limits(document)
    declared = [rule["id"] for rule in document["runs"][0]["tool"]["driver"]["rules"]]
    assert set(declared) == set(rules())
    strange = made.gate("a.cuh", 1, rule="of-tomorrow")
    check_limits(json.loads(render_sarif(made.report([strange]), lambda path: None, "1")))
    assert {r["level"] for r in document["runs"][0]["results"]} >= {"error", "warning"}


@pytest.mark.slow
@pytest.mark.wheels
def test_a_whole_release_is_within_the_limits(
    unpacked: Callable[[str, str], Path], tmp_path: Path
) -> None:
    document = scan(unpacked("flashinfer-python", "0.6.3"), tmp_path)
    check_limits(document)
    marks = [r["partialFingerprints"]["gate/v1"] for r in document["runs"][0]["results"]]
    assert len(marks) == len(set(marks))


def test_fingerprints_stay_when_lines_move(tmp_path: Path) -> None:
    """Lines before, between and inside; the ids of python gates at module level, too."""
    site = Path(shutil.copytree(MINI, tmp_path / "site"))
    before = _marks(scan(site, tmp_path))
    for path, comment in ((HEADER, b"//\n"), ("flashinfer/jit/comm.py", b"#\n")):
        file = site / path
        head, rest = file.read_bytes().split(b"\n", 1)
        file.write_bytes(comment * 40 + head + b"\n" + comment + rest)
    after = _marks(scan(site, tmp_path))
    assert before.keys() == after.keys()
    assert all(after[mark] - before[mark] == 41 for mark in before), "and every line has moved"


def _marks(document: dict[str, Any]) -> dict[str, int]:
    return {result["partialFingerprints"]["primaryLocationLineHash"]:
            result["locations"][0]["physicalLocation"]["region"]["startLine"]
            for result in document["runs"][0]["results"]}


def test_equal_gates_have_fingerprints_of_their_own_in_the_files_order() -> None:
    one, two = made.gate("a.cuh", 10, within="k"), made.gate("a.cuh", 20, within="k")
    assert fingerprints([two, one]) == list(reversed(fingerprints([one, two])))
    other = made.gate("a.cuh", 10, "__CUDA_ARCH__ < 1000", within="k")
    assert len(set(fingerprints([one, two, other]))) == 3


def replaced(text: str, parts: list[dict[str, Any]]) -> str:
    """What a reader of SARIF makes of them: columns count characters, from one."""
    starts = [0]
    for line in text.split("\n"):
        starts.append(starts[-1] + len(line) + 1)
    for one in sorted(parts, key=lambda r: -int(r["deletedRegion"]["startLine"])):
        region = one["deletedRegion"]
        begin = starts[region["startLine"] - 1] + region["startColumn"] - 1
        end = starts[region["endLine"] - 1] + region["endColumn"] - 1
        text = text[:begin] + one["insertedContent"]["text"] + text[end:]
    return text


def test_a_fix_makes_of_the_files_what_git_makes_of_the_diff(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    site = Path(shutil.copytree(MINI, tmp_path / "site"))
    result = next(r for r in scan(site, tmp_path)["runs"][0]["results"] if "fixes" in r)
    group = result["properties"]["openedBy"].split("/")
    (fix,) = result["fixes"]
    fixed = {change["artifactLocation"]["uri"]:
             replaced((site / change["artifactLocation"]["uri"]).read_text("utf-8"),
                      change["replacements"]) for change in fix["artifactChanges"]}
    capsys.readouterr()
    assert cli.main(["diff", group[0], "--group", group[1], "--root", str(site), "--arch",
                     "sm_120a"]) == 0
    subprocess.run(["git", "apply", "-"], cwd=site, input=capsys.readouterr().out.encode(),
                   check=True)
    assert len(fixed) > 1, "a group is more than one file"
    assert fixed == {path: (site / path).read_text("utf-8") for path in fixed}


LINES = st.lists(st.sampled_from(["a", "b", "", "-c", "+d", " e", "ä", "f\r"]), max_size=12)


@settings(max_examples=200, deadline=None)
@given(LINES, LINES)
def test_replacements_are_the_diff(old: list[str], new: list[str]) -> None:
    before, after = ("".join(f"{line}\n" for line in side) for side in (old, new))
    if not before or not after:
        return  # a file that comes or goes is no change of lines
    diff = unified_diff(before.encode(), after.encode(), "x")
    made_of_it = [one for hunk in hunks(diff) for one in replacements(hunk)]
    assert replaced(before, made_of_it) == after


def test_a_baseline_marks_what_is_new(tmp_path: Path) -> None:
    old = tmp_path / "old.json"
    assert cli.main(["scan", "flashinfer", "--root", str(MINI), "--arch", "sm_120a", "--format",
                     "json", "-o", str(old)]) == 0
    results = scan(MINI, tmp_path, "--baseline", str(old))["runs"][0]["results"]
    assert {result["baselineState"] for result in results} == {"unchanged"}


def test_paths_are_references_whatever_they_hold() -> None:
    document = json.loads(render_sarif(made.hostile(), lambda path: None, "1"))
    for result in document["runs"][0]["results"]:
        uri = result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
        assert not set(uri) & set(' <>"{}|\\^`')
        assert not uri.startswith("javascript:")
