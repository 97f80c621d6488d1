"""What others did to our files: foreign edits, drift, reinstalls, links, poison."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from patcher.changes import Create, Move
from patcher.engine.request import Request, Why
from patcher.session import reading
from patcher.status import State
from tests.engine.helpers import (
    Line,
    Package,
    apply,
    full_status,
    home_of,
    installed,
    patchset,
    replacing,
    revert,
    snapshot,
    states,
)

TEXT = "alpha\nbeta\ngamma\ndelta\nepsilon\n"
PATH = "demo/b.cuh"
BETA = replacing(TEXT, "beta", "BETA")


@pytest.fixture
def package(tmp_path: Path) -> Package:
    return installed(tmp_path / "site", {PATH: TEXT, "demo/c.cuh": TEXT})


@pytest.fixture
def file(package: Package) -> Path:
    return package.root / PATH


def test_a_foreign_edit_elsewhere_is_kept_and_told(package: Package, file: Path) -> None:
    apply(package, patchset(package, "p", {PATH: [BETA]}))
    file.write_text(file.read_text().replace("delta", "DELTA"))
    assert states(package) == {"p": State.APPLIED}
    later = apply(package, patchset(package, "q", {PATH: [replacing(TEXT, "alpha", "A")]}))
    assert "not ours" in later.warnings[0]
    assert file.read_text() == "A\nBETA\ngamma\nDELTA\nepsilon\n"
    revert(package, "p", "q")
    assert file.read_text() == TEXT.replace("delta", "DELTA")


def test_a_foreign_edit_in_our_span_is_drift_and_shown(package: Package, file: Path) -> None:
    apply(package, patchset(package, "p", {PATH: [BETA]}))
    apply(package, patchset(package, "q", {PATH: [replacing(TEXT, "delta", "D")]}))
    file.write_text(file.read_text().replace("BETA", "BETA or so"))
    assert states(package) == {"p": State.DRIFTED, "q": State.APPLIED}
    before = snapshot(package.root)
    (refusal,) = revert(package, "p").refusals
    assert refusal.why is Why.DRIFTED
    assert "-BETA\n+BETA or so\n" in refusal.diff
    assert snapshot(package.root) == before
    assert not revert(package, "q").refusals  # whose own span is intact
    assert file.read_text() == TEXT.replace("beta", "BETA or so")


def test_a_foreign_edit_where_a_new_edit_goes_is_a_conflict(package: Package, file: Path) -> None:
    apply(package, patchset(package, "p", {PATH: [BETA]}))
    file.write_text(file.read_text().replace("delta", "DELTA"))
    refused = apply(package, patchset(package, "q", {PATH: [replacing(TEXT, "delta", "D")]}))
    assert [r.groups for r in refused.refusals] == [{("q", "main")}]


def test_one_drifted_file_stops_the_whole_revert(package: Package, file: Path) -> None:
    c = {"demo/c.cuh": [BETA]}
    apply(package, patchset(package, "p", {PATH: [BETA], **c}))
    file.write_text("something else\n")
    before = snapshot(package.root)
    assert revert(package, "p").refused == {("p", "main")}
    assert snapshot(package.root) == before


def test_a_changed_or_removed_new_file(package: Package) -> None:
    apply(package, patchset(package, "p", {}, [Create("demo/n.h", b"new\n")]))
    (package.root / "demo/n.h").write_text("changed\n")
    assert states(package) == {"p": State.DRIFTED}
    assert "+changed" in revert(package, "p").refusals[0].diff
    (package.root / "demo/n.h").unlink()
    assert states(package) == {"p": State.LOST}
    assert not revert(package, "p").refusals
    assert states(package) == {}


def test_reinstalled_files_are_lost_and_can_be_patched_again(package: Package) -> None:
    edits = {PATH: [BETA], "demo/c.cuh": [BETA]}
    apply(package, patchset(package, "p", edits))
    apply(package, patchset(package, "q", {PATH: [replacing(TEXT, "alpha", "A")]}))
    installed(package.root, {PATH: TEXT})
    assert states(package) == {"p": State.PARTIAL, "q": State.LOST}
    installed(package.root, {"demo/c.cuh": TEXT})
    assert states(package) == {"p": State.LOST, "q": State.LOST}
    apply(package, patchset(package, "p", edits))
    # q has files in no other group's hands: it is not half re-applied along with p
    assert states(package) == {"p": State.APPLIED, "q": State.LOST}
    assert (package.root / PATH).read_text() == TEXT.replace("beta", "BETA")
    revert(package, "q")
    revert(package, "p")
    assert (package.root / PATH).read_text() == TEXT
    assert states(package) == {}


def test_revert_of_what_was_lost_leaves_the_new_version_alone(package: Package) -> None:
    apply(package, patchset(package, "p", {PATH: [BETA]}))
    newer = installed(package.root, {PATH: "another version\n"}, version="2.0")
    assert states(newer) == {"p": State.LOST}
    revert(newer, "p")
    assert (package.root / PATH).read_text() == "another version\n"


def test_apply_on_another_version_takes_it_as_the_base(package: Package) -> None:
    apply(package, patchset(package, "p", {PATH: [BETA]}))
    text = TEXT.replace("alpha", "version 2")
    newer = installed(package.root, {PATH: text, "demo/c.cuh": TEXT}, version="2.0")
    apply(newer, patchset(newer, "p", {PATH: [replacing(text, "beta", "BETA")]}))
    assert states(newer) == {"p": State.APPLIED}
    revert(newer, "p")
    assert (package.root / PATH).read_text() == text


def test_a_version_that_holds_the_change_supersedes_it(package: Package) -> None:
    apply(package, patchset(package, "p", {PATH: [BETA]}))
    newer = installed(package.root, {PATH: TEXT.replace("beta", "BETA")}, version="2.0")
    assert states(newer) == {"p": State.SUPERSEDED}
    revert(newer, "p")  # and never brings the old version's bytes back
    assert (package.root / PATH).read_text() == TEXT.replace("beta", "BETA")


def test_a_base_that_was_edited_before_is_kept_and_flagged(package: Package, file: Path) -> None:
    file.write_text(TEXT.replace("delta", "theirs"))
    staged = apply(package, patchset(package, "p", {PATH: [BETA]}))
    assert "edited before" in staged.warnings[0]
    revert(package, "p")
    assert file.read_text() == TEXT.replace("delta", "theirs")


def test_hard_links_are_never_written_through(package: Package, file: Path,
                                              tmp_path: Path) -> None:
    os.link(file, tmp_path / "installer-cache")
    apply(package, patchset(package, "p", {PATH: [BETA]}))
    os.link(file, tmp_path / "another-name")
    revert(package, "p")
    assert (tmp_path / "installer-cache").read_text() == TEXT
    assert (tmp_path / "another-name").read_text() == TEXT.replace("beta", "BETA")


def test_poison_is_told_from_a_plain_edit(package: Package, file: Path, tmp_path: Path) -> None:
    os.link(file, tmp_path / "installer-cache")
    (tmp_path / "installer-cache").write_text(TEXT.replace("gamma", "poison"))
    staged = apply(package, patchset(package, "p", {PATH: [BETA]}))
    assert "hard link" in staged.warnings[0]
    # a reinstall from the poisoned cache brings the poisoned bytes back, without our edit
    file.unlink()
    os.link(tmp_path / "installer-cache", file)
    record = {PATH: Line("sha256", "0" * 64)}
    poisoned = Package(package.root, record=record)
    assert states(poisoned) == {"p": State.LOST}  # they were our base
    (tmp_path / "installer-cache").write_text(TEXT.replace("beta", "poison"))
    assert states(poisoned) == {"p": State.POISONED}


def test_a_link_is_replaced_and_restored(tmp_path: Path) -> None:
    cache = tmp_path / "cache.cuh"
    cache.write_text(TEXT)
    package = installed(tmp_path / "site", {"demo/own.cuh": TEXT})
    (package.root / "demo/inside.cuh").symlink_to("own.cuh")
    apply(package, patchset(package, "p", {"demo/inside.cuh": [BETA]}))
    assert not (package.root / "demo/inside.cuh").is_symlink()
    assert (package.root / "demo/own.cuh").read_text() == TEXT
    revert(package, "p")
    assert os.readlink(package.root / "demo/inside.cuh") == "own.cuh"


def test_links_out_of_the_root_are_refused(package: Package, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "x.cuh").write_text(TEXT)
    (package.root / "demo/away").symlink_to(outside)
    (package.root / "demo/leaf.cuh").symlink_to(outside / "x.cuh")
    for path in ("demo/away/x.cuh", "demo/leaf.cuh"):
        refused = apply(package, patchset(package, "p", {path: [BETA]}))
        assert [r.why for r in refused.refusals] == [Why.UNSAFE]
    for path in ("../outside/n.h", "/etc/n.h", "demo/away/n.h", "demo//n.h"):
        refused = apply(package, patchset(package, "p", {}, [Create(path, b"")]))
        assert [r.why for r in refused.refusals] == [Why.UNSAFE]
    assert sorted(os.listdir(outside)) == ["x.cuh"]
    assert (outside / "x.cuh").read_text() == TEXT


ASIDE = Move("aot/m", "aot/m.aside")


def _reinstalled_beside_its_aside_copy(package: Package) -> None:
    installed(package.root, {"aot/m/m.so": "1"})
    assert not apply(package, patchset(package, "p", {}, [ASIDE])).refusals
    installed(package.root, {"aot/m/m.so": "2"})
    assert states(package) == {"p": State.LOST}


def test_a_module_reinstalled_beside_its_aside_copy(package: Package) -> None:
    """The installer's new one stays, and of the old one, which only we had kept, nothing does."""
    _reinstalled_beside_its_aside_copy(package)
    assert not revert(package, "p").refusals
    assert os.listdir(package.root / "aot") == ["m"]
    assert (package.root / "aot/m/m.so").read_text() == "2"


def test_a_reinstalled_module_is_set_aside_again(package: Package) -> None:
    """Reverting brings back what was installed last, not what had stood there before."""
    _reinstalled_beside_its_aside_copy(package)
    with_aside = patchset(package, "p", {}, [ASIDE])
    # seen without a lock as well, as `apply --check` does
    staged = reading(home_of(package)).stage(Request((with_aside,)), {package.name: package})
    assert not staged.refusals
    assert not apply(package, with_aside).refusals
    assert os.listdir(package.root / "aot") == ["m.aside"]
    assert (package.root / "aot/m.aside/m.so").read_text() == "2"
    assert states(package) == {"p": State.APPLIED}
    assert not revert(package, "p").refusals
    assert os.listdir(package.root / "aot") == ["m"]
    assert (package.root / "aot/m/m.so").read_text() == "2"


def test_what_others_put_where_a_module_would_go_aside_is_kept(package: Package) -> None:
    installed(package.root, {"aot/m/m.so": "1", "aot/m.aside/theirs": "x"})
    (refusal,) = apply(package, patchset(package, "p", {}, [ASIDE])).refusals
    assert "in the way" in refusal.reason
    assert (package.root / "aot/m.aside/theirs").read_text() == "x"


def test_a_damaged_original_is_never_written(package: Package, file: Path) -> None:
    apply(package, patchset(package, "p", {PATH: [BETA]}))
    (original,) = (home_of(package).path / "originals").iterdir()
    original.write_bytes(b"damaged")
    from patcher.errors import Refused

    with pytest.raises(Refused, match="damaged"):
        revert(package, "p")
    assert file.read_text() == TEXT.replace("beta", "BETA")


def test_status_says_which_file(package: Package, file: Path) -> None:
    apply(package, patchset(package, "p", {PATH: [BETA]}))
    file.write_text(file.read_text().replace("BETA", "B"))
    assert full_status(package)[0].groups[0].reason.startswith(PATH)
