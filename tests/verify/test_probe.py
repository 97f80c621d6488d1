"""The instruction table against the real assembler, and the renderer against itself."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from patcher.arch import target
from patcher.errors import ToolFailed
from patcher.instructions import Verdict, verdict
from patcher.probe import Assembler, compare, find_assembler, measure, probes

pytestmark = pytest.mark.nvcc


@pytest.fixture(scope="module")
def assembler(toolkit: Path) -> Assembler:
    return find_assembler(toolkit / "bin" / "ptxas")


@pytest.mark.slow
def test_the_shipped_table_is_what_this_ptxas_says(assembler: Assembler) -> None:
    measured = measure(assembler, assembler.targets, 2)
    assert compare(measured, assembler.release) == []
    assert all(len(row) == len(probes()) for row in measured.values())


def test_every_row_of_the_table_has_a_probe() -> None:
    rows = json.loads(Path("patcher/data/instructions.json").read_text("utf-8"))["features"]
    assert {row["name"] for row in rows} == set(probes())


def test_a_wrong_table_is_noticed(
    assembler: Assembler, monkeypatch: pytest.MonkeyPatch
) -> None:
    # wgmma exists on sm_90a alone (PTX ISA); a table that grants it to sm_120a must differ
    monkeypatch.setattr(
        "patcher.instructions.verdict",
        lambda feature, goal, release=None: Verdict.ACCEPTED
        if feature == "wgmma.fence" else verdict(feature, goal, release),
    )
    measured = measure(assembler, [target("sm_120a")], 1)
    (found,) = compare(measured, assembler.release)
    assert (found.feature, found.target, found.measured) == ("wgmma.fence", "sm_120a", False)
    assert "not supported on .target 'sm_120a'" in found.message


def test_batches_say_the_same_as_single_runs(assembler: Assembler, tmp_path: Path) -> None:
    # sm_90: rejects much, so that many probes are taken out of the batch
    row = measure(assembler, [target("sm_90")], 1)["sm_90"]
    from patcher.probe import _render

    some = list(probes())[::25]
    for name in some:
        accepted = False
        for probe in probes()[name]:
            source = tmp_path / "one.ptx"
            source.write_text("\n".join(_render(assembler.isa, target("sm_90"), [probe])[0]) + "\n")
            run = subprocess.run([assembler.path, "-arch=sm_90", source, "-o", tmp_path / "o"],
                                 capture_output=True, check=False)
            accepted |= run.returncode == 0
        assert accepted == (not row[name]), name


@pytest.mark.parametrize("path", ["/nonexistent/ptxas", "/bin/true"])
def test_what_is_no_assembler_is_refused(path: str) -> None:
    with pytest.raises(ToolFailed, match=r"ptxas|cannot run"):
        find_assembler(Path(path))


def test_an_assembler_may_be_named_from_here(
    assembler: Assembler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(assembler.path.parent)
    assert find_assembler(Path("ptxas")).release == assembler.release


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_leaves_nothing_behind(
    number: signal.Signals, assembler: Assembler, tmp_path: Path
) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "patcher", "probe", "--ptxas", assembler.path],
        env={**os.environ, "TMPDIR": str(tmp_path)}, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    deadline = time.monotonic() + 60
    while not os.listdir(tmp_path):
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(number)
    process.communicate(timeout=30)
    assert process.returncode == 130
    assert os.listdir(tmp_path) == []


def test_the_verb_prints_and_exits(assembler: Assembler) -> None:
    run = subprocess.run(
        [sys.executable, "-m", "patcher", "probe", "--ptxas", assembler.path, "--arch", "sm_121a",
         "--format", "json"], capture_output=True, text=True, check=True)
    document = json.loads(run.stdout)
    assert document["differences"] == []
    assert "tcgen05.alloc.cta_group1" not in document["accepted"]["sm_121a"]
    assert "griddepcontrol.wait" in document["accepted"]["sm_121a"]
