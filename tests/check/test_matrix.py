"""The checked-in matrix: complete, without silence, and a sample of it checked anew."""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from patcher.cli import main
from patcher.errors import Exit
from patcher.operations.base import Outcome
from patcher.patchset.load import load_patchset

REPOSITORY = Path(__file__).resolve().parents[2]
CELLS: list[dict[str, Any]] = json.loads(
    (REPOSITORY / "patchsets" / "matrix.json").read_text("utf-8"))["cells"]
RELEASES = json.loads((REPOSITORY / "corpus" / "releases.json").read_text("utf-8"))


def _releases(cell: dict[str, Any]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(cell["releases"].items()))


def test_it_is_as_large_as_it_says() -> None:
    pairs = {(cell["patchset"], _releases(cell), cell["form"]) for cell in CELLS}
    applying = {(c["patchset"], _releases(c), c["form"]) for c in CELLS
                if c["outcome"] == "applicable"}
    assert len(pairs) >= 60
    assert len(applying) >= 25


def test_every_group_of_its_patchsets_is_there_for_every_release() -> None:
    for name in {cell["patchset"] for cell in CELLS}:
        groups = {group.id for group in load_patchset(name).groups}
        for releases in {_releases(c) for c in CELLS if c["patchset"] == name}:
            assert {c["group"] for c in CELLS
                    if c["patchset"] == name and _releases(c) == releases} == groups


def test_what_does_not_apply_says_why() -> None:
    known = {outcome.value for outcome in Outcome}
    for cell in CELLS:
        assert cell["outcome"] in known
        assert cell["outcome"] == "applicable" or cell["reason"], cell
        assert cell["outcome"] not in ("conflict", "unreached"), cell


def test_the_pairs_that_are_installed_together_are_there() -> None:
    for caller, name in (("sglang", "allreduce-fusion-sm120"),
                         ("vllm", "allreduce-fusion-vllm-sm120")):
        found = {_releases(cell) for cell in CELLS if cell["patchset"] == name}
        wanted = {tuple(sorted(pair.items())) for pair in RELEASES["installed_together"]
                  if caller in pair}
        assert wanted == found


@pytest.mark.slow
@pytest.mark.wheels
@pytest.mark.parametrize("pair", RELEASES["installed_together"], ids=str)
def test_a_pair_is_what_the_callers_own_metadata_pins(
        sliced: Callable[..., Path], pair: dict[str, str]) -> None:
    flashinfer = pair["flashinfer-python"]
    ((caller, version),) = (each for each in pair.items() if each[0] != "flashinfer-python")
    with zipfile.ZipFile(sliced(caller, version)) as wheel:
        (metadata,) = (n for n in wheel.namelist() if n.endswith(".dist-info/METADATA"))
        text = wheel.read(metadata).decode()
    pinned = re.findall(r"^Requires-Dist: flashinfer[-_]python(?:\[\w+\])?==([\w.]+)", text, re.M)
    assert pinned == [flashinfer]


SAMPLE = [
    ("sglang-sm120", "sglang", "0.5.7", "wheels"),
    ("sglang-sm120", "sglang", "0.5.14", "wheels"),
    ("sglang-sm120", "sglang", "0.5.23", "wheels"),
    ("vllm-sm120", "vllm", "0.18.0", "sources"),
    ("vllm-sm120", "vllm", "0.33.0", "wheels"),
    ("cutlass-dsl-sm121", "nvidia-cutlass-dsl-libs-base", "4.4.2", "wheels"),
    ("cutlass-dsl-sm121", "nvidia-cutlass-dsl-libs-base", "4.5.0", "wheels"),
]


@pytest.mark.slow
@pytest.mark.wheels
@pytest.mark.parametrize(("patchset", "name", "version", "form"), SAMPLE)
def test_a_sample_comes_out_the_same_again(
        sliced: Callable[..., Path], tmp_path: Path, patchset: str, name: str, version: str,
        form: str) -> None:
    folder = tmp_path / "archives"
    folder.mkdir()
    archive = sliced(name, version, form)
    (folder / archive.name).symlink_to(archive)
    report = tmp_path / "check.json"
    code = main(["check", patchset, "--versions", version, "--wheels", str(folder), "--cuda",
                 "13.0", "--arch", "sm_120a", "--format", "json", "--output", str(report)])
    assert code == Exit.DONE
    (row,) = json.loads(report.read_text("utf-8"))["rows"]
    kept = {cell["group"]: cell["outcome"] for cell in CELLS
            if cell["patchset"] == patchset and cell["form"] == form
            and cell["releases"] == {name: version}}
    assert {group["id"]: group["outcome"] for group in row["groups"]} == kept
