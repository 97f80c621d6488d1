"""After a change ninja rebuilds what it must, and only that: with the real ninja, nvcc and g++.

What must be rebuilt follows from the sources in workspace.py: uses_deep.cu includes
deep.cuh over mid.cuh, binding.cpp includes host.h, nothing else includes either.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from patcher.caches.actions import Action, CacheAction, Touched
from patcher.caches.handler import CacheHandler
from patcher.caches.invalidate import Subject, plan, reconcile
from patcher.caches.locks import ModuleLocks
from patcher.caches.stamp import PackageState, read_stamps
from patcher.errors import LockHeld, UnsafePath
from tests.caches.workspace import CSRC, FILES, INCLUDE, Workspace, times

DEEP = f"{INCLUDE}/deep.cuh"
HOST = f"{INCLUDE}/host.h"
PATCHED = "inline __device__ float deep(float x) { return x * 3.f; }\n"
PAST = (1_600_000_000, 1_600_000_000)
pytestmark = pytest.mark.nvcc


def subject(workspace: Workspace, digest: str, files: dict[str, str],
            modules: Iterable[str] = ()) -> Subject:
    state = PackageState("flashinfer-python", workspace.version, digest, files)
    names = frozenset(modules)
    return Subject(state, lambda paths: Touched("flashinfer-python", workspace.version,
                                                str(workspace.site), paths, names))


def invalidate(workspace: Workspace, paths: set[str], digest: str = "d1",
               modules: Iterable[str] = ()) -> tuple[CacheAction, ...]:
    about = subject(workspace, digest, dict.fromkeys(paths, digest), modules)
    with ModuleLocks(1) as locks:
        return reconcile(about, frozenset(paths), workspace.environ, locks)


def names(actions: Iterable[CacheAction]) -> set[str]:
    return {Path(action.path).name for action in actions}


def test_a_header_edit_rebuilds_its_users_only(workspace: Workspace) -> None:
    workspace.write(DEEP, PATCHED)
    done = invalidate(workspace, {DEEP})
    assert names(done) == {"uses_deep.cuda.o", "toy.so"}
    assert workspace.build("toy") == {"uses_deep.cuda.o", "toy.so"}
    assert workspace.build("toy") == set()


def test_an_object_newer_than_the_source_is_rebuilt_when_the_content_differs(
        workspace: Workspace) -> None:
    """flashinfer issue 4489: an older mtime on new content, and ninja says "no work to do"."""
    os.utime(workspace.write(DEEP, PATCHED), PAST)
    assert workspace.build("toy") == set(), "ninja alone must miss it, or this proves nothing"
    invalidate(workspace, {DEEP})
    assert workspace.build("toy") == {"uses_deep.cuda.o", "toy.so"}


def test_a_revert_rebuilds_as_well(workspace: Workspace) -> None:
    original = FILES[DEEP]
    library = workspace.ops / "toy" / "toy.so"
    before = _code(library)
    workspace.write(DEEP, PATCHED)
    invalidate(workspace, {DEEP}, "d1")
    workspace.build("toy")
    assert _code(library) != before
    os.utime(workspace.write(DEEP, original), PAST)  # the worst case: the time goes back too
    invalidate(workspace, {DEEP}, "d0")
    assert workspace.build("toy") == {"uses_deep.cuda.o", "toy.so"}
    assert _code(library) == before


def _code(library: Path) -> bytes:
    """The GPU code as it stands in the library."""
    return subprocess.run(["objcopy", "-O", "binary", "--only-section=.nv_fatbin", library,
                           "/dev/stdout"], check=True, capture_output=True).stdout


def test_a_host_header_rebuilds_the_host_object_that_ninja_knows_nothing_of(
        workspace: Workspace) -> None:
    workspace.write(HOST, "#pragma once\ninline int host_value() { return 2; }\n")
    assert workspace.build("toy") == set(), "g++ -MMD leaves -isystem headers out"
    invalidate(workspace, {HOST})
    assert workspace.build("toy") == {"binding.o", "toy.so"}


def test_one_ninja_folder_for_all_modules(workspace: Workspace) -> None:
    """0.5.3 runs ninja in cached_ops: one log for all modules, outputs relative to it."""
    older = replace(workspace, version="0.5.3", shared=True)
    for name in ("first", "second"):
        older.module(name, [f"{CSRC}/uses_deep.cu", f"{CSRC}/binding.cpp"])
        older.build(name)
    assert not (older.ops / "first" / ".ninja_deps").exists()
    older.write(DEEP, PATCHED)
    done = [Path(a.path) for a in invalidate(older, {DEEP}) if "/0.5.3/" in a.path]
    assert {(path.parent.name, path.name) for path in done} == {
        (module, name) for module in ("first", "second") for name in (
            "uses_deep.cuda.o", f"{module}.so")}
    assert older.build("first") == {"uses_deep.cuda.o", "first.so"}
    older.write(HOST, "#pragma once\ninline int host_value() { return 2; }\n")
    with ModuleLocks(1) as locks:
        both = subject(older, "d2", {DEEP: "d1", HOST: "d2"})
        reconcile(both, frozenset({HOST}), older.environ, locks)
    assert older.build("first") == {"binding.o", "first.so"}


def test_deleting_the_library_alone_would_relink_the_stale_objects(workspace: Workspace) -> None:
    """Why objects go: the measured trap that an invalidation must not fall into."""
    os.utime(workspace.write(DEEP, PATCHED), PAST)
    (workspace.ops / "toy" / "toy.so").unlink()
    assert workspace.build("toy") == {"toy.so"}


def test_an_unrelated_file_touches_nothing(workspace: Workspace) -> None:
    path = f"{INCLUDE}/unused.cuh"
    workspace.write(path, "\n")
    assert invalidate(workspace, {path}) == ()
    assert workspace.build("toy") == set()


def test_a_flag_edit_reaches_the_module_through_a_new_build_file(workspace: Workspace) -> None:
    """Up to 0.6.10.post1 an existing build.ninja is never rewritten (jit/core.py, build)."""
    sources: list[str | Path] = [f"{CSRC}/{n}" for n in
                                 ("uses_deep.cu", "uses_other.cu", "binding.cpp", "plain.cpp")]
    workspace.module("toy", sources, "-DCUTLASS_ENABLE_GDC_FOR_SM100=1")
    assert workspace.build("toy") == set(), "the old build file stays in use"
    done = invalidate(workspace, {"flashinfer/jit/comm.py"}, modules={"toy"})
    assert names(done) == {"build.ninja"}
    workspace.module("toy", sources, "-DCUTLASS_ENABLE_GDC_FOR_SM100=1")
    assert workspace.build("toy") == {"uses_deep.cuda.o", "uses_other.cuda.o", "toy.so"}


@pytest.mark.parametrize("pattern", ["other", "to", "t"])
def test_a_gate_of_another_module_leaves_it_alone(workspace: Workspace, pattern: str) -> None:
    assert invalidate(workspace, {"flashinfer/jit/comm.py"}, modules={pattern}) == ()


def test_versions_that_rewrite_their_build_files_keep_them(workspace: Workspace) -> None:
    newer = workspace.cache / "0.7.4"
    (workspace.cache / "0.6.3").rename(newer)
    about = Touched("flashinfer-python", "0.7.4", str(workspace.site),
                    frozenset({"flashinfer/jit/comm.py"}), frozenset({"toy"}))
    state = PackageState("flashinfer-python", "0.7.4", "d", {})
    found = plan(Subject(state, lambda _: about), about.paths, workspace.environ)
    assert found == ()


def test_a_verbatim_copy_among_the_generated_sources_counts(workspace: Workspace) -> None:
    source = f"{CSRC}/copied.cu"
    text = "__global__ void copied(float* p) { *p = 4.f; }\n"
    workspace.write(source, text)
    copy = workspace.generated / "copies" / "copied.cu"
    copy.parent.mkdir(parents=True)
    copy.write_text(text)
    workspace.module("copies", [copy])
    workspace.build("copies")
    done = invalidate(workspace, {source})
    assert names(done) == {"copied.cuda.o", "copies.so"}


def test_another_root_with_the_same_version_counts(workspace: Workspace) -> None:
    """The environment was built elsewhere (an image) and stands at another path now."""
    about = Touched("flashinfer-python", "0.6.3", "/opt/elsewhere/site-packages",
                    frozenset({DEEP}))
    state = PackageState("flashinfer-python", "0.6.3", "d", {})
    found = plan(Subject(state, lambda _: about), about.paths, workspace.environ)
    assert names(found) == {"uses_deep.cuda.o", "toy.so"}


def test_another_version_is_left_alone(workspace: Workspace) -> None:
    about = Touched("flashinfer-python", "0.6.6", "/opt/elsewhere/site-packages",
                    frozenset({DEEP}))
    state = PackageState("flashinfer-python", "0.6.6", "d", {})
    assert plan(Subject(state, lambda _: about), about.paths, workspace.environ) == ()


def test_if_changed_does_nothing_twice_and_notices_an_older_volume(workspace: Workspace) -> None:
    """An image rebuilt on one day over a cache volume of a later one, and every start after it."""
    patched = subject(workspace, "patched", {DEEP: "b"})
    with ModuleLocks(1) as locks:
        assert names(reconcile(patched, frozenset(), workspace.environ, locks)) == {
            "uses_deep.cuda.o", "toy.so"}  # never noted: what it was built from is unknown
        workspace.build("toy")
        assert reconcile(patched, frozenset(), workspace.environ, locks) == ()
        assert workspace.build("toy") == set()
        reverted = subject(workspace, "plain", {})
        assert names(reconcile(reverted, frozenset(), workspace.environ, locks)) == {
            "uses_deep.cuda.o", "toy.so"}
        assert reconcile(reverted, frozenset(), workspace.environ, locks) == ()


def test_a_cache_that_does_not_exist_yet_is_known_as_new(workspace: Workspace,
                                                         tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path)}
    about = subject(workspace, "d", {DEEP: "a"})
    with ModuleLocks(1) as locks:
        reconcile(about, frozenset(), environ, locks)
    assert read_stamps(tmp_path / ".cache/flashinfer")["flashinfer-python 0.6.3"].digest == "d"


def test_a_running_build_refuses_before_anything_is_written(workspace: Workspace) -> None:
    lock = workspace.ops / "tmp" / "toy.lock"
    about = subject(workspace, "d", {DEEP: "a"})
    handler = CacheHandler(lambda _: about, [workspace.environ], timeout=0.2)
    actions = handler.plan({"flashinfer-python": frozenset({DEEP})})
    with _other_process_holds(lock), pytest.raises(LockHeld) as caught, handler.locked(actions):
        pytest.fail("got in while a build was running")
    assert caught.value.exit_code == 3
    assert str(lock) in str(caught.value)


def test_a_build_that_begins_while_we_write_is_left_for_later(workspace: Workspace) -> None:
    """Nothing is planned before, so nothing is locked; then another module is being built."""
    about = subject(workspace, "d", {DEEP: "a"})
    handler = CacheHandler(lambda _: about, [workspace.environ], timeout=0.2)
    hidden = workspace.ops.with_name("hidden")
    (workspace.ops / "toy").rename(hidden)
    actions = handler.plan({"flashinfer-python": frozenset({DEEP})})
    with handler.locked(actions):
        hidden.rename(workspace.ops / "toy")
        with _other_process_holds(workspace.ops / "tmp" / "toy.lock"):
            handler.execute(actions)
    (advice,) = handler.done
    assert advice.action is Action.ADVISE
    assert "--if-changed" in advice.reason
    with ModuleLocks(1) as locks:
        assert names(reconcile(about, frozenset(), workspace.environ, locks)) == {
            "uses_deep.cuda.o", "toy.so"}


def test_a_cache_with_another_build_running_is_looked_at_again(workspace: Workspace) -> None:
    folder = workspace.ops / "busy"
    folder.mkdir()
    about = subject(workspace, "d", {DEEP: "a"})
    with _other_process_holds(workspace.ops / "tmp" / "busy.lock"), ModuleLocks(1) as locks:
        reconcile(about, frozenset({DEEP}), workspace.environ, locks)
        assert read_stamps(workspace.cache) == {}
    with ModuleLocks(1) as locks:
        reconcile(about, frozenset(), workspace.environ, locks)
    assert read_stamps(workspace.cache)


class _other_process_holds:  # noqa: N801 - reads as a sentence
    """A child that takes the lock as FlashInfer does (filelock: flock on the file)."""

    def __init__(self, lock: Path) -> None:
        self._lock = lock

    def __enter__(self) -> None:
        program = (
            "import fcntl, os, sys\n"
            "handle = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)\n"
            "fcntl.flock(handle, fcntl.LOCK_EX)\n"
            "print(flush=True); sys.stdin.read()\n")
        self._child = subprocess.Popen(["python3", "-c", program, self._lock], text=True,
                                       stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self._child.stdout is not None
        self._child.stdout.readline()

    def __exit__(self, *_: object) -> None:
        self._child.communicate("")


def test_a_transaction_replayed_after_a_crash_does_no_harm(workspace: Workspace) -> None:
    about = subject(workspace, "d", {DEEP: "a"})
    handler = CacheHandler(lambda _: about, [workspace.environ], timeout=1)
    actions = handler.plan({"flashinfer-python": frozenset({DEEP})})
    replayed = [CacheAction.from_record(action.record()) for action in actions]
    assert list(actions) == replayed
    for _ in range(2):
        again = CacheHandler(lambda _: about, [workspace.environ], timeout=1)
        with again.locked(replayed):
            again.execute(replayed)
    assert workspace.build("toy") == {"uses_deep.cuda.o", "toy.so"}


def test_a_link_out_of_the_cache_is_reported_and_not_followed(workspace: Workspace,
                                                              tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    (workspace.ops / "toy").rename(outside)
    (workspace.ops / "toy").symlink_to(outside)
    before = times(outside)
    (advice,) = invalidate(workspace, {DEEP})
    assert advice.action is Action.ADVISE
    assert times(outside) == before


def test_a_folder_replaced_by_a_link_after_planning_is_refused(workspace: Workspace,
                                                               tmp_path: Path) -> None:
    about = subject(workspace, "d", {DEEP: "a"})
    actions = plan(about, frozenset({DEEP}), workspace.environ)
    outside = tmp_path / "outside"
    (workspace.ops / "toy").rename(outside)
    (workspace.ops / "toy").symlink_to(outside)
    handler = CacheHandler(lambda _: about, [workspace.environ], timeout=1)
    with pytest.raises(UnsafePath), handler.locked(actions):
        handler.execute(actions)
    assert (outside / "uses_deep.cuda.o").exists()
