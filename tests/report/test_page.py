"""A long scan is a page: what leads somewhere in full, the rest counted, and nothing lost."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from patcher.gates import Cause, Gate, Layer, Severity
from patcher.report.counted import LONG
from patcher.report.text_scan import Style, render_text
from patcher.scan.model import ConfigurationRow, Report
from tests.report import made

MANY = 10 * LONG


def python(path: str, line: int, **more: object) -> Gate:
    return made.gate(path, line, "major == 10", layer=Layer.PYTHON, rule="PY-IF",
                     cause=Cause.UNKNOWN, severity=Severity.WARNING, **more)


def shared(path: str, line: int, **more: object) -> Gate:
    return made.gate(path, line, f"__CUDA_ARCH__ == {line}", cause=Cause.UNKNOWN,
                     severity=Severity.WARNING, modules=("a", "b"), **more)


def large() -> Report:
    """Many checks in Python, many guards in shared code of 7 counts each, many closed modules."""
    checks = [python(f"p/area{n % 20}/f{n}.py", n + 1) for n in range(MANY)]
    guards = [shared(f"p/csrc{n % 20}/g{n}.cuh", n + 1, lines=tuple(range(n + 1, n + 8)))
              for n in range(MANY)]
    lists = [python("p/jit.py", n + 1, modules=(f"gemm{n}_sm90",)) for n in range(MANY)]
    lists = [replace(gate, rule="PY-MAJORS") for gate in lists]
    modules = [replace(made.module(f"gemm{n}_sm90", [gate]), closed=True)
               for n, gate in enumerate(lists)]
    return replace(made.report([*checks, *guards, *lists], modules),
                   warnings=tuple(f"cannot read file {n}" for n in range(MANY)))


def part(text: str, heading: str) -> str:
    """The lines below a heading, as one line of words."""
    return " ".join(text.split(heading, 1)[1].split("\n\n", 1)[0].split())


def test_a_long_report_fits_a_page_of_80_lines() -> None:
    assert len(render_text(large()).splitlines()) <= 80


def test_every_gate_and_module_is_in_one_of_the_counts() -> None:
    text = render_text(large())
    for heading, total in (("Checks in Python outside the build of a module", MANY),
                           ("none is known to use", 7 * MANY)):
        body = part(text, heading)
        assert sum(map(int, re.findall(r": (\d+) in \d+ files?", body))) == total
        assert sum(map(int, re.findall(r"in (\d+) files?", body))) == MANY
    closed = part(text, "Closed, and no shipped group opens them")
    assert re.findall(r"(\d+) cause (\w+):", closed) == [(str(MANY), "unknown")]
    (more,) = re.findall(r"and (\d+) more", closed)
    assert len(re.findall(r"gemm\d+_sm90", closed)) + int(more) == MANY
    assert text.count("\nwarning: ") + int(
        re.findall(r"and (\d+) more warnings", text)[0]) == MANY


@pytest.mark.parametrize("style", [Style(all=True), Style(expand=True)])
def test_what_was_counted_is_shown_on_request(style: Style) -> None:
    report = large()
    text = render_text(report, style)
    assert all(gate.location.path in text for gate in report.gates)
    assert all(warning in text for warning in report.warnings)


def test_what_can_be_opened_or_is_critical_is_never_counted() -> None:
    report = large()
    open_check = python("p/area1/openable.py", 7, opened_by="set/group")
    open_guard = shared("p/csrc1/openable.cuh", 8, opened_by="set/other")
    grave = replace(shared("p/csrc1/grave.cuh", 9), severity=Severity.CRITICAL)
    text = render_text(replace(report, gates=(*report.gates, open_check, open_guard, grave)))
    assert "p/area1/openable.py: 7; opened by set/group" in text
    assert "p/csrc1/openable.cuh:8" in text
    assert "opened by set/other" in text
    assert "p/csrc1/grave.cuh:9" in text


def test_a_closed_module_beside_one_for_the_target_is_told_apart() -> None:
    report = large()
    rows = tuple(ConfigurationRow(f"c{name}", "u.cu", name, (), guessed=False)
                 for name in ("gemm3_sm120", "gemm4_120a", "gemm5_sm121", "gemm6"))
    closed = part(render_text(replace(report, configurations=rows)),
                  "Closed, and no shipped group opens them")
    # the target is sm_120a: 121 is another device, and gemm6 names none
    assert "2 beside one for 120: gemm3_sm90, gemm4_sm90 " in closed
    assert f"{MANY - 2} cause unknown" in closed


def test_a_short_report_is_shown_in_full() -> None:
    gates = [python(f"p/f{n}.py", n + 1) for n in range(LONG)]
    text = render_text(made.report(gates, []))
    assert all(f"{gate.location.path}: {gate.location.line}" in text for gate in gates)
    assert "--expand" not in text
