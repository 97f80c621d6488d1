"""``sm-patch draft``: only what software alone closes, and never by halves."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from patcher.arch import target
from patcher.cli import main
from patcher.draft import capabilities, draft, family
from patcher.gates import Cause, Evidence, Gate, Layer, Location, Severity, Worlds
from patcher.package import find_environment, find_package
from patcher.patchset.load import parse_patchset
from patcher.report.draft import to_yaml
from patcher.scan.model import Report, ToolchainRow
from tests.plan.site import GUARD, Site

PYTHON = Gate(Layer.PYTHON, "PY-MAJORS", Location("mini/jit.py", 2, 2),
              "supported_major_versions=[9, 10]", Worlds(), excludes_target=True,
              cause=Cause.SOFTWARE, severity=Severity.WARNING, within="gen", modules=("mini",),
              evidence=(Evidence("mini/jit.py", 1, "upstream: mini#1"),))
ARM = Gate(Layer.PREPROCESSOR, "arm", Location("mini/kernel.cuh", 2, 4), GUARD[4:].strip(),
           Worlds(), excludes_target=True, cause=Cause.SOFTWARE, severity=Severity.CRITICAL,
           modules=("mini",), lines=(2,))


def proposed(site: Site, *gates: Gate) -> Any:
    report = Report((), (target("sm_120a"),), (), (), ToolchainRow("13.0", None, True), gates, ())
    package = find_package("mini", find_environment(None, str(site.root)))
    return draft(report, package), package


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site.make(tmp_path / "site")


def test_a_module_of_software_gates_becomes_a_group_that_loads_and_applies(site: Site) -> None:
    made, package = proposed(site, PYTHON, ARM)
    text = to_yaml(made, package, "mini-draft")
    assert "# mini/jit.py:1: upstream: mini#1" in text
    patchset = parse_patchset(text.encode(), "mini-draft")
    assert [group.id for group in patchset.groups] == ["mini"]
    assert made.left == ()
    path = site.root.parent / "mini-draft.yaml"
    path.write_text(text)
    assert site.run("apply", str(path), "--group", "mini") == 0
    assert "[9, 10, 12]" in site.read("mini/jit.py")
    assert "< 1200" not in site.read("mini/kernel.cuh")


@pytest.mark.parametrize("cause", [Cause.HARDWARE, Cause.INTENDED, Cause.BINARY, Cause.UNKNOWN])
@pytest.mark.parametrize("which", ["python", "arm"])
def test_one_gate_for_another_reason_keeps_the_whole_module_out(
    site: Site, cause: Cause, which: str
) -> None:
    gates = {"python": PYTHON, "arm": ARM}
    gates[which] = replace(gates[which], cause=cause, evidence=())
    made, package = proposed(site, *gates.values())
    assert made.groups == ()
    assert to_yaml(made, package, "x") == ""
    assert {item.gate.layer for item in made.left} == {Layer.PYTHON, Layer.PREPROCESSOR}
    assert all(cause.value in item.why for item in made.left)


def test_a_guard_that_shares_its_condition_with_others_is_not_widened_with_them(
    site: Site
) -> None:
    site.write("mini/kernel.cuh", f"{site.read('mini/kernel.cuh')}{GUARD}  other();\n#endif\n")
    made, _ = proposed(site, PYTHON, ARM)
    assert made.groups == ()
    (guard,) = (item for item in made.left if item.gate is ARM)
    assert guard.why.startswith("1 other guards of mini/kernel.cuh have the same condition")
    (other,) = (item for item in made.left if item.gate is PYTHON)
    assert other.why == "another gate of its module cannot be opened"


def test_host_checks_are_left_to_people(site: Site) -> None:
    host = replace(ARM, layer=Layer.HOST, rule="check", condition="major == 10")
    made, _ = proposed(site, host)
    assert made.groups == ()
    assert made.left[0].why == "no operation opens this host gate: by hand"


def test_the_family_of_a_target_is_opened_together() -> None:
    assert [str(c) for c in capabilities(family([target("sm_121a")]))] == ["12.0", "12.1"]


def test_same_text_opposite_advice(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    """vLLM's FlashMLA list is hardware; nothing in Python says so, and nothing is proposed."""
    site.write("mini/mla.py", "def is_supported(capability):\n"
                              "    return capability.major in [9, 10]\n")
    assert site.run("draft", "mini", "--format", "json") == 0
    found = json.loads(capsys.readouterr().out)
    assert "mini/mla.py" not in found["patchset"]
    (left,) = (item for item in found["left"] if item["path"] == "mini/mla.py")
    assert left["why"].startswith("unknown: ")


@pytest.mark.wheels
@pytest.mark.slow
def test_flashinfer_all_reduce_is_found_again(
    unpacked: Callable[[str, str], Path], copy_of: Callable[..., Path], tmp_path: Path,
    capsys: pytest.CaptureFixture[str]
) -> None:
    """The gates of the module that upstream opened (PR 3903), and neither the multi-node module
    nor the mixed one, whose exclusion is meant or unexplained."""
    root = str(unpacked("flashinfer-python", "0.6.3"))
    out = tmp_path / "draft.yaml"
    arguments = ["draft", "flashinfer", "--root", root, "--arch", "sm_120a", "--module",
                 "trtllm_comm", "--module", "trtllm_mnnvl_comm"]
    assert main([*arguments, "-o", str(out)]) == 0
    err = capsys.readouterr().err
    assert "1 group proposed" in err
    assert "shipped already: flashinfer-sm120/trtllm-comm" in err
    (group,) = parse_patchset(out.read_bytes(), "draft").groups
    assert group.id == "trtllm-comm"
    site = copy_of("flashinfer-python", "0.6.3")
    assert main(["apply", str(out), "--group", "trtllm-comm", "--root", str(site), "--arch",
                 "sm_120a"]) == 0
    header = site / "flashinfer/data/include/flashinfer/comm/trtllm_allreduce.cuh"
    assert "< 1200" not in header.read_text()
    comm = (site / "flashinfer/jit/comm.py").read_text()
    assert "supported_major_versions=[9, 10, 12]" in comm
    before = (Path(root) / "flashinfer/jit/comm.py").read_text()
    changed = set(comm.splitlines()) ^ set(before.splitlines())
    assert len(changed) == 2, "one line, and not that of the multi-node module"
