"""The matrix against the conditions of every release, read without sm-patch.

A group is applicable where one of its conditions is as places.py has it before the change, and not
needed where all of them are as they would be after it.
"""

from __future__ import annotations

import json
import tarfile
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from packaging.version import Version

from tests.conftest import REPOSITORY
from tests.patchsets.places import DEFAULT, FIXED, SGLANG, W4A8, Place, fits, rows, sizes_file

pytestmark = [pytest.mark.slow, pytest.mark.wheels]
Sliced = Callable[..., Path]
CELLS = json.loads((REPOSITORY / "patchsets" / "matrix.json").read_text("utf-8"))["cells"]
KINDS = {(kind["name"], kind["form"]): [*kind["releases"]] for kind in
         json.loads((REPOSITORY / "corpus" / "releases.json").read_text("utf-8"))["kinds"]}


def _releases(name: str, form: str, first: str) -> list[str]:
    return [v for v in KINDS[name, form] if Version(v) >= Version(first)]


def _outcomes(name: str, form: str, version: str) -> dict[str, str]:
    return {cell["group"]: cell["outcome"] for cell in CELLS
            if cell["patchset"] == f"{name}-sm120" and cell["form"] == form
            and cell["releases"] == {name: version}}


def _expected(places: Sequence[Place], text: Callable[[str], str]) -> dict[str, str]:
    """What the conditions say of each group that has some."""
    closed: dict[str, list[bool]] = {}
    for place in places:
        true = place.read(text)
        assert true in (set(place.true), set(place.true ^ place.turns)), (place, true)
        closed.setdefault(place.group, []).append(true == place.true)
    return {group: "applicable" if any(found) else "not-needed"
            for group, found in closed.items()}


@pytest.mark.parametrize("version", _releases("sglang", "wheels", "0.5.2"))
def test_sglang(sliced: Sliced, version: str) -> None:
    places = fits(version, [*SGLANG, *FIXED])
    with zipfile.ZipFile(sliced("sglang", version)) as wheel:
        expected = _expected(places, lambda path: wheel.read(path).decode())
    found = _outcomes("sglang", "wheels", version)
    # a release that no group was made for is told so, though its gates may fit
    checked = {group: found[group] for group in expected if found[group] != "unsupported"}
    assert checked == {group: expected[group] for group in checked}
    assert len(checked) >= 2


@pytest.mark.parametrize("version", _releases("vllm", "wheels", "0.12.0"))
def test_vllm(sliced: Sliced, version: str) -> None:
    with zipfile.ZipFile(sliced("vllm", version)) as wheel:
        def text(path: str) -> str:
            return wheel.read(path).decode()

        expected = _expected(fits(version, DEFAULT), text)
        table = rows(text(sizes_file(version)), "FI_ALLREDUCE_FUSION_MAX_SIZE_MB")
    expected["allreduce-sizes"] = "not-needed" if {"120", "121"} <= set(table) else "applicable"
    found = _outcomes("vllm", "wheels", version)
    assert {group: found[group] for group in expected} == expected


@pytest.mark.parametrize("version", [v for v in _releases("vllm", "sources", "0.12.0")
                                     if Version(v) < Version("0.23")])
def test_marlin(sliced: Sliced, version: str) -> None:
    with tarfile.open(sliced("vllm", version, "sources")) as archive:
        def text(path: str) -> str:
            member = archive.extractfile(f"vllm-{version}/{path}")
            assert member is not None
            return member.read().decode()

        expected = _expected(fits(version, W4A8), text)
    assert _outcomes("vllm", "sources", version)["marlin-w4a8"] == expected["marlin-w4a8"]
