"""A prebuilt module wins over patched source until it is set aside, as jit-cache wheels did."""

from __future__ import annotations

from pathlib import Path

import pytest

from patcher.arch import target
from patcher.caches.actions import Action, Touched
from patcher.caches.aot import AotModule, AotPolicy, aot_actions, moves, shadowing
from patcher.changes import Move, invert
from tests.caches.test_fatbin import compile_to, gencode

pytestmark = pytest.mark.nvcc
TOUCHED = {"paths": frozenset({"flashinfer/jit/comm.py"}), "modules": frozenset({"trtllm_comm"})}


@pytest.fixture
def site(tmp_path: Path, nvcc: Path) -> Path:
    """site-packages with an AOT module for sm_90a, and one that is not a library at all."""
    folder = tmp_path / "site-packages" / "flashinfer" / "data" / "aot"
    (folder / "trtllm_comm").mkdir(parents=True)
    built = compile_to(nvcc, tmp_path / "k.so", *gencode("sm_90a"))
    built.rename(folder / "trtllm_comm" / "trtllm_comm.so")
    (folder / "junk").mkdir()
    (folder / "junk" / "junk.so").write_bytes(b"not a library")
    (folder / "empty").mkdir()
    return tmp_path / "site-packages"


def aot(site: Path) -> Path:
    return site / "flashinfer" / "data" / "aot"


def touched(site: Path, **changes: frozenset[str]) -> Touched:
    return Touched("flashinfer-python", "0.6.3", str(site), **{**TOUCHED, **changes})


def test_modules_are_found_by_name_and_by_pattern(site: Path) -> None:
    assert [m.name for m in shadowing([aot(site)], ["trtllm_comm", "empty", "no"])] == [
        "trtllm_comm"]
    assert [m.name for m in shadowing([aot(site)], ["*"])] == ["junk", "trtllm_comm"]


def test_coverage_comes_from_the_code(site: Path) -> None:
    (module,) = shadowing([aot(site)], ["trtllm_comm"])
    assert module.archs == "sm_90a"
    assert module.covers(target("sm_90a"))
    assert not module.covers(target("sm_120a"))
    (junk,) = shadowing([aot(site)], ["junk"])
    assert (junk.archs, junk.covers(target("sm_120a"))) == ("unreadable", False)


def test_a_library_without_gpu_code_runs_anywhere() -> None:
    assert AotModule("host", Path("host.so"), frozenset()).covers(target("sm_120a"))


def test_aside_is_a_move_that_apply_makes_and_revert_undoes(site: Path) -> None:
    (action,) = aot_actions(touched(site), [aot(site)], AotPolicy.ASIDE)
    assert action.action is Action.ASIDE
    assert not action.writes, "only apply writes into a package"
    (move,) = moves([action])
    path = "flashinfer/data/aot/trtllm_comm"
    assert move == Move(path, f"{path}.sm-patch-aside")
    (site / move.path).rename(site / move.new_path)
    assert not list(shadowing([aot(site)], ["trtllm_comm"]))
    back = invert(move)
    assert isinstance(back, Move)
    (site / back.path).rename(site / back.new_path)
    assert [m.name for m in shadowing([aot(site)], ["trtllm_comm"])] == ["trtllm_comm"]


@pytest.mark.parametrize(("policy", "action", "words"), [
    (AotPolicy.KEEP, Action.KEEP, "no effect"), (None, Action.ADVISE, "--aot aside")])
def test_otherwise_it_says_which_file_wins(site: Path, policy: AotPolicy | None, action: Action,
                                           words: str) -> None:
    (found,) = aot_actions(touched(site), [aot(site)], policy)
    assert (found.action, found.path) == (action, str(aot(site) / "trtllm_comm/trtllm_comm.so"))
    assert words in found.reason
    assert "sm_90a" in found.reason


def test_a_header_edit_shadows_the_modules_that_compile_it(site: Path) -> None:
    about = touched(site, modules=frozenset(), compiled=frozenset({"trtllm_comm"}))
    assert len(aot_actions(about, [aot(site)], AotPolicy.ASIDE)) == 1


def test_outside_of_the_root_nothing_is_moved(site: Path, tmp_path: Path) -> None:
    outside = tmp_path / "elsewhere"
    aot(site).rename(outside)
    (found,) = aot_actions(touched(site), [outside], AotPolicy.ASIDE)
    assert found.action is Action.ADVISE
    aot(site).symlink_to(outside)
    (linked,) = aot_actions(touched(site), [aot(site)], AotPolicy.ASIDE)
    assert linked.action is Action.ADVISE, "a link out of the root is not followed for writing"
