"""Caches without recorded dependencies: what the atlas names goes, and nothing beside it."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import pytest

from patcher.caches.actions import Action, CacheAction, Touched
from patcher.caches.execute import check_writable, execute
from patcher.caches.invalidate import Subject, plan, reconcile
from patcher.caches.locks import ModuleLocks
from patcher.caches.paths import expand, remove, size_of
from patcher.caches.stamp import NAME, PackageState, read_stamps
from patcher.errors import InputError, Refused, UnsafePath

HEADER = "flashinfer/data/include/flashinfer/a.cuh"


def make(root: Path, *names: str) -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("{}")


def subject(name: str, version: str, path: str, digest: str = "d") -> Subject:
    return Subject(PackageState(name, version, digest, {path: "h"}),
                   lambda paths: Touched(name, version, "/site", paths))


def dropped(home: Path, actions: Iterable[CacheAction]) -> set[str]:
    return {str(Path(a.path).relative_to(home)) for a in actions if a.writes}


def test_only_this_version_of_tactics_and_only_receipts_go(tmp_path: Path) -> None:
    make(tmp_path, ".cache/sglang/flashinfer/autotune/0.7.4/sm120/00ff/rank_0.json",
         ".cache/sglang/flashinfer/autotune/0.6.3/sm120/00ff/rank_0.json",
         ".cache/flashinfer/0.7.4/120f/alphamoe_nvrtc_cubins/x.json",
         ".cache/flashinfer/0.7.4/120f/alphamoe_nvrtc_cubins/x.cubin",
         ".cache/flashinfer/cubins/y.cubin", ".triton/cache/k/a.json")
    about = subject("flashinfer-python", "0.7.4", HEADER)
    found = plan(about, frozenset({HEADER}), {"HOME": str(tmp_path)})
    assert dropped(tmp_path, found) == {
        ".cache/sglang/flashinfer/autotune/0.7.4/sm120/00ff/rank_0.json",
        ".cache/flashinfer/0.7.4/120f/alphamoe_nvrtc_cubins/x.json"}
    with ModuleLocks(1) as locks:
        execute(found, locks)
    assert (tmp_path / ".cache/flashinfer/0.7.4/120f/alphamoe_nvrtc_cubins/x.cubin").exists()
    assert not plan(about, frozenset({HEADER}), {"HOME": str(tmp_path)})


def test_a_graph_from_before_a_gate_edit_goes(tmp_path: Path) -> None:
    make(tmp_path, "torch_compile_cache/abc/rank_0_0/graph.py")
    gate = "vllm/platforms/cuda.py"
    found = plan(subject("vllm", "0.18.0", gate), frozenset({gate}),
                 {"VLLM_CACHE_ROOT": str(tmp_path)})
    assert dropped(tmp_path, found) == {"torch_compile_cache/abc"}
    kernel = "vllm/csrc/a.cu"
    assert not plan(subject("vllm", "0.18.0", kernel), frozenset({kernel}),
                    {"VLLM_CACHE_ROOT": str(tmp_path)})


def test_what_cannot_be_dropped_narrowly_is_advised(tmp_path: Path) -> None:
    make(tmp_path, "kernel.nbi")
    helper = "numba/helper.py"
    (advice,) = plan(subject("numba", "0.68", helper), frozenset({helper}),
                     {"NUMBA_CACHE_DIR": str(tmp_path)})
    assert (advice.action, advice.path) == (Action.ADVISE, str(tmp_path))
    assert "nbi" in advice.reason


def test_the_note_of_one_package_leaves_that_of_another(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path)}
    for version in ("0.6.3", "0.7.4"):
        with ModuleLocks(1) as locks:
            reconcile(subject("flashinfer-python", version, HEADER, version), frozenset(), environ,
                      locks)
    noted = read_stamps(tmp_path / ".cache/flashinfer")
    assert {key: stamp.digest for key, stamp in noted.items()} == {
        "flashinfer-python 0.6.3": "0.6.3", "flashinfer-python 0.7.4": "0.7.4"}


@pytest.mark.parametrize("text", ["", "[]", '{"version": 2}', '{"version": 1, "packages": 3}',
                                  '{"version": 1, "packages": {"a": {}}}', "\0"])
def test_a_damaged_note_counts_as_none(tmp_path: Path, text: str) -> None:
    (tmp_path / NAME).write_text(text)
    assert read_stamps(tmp_path) == {}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_what_root_makes_belongs_to_the_owner_of_the_cache(tmp_path: Path) -> None:
    """Else the server's own user could neither lock its modules nor replace the note."""
    os.chown(tmp_path, 65534, 65534)
    lock = tmp_path / ".cache/flashinfer/0.6.3/120a/cached_ops/tmp/x.lock"
    with ModuleLocks(1) as locks:
        locks.take([CacheAction("c", str(tmp_path / "x"), Action.DELETE, "", str(tmp_path),
                                str(lock))])
        reconcile(subject("flashinfer-python", "0.6.3", HEADER), frozenset(),
                  {"HOME": str(tmp_path)}, locks)
    made = [*(tmp_path / ".cache").rglob("*"), tmp_path / ".cache"]
    assert lock in made
    assert tmp_path / ".cache/flashinfer" / NAME in made
    assert {path.stat().st_uid for path in made} == {65534}


def test_a_cache_that_cannot_be_cleaned_is_refused_before(tmp_path: Path,
                                                          monkeypatch: pytest.MonkeyPatch) -> None:
    make(tmp_path, "ops/x.o")
    action = CacheAction("c", str(tmp_path / "ops/x.o"), Action.DELETE, "", str(tmp_path))
    check_writable([action])
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # root may write everywhere
    with pytest.raises(Refused, match="could not be deleted"):
        check_writable([action])


def test_removal_stays_below_its_root(tmp_path: Path) -> None:
    make(tmp_path, "cache/a/x", "outside/y")
    root = tmp_path / "cache"
    for path in (tmp_path / "outside/y", root / "../outside/y", root):
        with pytest.raises(UnsafePath):
            remove(root, path)
    (root / "link").symlink_to(tmp_path / "outside")
    with pytest.raises(UnsafePath):
        remove(root, root / "link/y")
    (root / "a/inner").symlink_to(tmp_path / "outside")
    assert remove(root, root / "a"), "a link within goes, not what it leads to"
    assert remove(root, root / "link")
    assert (tmp_path / "outside/y").exists()
    assert not remove(root, root / "a")


def test_globs_end_at_links(tmp_path: Path) -> None:
    make(tmp_path, "v1/ops/m/x")
    (tmp_path / "v2").symlink_to(tmp_path / "v1")
    assert [(str(f.path.relative_to(tmp_path)), f.link) for f in expand(tmp_path, "*/ops/*")] == [
        ("v1/ops/m", False), ("v2", True)]
    assert size_of(tmp_path) == (2, 1)


def test_an_action_survives_the_journal() -> None:
    action = CacheAction("c", "/p", Action.REMOVE, "why", "/", "/l")
    assert CacheAction.from_record(action.record()) == action
    assert set(action.public()) == {"cache", "path", "action", "reason"}
    with pytest.raises(InputError):
        CacheAction.from_record({**action.record(), "action": "explode"})
