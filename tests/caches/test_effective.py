"""Whether a change is what runs: each obstacle alone, with real builds and processes."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from patcher.caches.invalidate import reconcile
from patcher.caches.locks import ModuleLocks
from patcher.effective import Question, effective
from patcher.processes import users_of_environment
from patcher.status import Effective
from tests.caches.test_fatbin import compile_to, gencode
from tests.caches.test_invalidate import DEEP, PATCHED, subject
from tests.caches.test_processes import WAIT, running
from tests.caches.workspace import Workspace

pytestmark = pytest.mark.nvcc


@pytest.fixture
def ask(workspace: Workspace) -> Callable[..., Question]:
    """The question after a header was patched and its caches brought in line."""
    workspace.write(DEEP, PATCHED)
    about = subject(workspace, "patched", {DEEP: "p"})
    with ModuleLocks(1) as locks:
        reconcile(about, frozenset({DEEP}), workspace.environ, locks)
    touched = replace(about.describe(frozenset({DEEP})), compiled=frozenset({"toy"}))
    question = Question(touched, about, "flashinfer", workspace.site / "flashinfer",
                        (workspace.site,), (workspace.site / "flashinfer/data/aot",),
                        (workspace.environ,))
    return lambda **changes: replace(question, **changes)


def test_in_line_it_is_effective(ask: Callable[..., Question]) -> None:
    assert effective(ask()).state is Effective.YES


def test_another_copy_first_on_the_path_wins(ask: Callable[..., Question], workspace: Workspace,
                                             tmp_path: Path) -> None:
    other = tmp_path / "user-site"
    (other / "flashinfer").mkdir(parents=True)
    assert effective(ask(search_path=(other, workspace.site))).state is Effective.YES
    (other / "flashinfer" / "__init__.py").write_text("")
    answer = effective(ask(search_path=(other, workspace.site)))
    assert answer.state is Effective.NO
    assert str(other) in answer.reason
    assert effective(ask(search_path=(workspace.site, other))).state is Effective.YES


def test_a_prebuilt_module_wins(ask: Callable[..., Question], workspace: Workspace, nvcc: Path,
                                tmp_path: Path) -> None:
    library = workspace.site / "flashinfer/data/aot/toy/toy.so"
    library.parent.mkdir(parents=True)
    shutil.copy(compile_to(nvcc, tmp_path / "k.so", *gencode("sm_120a")), library)
    answer = effective(ask())
    assert answer.state is Effective.NO
    assert str(library) in answer.reason
    unclear = ask(touched=replace(ask().touched, compiled=frozenset()))
    assert effective(unclear).state is Effective.UNKNOWN


def test_a_cache_that_was_not_told_holds_stale_objects(ask: Callable[..., Question],
                                                       workspace: Workspace) -> None:
    workspace.build("toy")
    (workspace.cache / ".sm-patch.json").unlink()  # as on a volume from before
    answer = effective(ask())
    assert answer.state is Effective.NO
    assert "uses_deep.cuda.o" in answer.reason
    assert "caches invalidate" in answer.reason


def test_a_server_with_another_cache_counts(ask: Callable[..., Question],
                                            tmp_path: Path) -> None:
    ours = {"HOME": str(tmp_path)}
    theirs = ask().environs[0]
    assert effective(ask(environs=(ours, theirs))).state is Effective.YES
    assert effective(ask(environs=(ours,))).state is Effective.YES


def test_an_old_process_needs_a_restart(ask: Callable[..., Question],
                                        workspace: Workspace) -> None:
    time.sleep(0.5)  # a process that began within the clock's grain of the change is in doubt
    with running("python3", "-c", f"f = open({str(workspace.site / DEEP)!r}); {WAIT}") as pid:
        survey = users_of_environment([workspace.site])
        assert effective(ask(survey=survey)).state is Effective.YES, "it began after the change"
        time.sleep(0.05)
        workspace.write(DEEP, PATCHED)
        answer = effective(ask(survey=users_of_environment([workspace.site])))
    assert answer.state is Effective.YES or str(pid) in answer.reason
    assert [process.pid for process in answer.restart] == [pid]
    assert answer.state is Effective.AFTER_RESTART
