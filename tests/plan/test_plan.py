"""Outcomes of a plan on a small package, before and after the engine has been at work."""

from __future__ import annotations

from pathlib import Path

import pytest

from patcher.errors import Exit, PackageNotFound, UsageError
from patcher.operations.base import Outcome
from tests.plan.site import GUARD, OPEN, PATCHSET, Site


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site.make(tmp_path / "site")


def test_a_group_whose_gates_exclude_is_applicable(site: Site) -> None:
    group = site.group()
    assert group.outcome is Outcome.APPLICABLE, group.reason
    assert [patch.outcome for patch in group.patches] == [Outcome.APPLICABLE] * 3


def test_applied_then_reinstalled(site: Site) -> None:
    """C14: a wheel reinstalled since must never count as applied."""
    before = {path: site.read(path) for path in ("mini/jit.py", "mini/kernel.cuh", "mini/unit.cu")}
    site.apply()
    group = site.group()
    assert group.outcome is Outcome.ALREADY_APPLIED
    assert {patch.outcome for patch in group.patches} == {Outcome.ALREADY_APPLIED}
    assert not site.plan().changed
    for path, text in before.items():
        site.write(path, text)
    assert site.group().outcome is Outcome.APPLICABLE


def test_upstreams_own_fix_is_not_needed_whatever_the_text_is(tmp_path: Path) -> None:
    """C14: the file carries the new text for another reason; gates decide, so the old text of
    the stride, still there, is not touched either."""
    site = Site.make(
        tmp_path / "site",
        jit="def gen():\n    return build(supported_major_versions=[9, 10, 12])\n",
        kernel=f"__global__ void body() {{\n{OPEN}  work();\n#endif\n}}\n")
    group = site.group()
    assert group.outcome is Outcome.NOT_NEEDED
    assert {patch.outcome for patch in group.patches} == {Outcome.NOT_NEEDED}
    assert site.plan().exit is Exit.DONE


def test_new_text_with_closed_gates_is_a_conflict(tmp_path: Path) -> None:
    """C14, the other half: the stride has the new text, the gates still exclude."""
    site = Site.make(tmp_path / "site",
                     unit='#include "kernel.cuh"\nvoid launch(int n) { stride(8); }\n')
    group = site.group()
    assert group.outcome is Outcome.CONFLICT
    assert group.reason.startswith("stride: mini/unit.cu: the text 'stride(n)' stands nowhere")
    assert site.plan().exit is Exit.REFUSED


def test_half_opened_upstream_takes_the_rest(tmp_path: Path) -> None:
    site = Site.make(tmp_path / "site",
                     jit="def gen():\n    return build(supported_major_versions=[9, 10, 12])\n")
    group = site.group()
    assert [patch.outcome for patch in group.patches] == [
        Outcome.NOT_NEEDED, Outcome.APPLICABLE, Outcome.APPLICABLE]
    assert group.outcome is Outcome.APPLICABLE


@pytest.mark.parametrize(("version", "outcome"), [
    ("1.0", Outcome.APPLICABLE),
    ("1.9.post1", Outcome.APPLICABLE),
    ("1.0+cu130", Outcome.APPLICABLE),
    ("2.0rc1", Outcome.APPLICABLE),  # neither inside "<2" (PEP 440) nor at fixed-in: gates decide
    ("0.0.0+unknown", Outcome.APPLICABLE),
    ("2.0", Outcome.CONFLICT),  # says it has the fix, and has not
    ("3.1", Outcome.CONFLICT),
    ("3.0rc1", Outcome.CONFLICT),
])
def test_versions_label_and_gates_decide(tmp_path: Path, version: str, outcome: Outcome) -> None:
    site = Site.make(tmp_path / "site", version)
    assert site.group().outcome is outcome


def test_a_version_outside_is_unsupported_unless_the_gates_are_open(tmp_path: Path) -> None:
    text = PATCHSET.replace('"<2"', '">=1.5,<2"')
    site = Site.make(tmp_path / "old", "1.0")
    group = site.group(site.patchset(text))
    assert group.outcome is Outcome.UNSUPPORTED
    assert "version 1.0 is outside >=1.5,<2" in group.reason
    opened = Site.make(tmp_path / "new", "1.0",
                       jit="def gen():\n    return build(supported_major_versions=[9, 10, 12])\n",
                       kernel=f"{OPEN}work();\n#endif\n")
    assert opened.group(opened.patchset(text)).outcome is Outcome.NOT_NEEDED


def test_a_missing_file_is_missing_below_the_fix_and_not_needed_above(tmp_path: Path) -> None:
    for version, outcome in (("1.0", Outcome.MISSING), ("2.0", Outcome.NOT_NEEDED)):
        site = Site.make(tmp_path / version, version,
                         jit="def gen():\n    return build(supported_major_versions=[9, 10, 12])\n")
        (site.root / "mini/kernel.cuh").unlink()
        assert site.group().outcome is outcome


def test_a_foreign_edit_inside_our_span_is_a_conflict_and_elsewhere_is_kept(site: Site) -> None:
    site.apply()
    text = PATCHSET.replace("stride(8)", "stride(16)")
    site.write("mini/unit.cu", "// mine\n" + site.read("mini/unit.cu"))
    assert site.group(site.patchset(text)).outcome is Outcome.APPLICABLE
    site.write("mini/unit.cu", site.read("mini/unit.cu").replace("stride(8)", "stride(9)"))
    group = site.group(site.patchset(text))
    assert group.outcome is Outcome.CONFLICT
    assert "was edited where this patch changes it" in group.reason


def test_two_patchsets_on_one_place_are_refused_and_equal_ones_share_it(site: Site) -> None:
    site.apply()
    same = site.patchset(PATCHSET, "same")
    assert site.group(same).outcome is Outcome.APPLICABLE
    other = site.patchset(PATCHSET.replace("stride(8)", "stride(16)"), "other")
    group = site.group(other)
    assert group.outcome is Outcome.CONFLICT
    assert "changes the same place as mini-sm120/main/stride" in group.reason


def test_a_repeated_plan_of_a_changed_patchset_replaces_its_edits(site: Site) -> None:
    site.apply()
    text = PATCHSET.replace("stride(8)", "stride(16)")
    site.apply(site.patchset(text))
    assert "stride(16)" in site.read("mini/unit.cu")
    assert site.group(site.patchset(text)).outcome is Outcome.ALREADY_APPLIED


VARIANTS = """\
sm-patch: 1
name: mini-sm120
package: mini
groups:
  - id: main
    variants:
      - versions: "<1"
        patches:
          - id: guard
            cuda-guard: {file: mini/kernel.cuh, condition: __CUDA_ARCH__ == 900, open: ["12.0"]}
      - versions: ">=1"
        patches:
          - id: guard
            cuda-guard:
              file: mini/kernel.cuh
              condition: defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900 && __CUDA_ARCH__ < 1200
              open: ["12.0"]
"""


@pytest.mark.parametrize("version", ["0.5", "1.0", "0.0.0+unknown"])
def test_gates_choose_the_variant(tmp_path: Path, version: str) -> None:
    site = Site.make(tmp_path / "site", version)
    group = site.group(site.patchset(VARIANTS))
    assert group.outcome is Outcome.APPLICABLE
    (edits,) = group.patches[0].edits.values()
    assert edits[0].new == b"1"  # < 1200 becomes < 1210


MOVED = """\
sm-patch: 1
name: mini-sm120
package: mini
groups:
  - id: main
    versions: "<2"
    fixed-in: "2"
    variants:
      - versions: ">=1"
        patches:
          - id: gate
            python-gate: {file: mini/jit.py, within: moved, gate: majors, open: ["12.0", "12.1"]}
      - versions: "<1"
        patches:
          - id: gate
            python-gate: {file: mini/jit.py, within: gen, gate: supported_major_versions,
                          open: ["12.0", "12.1"]}
"""
OLD = "def gen():\n    return build(supported_major_versions=[9, 10])\n"
NEW = "def moved():\n    return build(majors=[9, 10])\n"
NEW_OPEN = "def moved():\n    return build(majors=[9, 10, 12])\n"


@pytest.mark.parametrize(("version", "jit", "outcome"), [
    # the variant for this version is there and open: what an older one would do is not asked
    ("1.5", NEW_OPEN + OLD, Outcome.NOT_NEEDED),
    ("1.5", NEW + OLD, Outcome.APPLICABLE),
    ("2.5", NEW_OPEN + OLD, Outcome.NOT_NEEDED),
    # it is not there: gates choose the other one
    ("1.5", OLD, Outcome.APPLICABLE),
    # it is not there and the version promises the fix, which the older gates deny
    ("2.5", OLD, Outcome.CONFLICT),
    ("2.5", NEW, Outcome.CONFLICT),
    # it is not there, and nothing else excludes
    ("2.5", "", Outcome.NOT_NEEDED),
    ("2.5", "def gen():\n    return build(supported_major_versions=[9, 10, 12])\n",
     Outcome.NOT_NEEDED),
    # a version that says nothing: the first whose gates are there
    ("0.0.0+unknown", NEW_OPEN + OLD, Outcome.NOT_NEEDED),
    ("0.0.0+unknown", OLD, Outcome.APPLICABLE),
])
def test_the_variant_of_the_version_is_asked_first_and_a_wrong_label_is_never_safe(
        tmp_path: Path, version: str, jit: str, outcome: Outcome) -> None:
    site = Site.make(tmp_path / "site", version, jit=jit)
    assert site.group(site.patchset(MOVED)).outcome is outcome


SEVERAL = """\
sm-patch: 1
name: mini-sm120
package: mini
groups:
  - id: first
    default: true
    patches:
      - {id: note, create: {file: mini/one.txt, content: one}}
  - id: second
    requires: [third]
    patches:
      - {id: note, create: {file: mini/two.txt, content: two}}
  - id: third
    patches:
      - {id: note, create: {file: mini/three.txt, content: three}}
  - id: repository
    default: true
    applies-to: source-tree
    patches:
      - {id: note, create: {file: mini/four.txt, content: four}}
  - id: other-device
    for: ["12.1"]
    patches:
      - {id: note, create: {file: mini/five.txt, content: five}}
"""


def selected(site: Site, *groups: str) -> dict[str, Outcome]:
    (patchset,) = site.plan(site.patchset(SEVERAL), groups=groups).patchsets
    return {group.id: group.outcome for group in patchset.groups if group.selected}


def test_which_groups_are_taken(site: Site) -> None:
    """Plain: the default ones that fit this kind of tree; named: those and what they require."""
    assert selected(site) == {"first": Outcome.APPLICABLE}
    assert selected(site, "second") == {"second": Outcome.APPLICABLE, "third": Outcome.APPLICABLE}
    assert selected(site, "mini-sm120/third") == {"third": Outcome.APPLICABLE}
    assert selected(site, "repository") == {"repository": Outcome.UNSUPPORTED}
    assert selected(site, "other-device") == {"other-device": Outcome.UNSUPPORTED}
    with pytest.raises(UsageError, match="no group nowhere"):
        selected(site, "nowhere")


def test_an_absent_package_is_said(site: Site) -> None:
    with pytest.raises(PackageNotFound):
        site.plan(site.patchset(PATCHSET.replace("package: mini", "package: absent")))


def test_a_group_that_is_not_taken_may_concern_a_package_that_is_not_there(site: Site) -> None:
    text = SEVERAL.replace("id: third", "id: third\n    package: absent")
    (patchset,) = site.plan(site.patchset(text)).patchsets
    (third,) = (group for group in patchset.groups if group.id == "third")
    assert (third.outcome, third.selected) == (Outcome.MISSING, False)
    with pytest.raises(PackageNotFound):
        site.plan(site.patchset(text), groups=("third",))


LAW = """\
sm-patch: 1
name: mini-sm120
package: mini
archs: [sm_120a]
groups:
  - id: main
    patches:
      - id: patch
        {operation}
"""
ANCHOR = "defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900 && __CUDA_ARCH__ < 1200"


@pytest.mark.parametrize(("operation", "outcome", "reason"), [
    (f"cuda-guard: {{file: mini/kernel.cuh, condition: {ANCHOR!r}, open: [sm_120a]}}",
     Outcome.CONFLICT, "cannot tell sm_120 sm_120f from sm_120a"),
    ((f"coarse: true\n        cuda-guard: {{file: mini/kernel.cuh, condition: {ANCHOR!r}, "
     "open: [sm_120a]}"), Outcome.APPLICABLE, ""),
    ("python-gate: {file: mini/jit.py, gate: supported_major_versions, open: ['12.0']}",
     Outcome.CONFLICT, "cannot tell sm_121 sm_121a sm_121f from"),
    ("text: {file: mini/jit.py, find: '[9, 10]', replace: '[9]'}",
     Outcome.CONFLICT, "changes every architecture; say 'affects: all' and why"),
    ("text: {file: mini/unit.cu, find: stride(n), replace: stride(8)}",
     Outcome.CONFLICT, "live in worlds that were not asked; say 'affects: all'"),
    (("affects: all\n        reason: r\n        text: {file: mini/jit.py, find: gen(), "
     "replace: 'gen('}"), Outcome.CONFLICT, "the result would not be Python"),
    (("affects: all\n        reason: r\n        text: {file: mini/kernel.cuh, find: '#endif', "
     "replace: ''}"), Outcome.CONFLICT, "#if directives do not balance"),
    ("affects: all\n        reason: r\n        text: {file: mini/lost.cuh, find: a, replace: b}",
     Outcome.UNREACHED, "no translation unit of this package includes mini/lost.cuh"),
    (("affects: all\n        reason: r\n        unreached: allow\n        text: "
     "{file: mini/lost.cuh, find: a, replace: b}"), Outcome.APPLICABLE, ""),
])
def test_the_law_refuses(site: Site, operation: str, outcome: Outcome, reason: str) -> None:
    site.write("mini/lost.cuh", "a\n")
    group = site.group(site.patchset(LAW.replace("{operation}", operation)))
    assert (group.outcome, reason in group.reason) == (outcome, True), group.reason


def test_a_guard_behind_another_that_still_excludes_is_refused(tmp_path: Path) -> None:
    outer = "#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ <= 1100\n"
    kernel = f"{outer}__global__ void body() {{\n{GUARD}work();\n#endif\n}}\n#endif\n"
    site = Site.make(tmp_path / "site", kernel=kernel)
    group = site.group()
    assert group.outcome is Outcome.CONFLICT
    assert "the gate at line 1 still excludes" in group.reason
