"""The shipped patchsets' own test files: what must not change, and what must come out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from patcher.edits import apply_edits
from patcher.operations.base import Outcome
from patcher.operations.registry import find
from patcher.patchset.load import load_patchset
from patcher.patchset.schema import CudaGuard, Flag, Operation, Patchset, PythonGate, Text

PATCHSETS = Path(__file__).resolve().parents[2] / "patchsets"


@dataclass(frozen=True)
class OneFile:
    """A source that holds the same bytes wherever it is asked."""

    data: bytes
    root: Path = Path()

    def read(self, path: str) -> bytes:
        return self.data

    def names(self, folder: str) -> frozenset[str]:
        return frozenset()

    folders = names


def _operation(patchset: Patchset, name: str, variant: int | None) -> Operation:
    group_id, patch_id = name.split("/")
    (group,) = (group for group in patchset.groups if group.id == group_id)
    patches = group.variants[variant - 1].patches if variant else group.patches
    (patch,) = (patch for patch in patches if patch.id == patch_id)
    return patch.operation


def _cases(kind: str) -> Iterator[Any]:
    for path in sorted(PATCHSETS.glob("*.test.yaml")):
        document = yaml.safe_load(path.read_text("utf-8"))
        assert document["sm-patch-test"] == 1
        patchset = load_patchset(str(path.with_name(f"{document['patchset']}.yaml")))
        for test in document["tests"]:
            operation = _operation(patchset, test["patch"], test.get("variant"))
            for case in test.get(kind, []):
                yield pytest.param(operation, case, id=f"{test['patch']}-{case['id']}")


@pytest.mark.parametrize(("operation", "case"), list(_cases("valid")))
def test_valid_sources_stay_as_they_are(operation: Operation, case: dict[str, str]) -> None:
    finding = find(operation, OneFile(case["source"].encode()))
    assert finding.outcome is Outcome.NOT_NEEDED, finding.reason
    assert not finding.edits


@pytest.mark.parametrize(("operation", "case"), list(_cases("invalid")))
def test_invalid_sources_come_out_exactly(operation: Operation, case: dict[str, str]) -> None:
    before = case["before"].encode()
    finding = find(operation, OneFile(before))
    assert finding.outcome is Outcome.APPLICABLE, finding.reason
    (edits,) = finding.edits.values()
    after = apply_edits(before, edits)
    assert after.decode() == case["after"]
    again = find(operation, OneFile(after))
    assert again.outcome in (Outcome.NOT_NEEDED, Outcome.CONFLICT), "a second time must not edit"


def _edits_text(patchset: Patchset) -> bool:
    """Links and whole files have no snippet that could change."""
    patches = [
        patch
        for group in patchset.groups
        for patch in (*group.patches, *(p for variant in group.variants for p in variant.patches))
    ]
    return any(isinstance(p.operation, PythonGate | CudaGuard | Text | Flag) for p in patches)


def test_every_shipped_patchset_that_edits_text_has_a_test_file() -> None:
    tested = {path.name.removesuffix(".test.yaml") for path in PATCHSETS.glob("*.test.yaml")}
    shipped = [path for path in PATCHSETS.glob("*.yaml") if not path.name.endswith(".test.yaml")]
    assert tested == {path.stem for path in shipped if _edits_text(load_patchset(str(path)))}
