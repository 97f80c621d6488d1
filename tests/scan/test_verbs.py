"""The verbs on the miniature package: text, JSON, exit codes, baselines."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest

from patcher import cli
from patcher.arch import ALL_BITS
from patcher.cuda.conditions import Conditions, Truths

MINI = Path(__file__).resolve().parents[2] / "corpus" / "mini" / "0.6.3"
GATE_KEYS = {
    "id", "layer", "rule", "path", "line", "end_line", "condition", "open", "closed",
    "unreached", "unknown", "host", "excludes_target", "over_open", "effect", "cause",
    "evidence", "severity", "count", "hides", "units", "modules", "via", "opened_by",
}
REPORT_KEYS = {
    "version", "packages", "targets", "assumed", "references", "toolchain", "configurations",
    "unit_count", "file_count", "missing", "modules", "summary", "gates",
}


def run(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    assert cli.main(list(arguments)) == code
    return capsys.readouterr().out


def scan_json(capsys: pytest.CaptureFixture[str], root: Path, *more: str) -> dict[str, Any]:
    text = run(capsys, "scan", "flashinfer", "--root", str(root), "--arch", "sm_120a",
               "--format", "json", *more)
    document: dict[str, Any] = json.loads(text)
    assert text == json.dumps(document, sort_keys=True, indent=1, ensure_ascii=False) + "\n"
    return document


def test_the_first_line_is_the_answer(capsys: pytest.CaptureFixture[str]) -> None:
    text = run(capsys, "scan", "flashinfer", "--root", str(MINI), "--arch", "sm_120a")
    lines = text.splitlines()
    assert lines[0].startswith("2 modules closed on sm_120a; 1 can be opened: trtllm_comm")
    shown = [line for line in lines if not line.lstrip().startswith("flashinfer-python")]
    long = [line for line in shown if len(line) > 80]
    assert all("/" in line for line in long), "only a path may be longer"
    assert "intentionally excluded" in " ".join(text.split())


@pytest.mark.parametrize("wrong", [False, True])
def test_a_self_check_says_what_it_compared_and_fails_where_they_differ(
        capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, wrong: bool) -> None:
    """pcpp evaluates the conditions, too; an answer of ours that is turned round is noticed."""
    right = Conditions.truths

    def turned(*given: Any) -> tuple[Truths, Collection[str]]:
        found, asked = right(*given)
        if "< 1200" in given[1] and found.true not in (0, ALL_BITS):
            found = Truths(found.false, found.true)
        return found, asked

    if wrong:
        monkeypatch.setattr(Conditions, "truths", turned)
    assert cli.main(["scan", "flashinfer", "--root", str(MINI), "--arch", "sm_120a",
                     "--self-check"]) == int(wrong)
    said = capsys.readouterr().err
    assert int(re.findall(r"self-check: (\d+)", said)[0]) > 0
    assert ("we say True, pcpp False" in said) is wrong


def test_the_document_has_the_keys_of_the_contract(capsys: pytest.CaptureFixture[str]) -> None:
    document = scan_json(capsys, MINI)
    assert document.keys() >= REPORT_KEYS
    assert document["version"] == 1
    assert document["targets"] == ["sm_120a"]
    assert document["references"] == ["sm_90a", "sm_100a"]
    assert document["toolchain"].keys() == {"version", "path", "assumed"}
    for gate in document["gates"]:
        assert gate.keys() >= GATE_KEYS
        worlds = [name for key in ("open", "closed", "unreached", "unknown") for name in gate[key]]
        assert len(worlds) == len(set(worlds)), "the four sets are disjoint"
        assert gate["count"] == len(gate["lines"])
    module = next(m for m in document["modules"] if m["name"] == "trtllm_comm")
    ids = {gate["id"] for gate in document["gates"]}
    assert {row["gate"] for row in module["opens_alone"]} <= ids
    assert {layer["layer"] for layer in module["layers"]} == {
        "python", "preprocessor", "host", "build", "binary"
    }


def test_two_scans_are_equal(capsys: pytest.CaptureFixture[str]) -> None:
    assert scan_json(capsys, MINI) == scan_json(capsys, MINI)


@pytest.mark.parametrize(("arguments", "code"), [
    ([], 0), (["--fail-on", "critical"], 1), (["--fail-on", "warning"], 1),
    (["--layer", "host", "--fail-on", "warning"], 0),
])
def test_fail_on(capsys: pytest.CaptureFixture[str], arguments: list[str], code: int) -> None:
    run(capsys, "scan", "flashinfer", "--root", str(MINI), "--arch", "sm_120a", *arguments,
        code=code)


def test_nothing_closed_for_a_reference_itself(capsys: pytest.CaptureFixture[str]) -> None:
    text = run(capsys, "scan", "flashinfer", "--root", str(MINI), "--arch", "sm_100a",
               "--reference", "sm_100a", "--fail-on", "warning")
    assert text.startswith("0 modules closed on sm_100a; nothing to patch here")


def test_a_baseline_shows_only_what_is_new(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    old = tmp_path / "old.json"
    old.write_text(json.dumps(scan_json(capsys, MINI)))
    root = tmp_path / "site"
    shutil.copytree(MINI, root)
    header = root / "flashinfer/data/include/flashinfer/comm/trtllm_allreduce.cuh"
    header.write_bytes(b"\n\n" + header.read_bytes())  # moved lines are not new
    same = scan_json(capsys, root, "--baseline", str(old), "--fail-on", "warning")
    assert same["baseline"] == {"new": [], "gone": []}

    text = header.read_text().replace("< 1200", "< 1210", 1)
    header.write_text(text.replace("__CUDA_ARCH__ < 1210", "__CUDA_ARCH__ < 1100", 1))
    code = ["scan", "flashinfer", "--root", str(root), "--arch", "sm_120a",
            "--baseline", str(old), "--fail-on", "critical"]
    shown = run(capsys, *code, code=1)
    assert shown.startswith("1 newly closed or over-open on sm_120a")


def test_why_goes_from_the_function_to_the_binary(capsys: pytest.CaptureFixture[str]) -> None:
    text = run(capsys, "why", "flashinfer:trtllm_custom_all_reduce", "--root", str(MINI),
               "--arch", "sm_120a")
    words = " ".join(text.split())
    order = [words.index(f"{number} {layer}") for number, layer in enumerate(
        ("python", "build", "preprocessor", "host", "binary"), 1)]
    assert order == sorted(order)
    assert "trtllm_custom_all_reduce: hollow" in words
    assert "trtllm_allreduce_fusion: ok" in words
    assert "via trtllm_allreduce.cu -> trtllm_allreduce.cuh" in words
    assert text.splitlines()[-1] == (f"Next: sm-patch diff --arch sm_120a --root {MINI} "
                                     "flashinfer-sm120 --group trtllm-comm")


@pytest.mark.parametrize("topic", ["trtllm_comm", "lamport_style_one_shot_all_reduce_norm_kernel"])
def test_why_accepts_a_module_and_a_kernel(
    capsys: pytest.CaptureFixture[str], topic: str
) -> None:
    text = run(capsys, "why", f"flashinfer:{topic}", "--root", str(MINI), "--arch", "sm_120a")
    assert text.startswith("trtllm_comm in flashinfer-python 0.6.3+mini on sm_120a: closed")


def test_why_of_an_unknown_feature_names_known_ones(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["why", "flashinfer:nonsense", "--root", str(MINI), "--arch", "sm_120a"]) == 2
    assert "trtllm_comm" in capsys.readouterr().err


def test_a_slip_of_the_pen_does_not_read_as_an_all_clear(
    capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["why", "flashinfer:trtllm_com", "--root", str(MINI), "--arch", "5090"]) == 2
    error = capsys.readouterr().err
    assert "no module or public function 'trtllm_com'" in error
    assert "did you mean trtllm_comm" in error


@pytest.mark.parametrize(("option", "typed", "near"), [
    ("--module", "trtlm_com", "did you mean trtllm_comm"),
    ("--module", "nonsense", "flashinfer lists those with gates"),
    ("--unit", "flashinfer/data/csrc/nonsense.cu", "its path below site-packages"),
])
def test_a_mistyped_filter_is_no_clean_scan(
    capsys: pytest.CaptureFixture[str], option: str, typed: str, near: str
) -> None:
    arguments = ["scan", "flashinfer", "--root", str(MINI), "--arch", "sm_120a", option, typed]
    assert cli.main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert typed in err
    assert near in err


def test_a_package_is_missed_before_any_is_scanned(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["scan", "flashinfer", "vllm", "--root", str(MINI), "--arch", "sm_120a"]) == 2
    assert "target" not in capsys.readouterr().err, "said when a scan begins"


def test_a_baseline_that_is_no_scan(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text("[]")
    assert cli.main(["scan", "flashinfer", "--root", str(MINI), "--arch", "sm_120a",
                     "--baseline", str(tmp_path / "x.json")]) == 2
    assert "not the JSON of a scan" in capsys.readouterr().err


def test_a_guard_lists_the_guards_it_hides(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """The inner arm never comes to the target: it excludes nothing, the outer one does."""
    root = tmp_path / "site"
    shutil.copytree(MINI, root)
    header = root / "flashinfer/data/include/flashinfer/comm/trtllm_allreduce.cuh"
    guard = "#if (defined(__CUDA_ARCH__) && (__CUDA_ARCH__ >= 900) && (__CUDA_ARCH__ < 1200))\n"
    inner = "#if __CUDA_ARCH__ >= 1000\n"
    text = header.read_text()
    head, body = text.split(guard, 1)
    header.write_text(head + guard + inner + body.replace("#endif", "#endif\n#endif", 1))
    document = scan_json(capsys, root)
    line = head.count("\n") + 1
    outer = next(g for g in document["gates"] if line in g["lines"])
    hidden = [g for g in document["gates"] if g["id"] in outer["hides"]]
    assert [(g["line"], g["condition"]) for g in hidden] == [(line + 1, "__CUDA_ARCH__ >= 1000")]
    assert not hidden[0]["excludes_target"]
    assert "sm_120a" in hidden[0]["unreached"]


def test_metadata_without_its_files_is_an_error(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """A scan of nothing must not say that nothing is closed."""
    root = tmp_path / "site"
    shutil.copytree(MINI, root)
    shutil.rmtree(root / "flashinfer")
    assert cli.main(["scan", "flashinfer-python", "--root", str(root), "--arch", "sm_120a"]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert "none of its" in said.err
    assert "reinstall" in said.err


def test_a_missing_file_is_named(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    root = tmp_path / "site"
    shutil.copytree(MINI, root)
    (root / "flashinfer/jit/comm.py").unlink()
    assert cli.main(["scan", "flashinfer", "--root", str(root), "--arch", "sm_120a"]) == 0
    said = capsys.readouterr().err
    assert "1 of 21 installed files are missing, among them flashinfer/jit/comm.py" in said


def test_evidence_without_a_line_shows_none(capsys: pytest.CaptureFixture[str]) -> None:
    """``path:0`` is no place: an upstream reference has no line."""
    for more in ([], ["--all", "--expand"]):
        text = run(capsys, "scan", "flashinfer", "--root", str(MINI), "--arch", "sm_120a", *more)
        assert not re.search(r":0\b", text)
    assert "flashinfer-sm120.yaml upstream:" in text


def test_a_package_without_modules_is_counted_in_gates(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """The first line never says that nothing is closed while findings follow."""
    folder = tmp_path / "other"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    arguments = ["scan", "other", "--root", str(tmp_path), "--arch", "sm_120a"]
    assert run(capsys, *arguments).startswith(
        "nothing to patch on sm_120a: no gate excludes it\n")
    (folder / "k.cu").write_text(
        "__global__ void k(int* p) {\n#if __CUDA_ARCH__ >= 900 && __CUDA_ARCH__ < 1200\n"
        "  p[threadIdx.x] = 1;\n#endif\n}\n")
    (folder / "a.py").write_text("f(supported_major_versions=[9, 10])\n")
    assert run(capsys, *arguments).startswith(
        "gates that exclude sm_120a: 1 critical, 1 warning; no shipped group opens one\n")


def test_after_apply_the_patched_module_is_named_open(
        capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """The group that opens the module, and no other, is told by scan and why; until it is lost."""
    root = shutil.copytree(MINI, tmp_path / "root")
    where = ("--root", str(root), "--arch", "sm_120a")
    run(capsys, "apply", "flashinfer-sm120", *where)
    said = "trtllm_comm: open (flashinfer-sm120/trtllm-comm applied);"
    assert run(capsys, "scan", "flashinfer", *where).startswith(said)
    text = run(capsys, "scan", "flashinfer", *where, "--module", "trtllm_comm")
    assert text.startswith(f"{said} 0 modules closed on\nsm_120a")
    assert not re.search("dsv3-router|flashinfer-sm120/gdc", text)
    assert text.splitlines()[-1] == f"Next: sm-patch status --root {root}"
    text = run(capsys, "why", "flashinfer:trtllm_allreduce_fusion", *where)
    assert [line for line in text.splitlines() if "applied here" in line] == [
        "  applied here: flashinfer-sm120/trtllm-comm"]
    shutil.copytree(MINI, root, dirs_exist_ok=True)  # installed again: the gate is shut
    assert run(capsys, "scan", "flashinfer", *where).startswith("2 modules closed on sm_120a")
