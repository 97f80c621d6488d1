"""A SIGKILL at any call that changes a disk: after recovery all is old, or all is new."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

CRASH = Path(__file__).with_name("crash.py")


def points(folder: Path, scenario: str, every: int = 0) -> list[dict[str, Any]]:
    run = subprocess.run([sys.executable, CRASH, folder, scenario, str(every)],
                         capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    return [json.loads(line) for line in run.stdout.splitlines()]


def without_compiled(tree: dict[str, Any]) -> dict[str, Any]:
    return {path: what for path, what in tree.items() if not path.endswith(".pyc")}


def check(results: list[dict[str, Any]], old_states: dict[str, str]) -> int:
    """Every final tree is the old or the new one, and everything else agrees with it."""
    done = [r for r in results if r["at"] is None]
    new, new_states = done[0]["final"], done[0]["states"]
    killed = [r for r in results if r["at"] is not None]
    old = next(without_compiled(r["final"]) for r in killed if r["states"] == old_states)
    assert old != without_compiled(new)
    turned = False
    for point in killed:
        final = without_compiled(point["final"])
        is_new = final == without_compiled(new)
        assert is_new or final == old, point
        assert point["states"] == (new_states if is_new else old_states), point
        assert point["home"] in (["journal.json", "lock", "originals"],
                                 ["lock", "originals"]), point
        if is_new:  # the stale object and the stale .pyc are gone
            assert not point["object"], point
            assert point["final"] == new, point
        for path, (kind, _mode, data) in point["raw"].items():
            if kind == "file" and not path.endswith(".pyc") and ".smp-" not in path:
                # even before recovery nobody sees half a file
                assert data in {t[path][2] for t in (old, new) if path in t}, (point, path)
        if "second" not in point:
            assert is_new or not turned or point["at"] == 1, "rolled back after the commit"
            turned = is_new
    assert turned
    return len(killed)


@pytest.mark.parametrize(("scenario", "old_states"), [
    ("apply", {}),
    pytest.param("revert", {"p": "applied"}, marks=pytest.mark.slow),
    pytest.param("change", {"p": "applied", "q": "applied"}, marks=pytest.mark.slow),
])
def test_a_kill_anywhere_leaves_all_old_or_all_new(
        tmp_path: Path, scenario: str, old_states: dict[str, str]) -> None:
    if scenario == "change":
        # both are applied before and after: tell them apart by the files alone
        results = points(tmp_path / "x", scenario)
        final = {json.dumps(without_compiled(r["final"])) for r in results}
        assert len(final) == 2
        assert all(r["states"] == old_states for r in results)
        return
    assert check(points(tmp_path / "x", scenario), old_states) > 40


@pytest.mark.slow
def test_an_interrupt_leaves_nothing_to_recover_before_the_commit(tmp_path: Path) -> None:
    results = points(tmp_path / "x", "interrupt")
    trees = {json.dumps(without_compiled(r["raw"])) for r in results}
    assert len(trees) == 2  # before any recovery: all old, or all new
    assert {json.dumps(r["states"]) for r in results} == {"{}", '{"p": "applied"}'}


@pytest.mark.slow
def test_a_file_that_is_neither_old_nor_new_is_left_alone(tmp_path: Path) -> None:
    results = [r for r in points(tmp_path / "x", "foreign") if r["at"] is not None]
    seen = set()
    for point in results:
        assert point["final"]["demo/b.cuh"][2] == "theirs\n", point
        assert not [path for path in point["final"] if ".smp-" in path], point
        new = "demo/lib64" in point["final"]
        assert ("12]" in point["final"]["demo/a.py"][2]) is new, point  # the rest is whole
        state = point["states"].get("p")
        assert state in ({"drifted"} if new else {"drifted", None}), point
        seen.add((new, state))
    assert seen == {(False, None), (False, "drifted"), (True, "drifted")}


@pytest.mark.slow
@pytest.mark.parametrize(("scenario", "old_states"), [
    ("apply", {}), ("revert", {"p": "applied"})])
def test_a_kill_of_the_recovery_itself(tmp_path: Path, scenario: str,
                                       old_states: dict[str, str]) -> None:
    assert check(points(tmp_path / "x", scenario, every=9), old_states) > 200


@pytest.mark.slow
def test_kills_over_three_packages(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Before and after every call that changes the disk, and in the recovery of every sixth."""
    counts: dict[str, tuple[int, int]] = {}
    for scenario, old_states in (("three", {}), ("three-revert", {"p": "applied"})):
        results = points(tmp_path / "x", scenario, every=6)
        total = check(results, old_states)
        again = sum("second" in point for point in results)
        counts[scenario] = total - again, again
    with capsys.disabled():
        for scenario, (first, again) in counts.items():
            print(f"\n{scenario}: killed at {first} points, and at {again} of recoveries", end="")
    assert sum(first + again for first, again in counts.values()) >= 500
