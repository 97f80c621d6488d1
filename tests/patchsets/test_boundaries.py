"""Each patchset at the first and the last release of each of its variants.

Applied to the files of the release; the conditions read again, by Python's own parser and the
meaning of their names (reading.py), not by sm-patch: what was asked passes, everyone else as
before, no other condition of a file is touched; then reverted to the byte. For which devices a
condition is true is written here, from the names' definitions.
"""

from __future__ import annotations

import ast
import shutil
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from patcher.errors import Exit
from tests.conftest import REPOSITORY
from tests.patchsets.installed import Installed, unpack
from tests.patchsets.places import (
    ARGS,
    DEFAULT,
    OFF,
    SGLANG,
    TWELVE,
    W4A8,
    Place,
    fits,
    rows,
    sizes_file,
)
from tests.patchsets.reading import changed, conditions, true_for, unbound

Sliced = Callable[..., Path]
EXTRA = Counter({"err != cuda_driver.CUresult.CUDA_SUCCESS": 1})
"""The one condition that a text replaces: it asks the driver, not the device."""


def _alone(name: str, to: Path) -> str:
    """The patchset without what it requires of FlashInfer, which is not in the folder."""
    text = (REPOSITORY / "patchsets" / f"{name}.yaml").read_text("utf-8")
    assert "requires: [flashinfer-sm120/trtllm-comm]" in text
    to.joinpath(f"{name}.yaml").write_text(
        text.replace("    requires: [flashinfer-sm120/trtllm-comm]\n", ""))
    return str(to / f"{name}.yaml")


def _there_and_back(here: Installed, name: str, places: Sequence[Place],
                    extra: Callable[[Installed, dict[str, bytes]], None] | None = None) -> None:
    """Apply the places' groups; look at every condition; revert."""
    before, first = here.bytes(), [place.read(here.text) for place in places]
    assert first == [set(place.true) for place in places]
    groups = [part for group in dict.fromkeys(p.group for p in places)
              for part in ("--group", group)]
    assert here.run("apply", _alone(name, here.root.parent), *groups) == Exit.DONE
    for place, old in zip(places, first, strict=True):
        assert place.read(here.text) == old ^ place.turns, place
    after = here.bytes()
    assert {path for path in after if after[path] != before[path]} >= {p.path for p in places}
    for path, data in after.items():
        if path.endswith(".py") and data != before[path]:
            compile(data, path, "exec")
            assert not unbound(data.decode())
            gone, come = changed(before[path].decode(), data.decode())
            meant = sum(place.path == path for place in places)
            assert (gone - EXTRA).total() == (come - Counter(
                {"err == cuda_driver.CUresult.CUDA_SUCCESS": 1})).total() == meant, (gone, come)
    if extra is not None:
        extra(here, before)
    assert here.run("revert", name) == Exit.DONE
    assert here.bytes() == before


@pytest.mark.slow
@pytest.mark.wheels
@pytest.mark.parametrize("version", [
    "0.5.2", "0.5.3.post3", "0.5.4", "0.5.4.post3", "0.5.5", "0.5.6.post2", "0.5.7", "0.5.8",
    "0.5.12.post1", "0.5.13", "0.5.13.post1", "0.5.14", "0.5.15", "0.5.18", "0.5.19", "0.5.20",
    "0.5.21", "0.5.22", "0.5.23"])
def test_sglang_at_every_boundary(sliced: Sliced, tmp_path: Path, version: str) -> None:
    here = Installed(tmp_path / "root")
    unpack(sliced("sglang", version), here.root)
    _there_and_back(here, "sglang-sm120", fits(version, SGLANG))


@pytest.mark.wheels
@pytest.mark.parametrize("version", ["0.5.8.post1", "0.5.9"])
def test_sglang_in_the_releases_that_every_change_looks_at(
        unpacked: Callable[[str, str], Path], tmp_path: Path, version: str) -> None:
    """The same on the files alone that are changed and those that say what their names mean."""
    wheel, here = unpacked("sglang", version), Installed(tmp_path / "root")
    places = fits(version, SGLANG)
    paths = {place.path for place in places} | {"sglang/srt/utils/common.py",
                                                "sglang/srt/utils/__init__.py"}
    paths |= {str(path.relative_to(wheel)) for path in wheel.glob("*.dist-info/METADATA")}
    for path in paths:
        (here.root / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(wheel / path, here.root / path)
    _there_and_back(here, "sglang-sm120", places)


def _turns_on(source: str, condition: str) -> int:
    """How many tests of this condition alone lead to the fusion without a further device test."""
    return sum("enable_flashinfer_allreduce_fusion = True" in ast.unparse(node.body[0])
               for node in ast.walk(ast.parse(source))
               if isinstance(node, ast.If) and ast.unparse(node.test) == condition)


@pytest.mark.slow
@pytest.mark.wheels
@pytest.mark.parametrize("version", ["0.5.5", "0.5.5.post3", "0.5.6", "0.5.6.post2", "0.5.7"])
def test_the_default_of_sglang_goes_off_on_12(sliced: Sliced, tmp_path: Path,
                                              version: str) -> None:
    here = Installed(tmp_path / "root")
    unpack(sliced("sglang", version), here.root)
    if version == "0.5.7":
        _there_and_back(here, "sglang-sm120", OFF)
        return
    before = here.bytes()
    assert here.run("apply", "sglang-sm120", "--group", "allreduce-fusion-off") == Exit.DONE
    assert {p for p, data in here.bytes().items() if data != before[p]} == {ARGS}
    gone, come = changed(before[ARGS].decode(), here.text(ARGS))
    (old,), (new,) = (conditions(f"def f(): return {text}") for text in (*gone, *come))
    assert true_for(old) == {"10.0", "10.3", *TWELVE}
    assert true_for(new) == {"10.0", "10.3"}
    assert (gone.total(), come.total()) == (1, 1)
    # the test that turns the fusion on is the one that changed
    assert _turns_on(before[ARGS].decode(), ast.unparse(old)) == 1
    assert _turns_on(here.text(ARGS), ast.unparse(old)) == 0
    assert here.run("revert", "sglang-sm120") == Exit.DONE
    assert here.bytes() == before


@pytest.mark.slow
@pytest.mark.wheels
@pytest.mark.parametrize("version", ["0.12.0", "0.14.1", "0.15.1", "0.16.0", "0.17.0", "0.18.1",
                                     "0.19.0", "0.33.0"])
def test_vllm_at_every_boundary(sliced: Sliced, tmp_path: Path, version: str) -> None:
    here = Installed(tmp_path / "root")
    unpack(sliced("vllm", version), here.root)
    path = sizes_file(version)

    def tables(here: Installed, before: dict[str, bytes]) -> None:
        for name, row in (("FI_ALLREDUCE_FUSION_MAX_SIZE_MB", "{2: 64, 4: 2, 8: 0.5}"),
                          ("_FI_ALLREDUCE_ONE_SHOT_MAX_SIZES_MB", "{2: 32, 4: 2, 8: 0.5}")):
            old = rows(before[path].decode(), name)
            assert not {"120", "121"} & set(old)
            assert rows(here.text(path), name) == old | {"120": row, "121": row}
            # vLLM's own row of 9.0, value for value, in the releases that have one number a size
            if version != "0.12.0":
                assert row == old["90"]
        assert {p for p, data in here.bytes().items() if data != before[p]} == {
            path, *(place.path for place in places)}

    places = fits(version, DEFAULT)
    if places:
        _there_and_back(here, "vllm-sm120", places, tables)
        return
    before = here.bytes()
    alone = _alone("vllm-sm120", tmp_path)
    assert here.run("apply", alone, "--group", "allreduce-sizes") == Exit.DONE
    tables(here, before)
    assert here.run("revert", "vllm-sm120") == Exit.DONE
    assert here.bytes() == before


@pytest.mark.slow
@pytest.mark.wheels
@pytest.mark.parametrize("version", ["0.12.0", "0.14.1", "0.16.0", "0.21.0", "0.22.0", "0.22.1"])
def test_marlin_in_the_sources_of_vllm(sliced: Sliced, tmp_path: Path, version: str) -> None:
    here = Installed(tmp_path / "vllm")
    unpack(sliced("vllm", version, "sources"), here.root)
    _there_and_back(here, "vllm-sm120", fits(version, W4A8))
