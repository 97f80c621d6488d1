"""A group is named as the way out only where apply would take it."""

from __future__ import annotations

from pathlib import Path

import pytest

from patcher.arch import ArchSet
from patcher.patchset.load import load_patchset
from patcher.scan.files import Files
from patcher.scan.opened import Openers
from patcher.tree import FolderTree
from tests.report.made import gate

PATCHSET = """\
sm-patch: 1
name: opens
package: made
groups:
  - id: main
    versions: ">=1.0,<2.0"
    fixed-in: "3.0"
    patches:
      - id: gate
        cuda-guard: {file: made/a.cuh, condition: __CUDA_ARCH__ < 1200, open: ["12.0", "12.1"]}
"""


@pytest.mark.parametrize(("version", "named"), [
    ("1.5", True),
    ("2.0", False),  # outside: apply says unsupported
    ("3.0", False),  # at fixed-in: a gate that still excludes is a conflict
    ("2.0rc1", True),  # pre-releases and unknown versions: the gates decide alone
    ("0.0.0+unknown", True),
    (None, True),
])
def test_the_version_must_be_one_that_apply_takes(tmp_path: Path, version: str | None,
                                                  named: bool) -> None:
    path = tmp_path / "opens.yaml"
    path.write_text(PATCHSET)
    openers = Openers([load_patchset(str(path))], "made", version, ArchSet.of("sm_120a"))
    found = openers.of(gate("made/a.cuh", 1, "__CUDA_ARCH__ < 1200"),
                       Files(FolderTree(tmp_path)))
    assert (found is not None and found.name == "opens/main") is named


@pytest.mark.parametrize(("targets", "named"), [
    (["sm_89"], False),  # the group changes nothing for it
    (["sm_121f"], True),
    (["sm_89", "sm_120"], True),
])
@pytest.mark.parametrize(("limit", "fits"), [("", True), ('for: ["12.1"]', False)])
def test_the_group_must_be_meant_for_the_target(tmp_path: Path, targets: list[str], named: bool,
                                                limit: str, fits: bool) -> None:
    path = tmp_path / "opens.yaml"
    path.write_text(PATCHSET.replace("patches:", f"{limit}\n    patches:"))
    openers = Openers([load_patchset(str(path))], "made", "1.5", ArchSet.of(*targets))
    found = openers.of(gate("made/a.cuh", 1, "__CUDA_ARCH__ < 1200"),
                       Files(FolderTree(tmp_path)))
    assert (found is not None) is (named and (fits or "sm_121f" in targets))
