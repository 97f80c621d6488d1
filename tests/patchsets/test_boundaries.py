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
from dataclasses import dataclass
from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet

from patcher.errors import Exit
from tests.conftest import REPOSITORY
from tests.patchsets.installed import Installed, unpack
from tests.patchsets.reading import DEVICES, changed, conditions, in_c, true_for, unbound

Sliced = Callable[..., Path]
EVERY = {f"{major}.{minor}" for major, minor in DEVICES}
TWELVE, SPARK = {"12.0", "12.1"}, {"12.1"}
LAYERS = "sglang/srt/layers"
COMM = f"{LAYERS}/communicator.py"
NORM = f"{LAYERS}/layer_boundary/residual/add_norm.py"
FUSION = f"{LAYERS}/flashinfer_comm_fusion.py"
ARGS = "sglang/srt/server_args.py"
OVERRIDES = "sglang/srt/arg_groups/overrides.py"
DEEPGEMM = f"{LAYERS}/deep_gemm_wrapper/configurer.py"
QUANT = f"{LAYERS}/quantization/deep_gemm_wrapper/configurer.py"
MARLIN = "vllm/model_executor/layers/quantization/utils/marlin_utils.py"


@dataclass(frozen=True)
class Place:
    """A condition of some releases: for whom it is true, and for whom it changes."""

    group: str
    versions: str
    path: str
    function: str
    mention: tuple[str, ...]
    true: frozenset[str]
    turns: frozenset[str]

    def read(self, here: Installed) -> set[str]:
        source = here.text(self.path)
        found = in_c(source, self.mention[0]) if self.path.endswith(".cu") \
            else conditions(source, self.function, *self.mention)
        (one,) = {ast.unparse(each): each for each in found}.values()
        return true_for(one)


def _place(group: str, versions: str, path: str, where: str, true: str,
           turns: set[str] = TWELVE) -> Place:
    """``where`` is a function, then words of the condition; a ``not`` in ``true`` complements."""
    function, *mention = where.split(" | ")
    devices = set(true.removeprefix("not ").split())
    return Place(group, versions, path, function, tuple(mention), frozenset(
        EVERY - devices if true.startswith("not") else devices), frozenset(turns))


OLD = "9.0 10.0 10.3"  # majors 9 and 10
RUN = "_is_sm90_supported | _is_sm100_supported"
AUTO = "nnodes == 1 | sm90"
SGLANG = [
    _place("allreduce-fusion", "<0.5.8", COMM, f"_gather_hidden_states_and_residual | {RUN}", OLD),
    _place("allreduce-fusion", ">=0.5.8,<0.5.21", COMM,
           f"apply_flashinfer_allreduce_fusion | {RUN}", OLD),
    _place("allreduce-fusion", ">=0.5.21", NORM, f" | {RUN}", OLD),
    _place("allreduce-fusion", ">=0.5.14", FUSION, "_resolve_backend | sm90 | sm100", f"not {OLD}"),
    _place("allreduce-fusion-auto", ">=0.5.8,<0.5.15", ARGS,
           f"_handle_model_specific_adjustments | {AUTO} | enable_dp_attention", OLD),
    _place("allreduce-fusion-auto", ">=0.5.15", OVERRIDES,
           f"_flashinfer_allreduce_fusion_auto_enable | {AUTO}", OLD),
    _place("symm-mem", ">=0.5.5,<0.5.14",
           "sglang/srt/distributed/device_communicators/torch_symm_mem.py",
           "__init__ | device_capability < 9", "8.0 8.9"),
    _place("deepgemm", "<0.5.4", QUANT, "_compute_enable_deep_gemm | sm_version < 90", "8.0 8.9"),
    _place("deepgemm", ">=0.5.4,<0.5.13", DEEPGEMM, "_compute_enable_deep_gemm | sm_version < 90",
           "8.0 8.9"),
    _place("deepgemm", ">=0.5.13,<0.5.21", DEEPGEMM, "_compute_enable_deep_gemm | 120", "12.0",
           SPARK),
    _place("pdmux", ">=0.5.5", "sglang/srt/multiplex/pdmux_context.py",
           "get_arch_constraints | major == 9", "9.0"),
]
EXTRA = Counter({"err != cuda_driver.CUresult.CUDA_SUCCESS": 1})
"""The one condition that a text replaces: it asks the driver, not the device."""


def _fits(version: str, places: Sequence[Place]) -> list[Place]:
    return [p for p in places if SpecifierSet(p.versions).contains(version)]


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
    before, first = here.bytes(), [place.read(here) for place in places]
    assert first == [set(place.true) for place in places]
    groups = [part for group in dict.fromkeys(p.group for p in places)
              for part in ("--group", group)]
    assert here.run("apply", _alone(name, here.root.parent), *groups) == Exit.DONE
    for place, old in zip(places, first, strict=True):
        assert place.read(here) == old ^ place.turns, place
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
    _there_and_back(here, "sglang-sm120", _fits(version, SGLANG))


@pytest.mark.wheels
@pytest.mark.parametrize("version", ["0.5.8.post1", "0.5.9"])
def test_sglang_in_the_releases_that_every_change_looks_at(
        unpacked: Callable[[str, str], Path], tmp_path: Path, version: str) -> None:
    """The same on the files alone that are changed and those that say what their names mean."""
    wheel, here = unpacked("sglang", version), Installed(tmp_path / "root")
    places = _fits(version, SGLANG)
    paths = {place.path for place in places} | {"sglang/srt/utils/common.py",
                                                "sglang/srt/utils/__init__.py"}
    paths |= {str(path.relative_to(wheel)) for path in wheel.glob("*.dist-info/METADATA")}
    for path in paths:
        (here.root / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(wheel / path, here.root / path)
    _there_and_back(here, "sglang-sm120", places)


OFF = [_place("allreduce-fusion-off", "==0.5.7", ARGS,
              f"_handle_model_specific_adjustments | {AUTO}", f"{OLD} 12.0 12.1")]


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


def _rows(source: str, name: str) -> dict[str, str]:
    """The rows of a table of the file, as they are written."""
    (table,) = (node.value for node in ast.parse(source).body
                if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.Dict)
                and name in ast.unparse(node).split("=")[0].split(":")[0].split())
    return {ast.unparse(key): ast.unparse(value)
            for key, value in zip(table.keys, table.values, strict=True) if key is not None}


DEFAULT = [
    _place("allreduce-default", ">=0.17.0,<0.19.0", "vllm/config/vllm.py",
           "enable_allreduce_rms_fusion | is_device_capability(90)", "9.0 10.0"),
    _place("allreduce-default", ">=0.19.0", "vllm/config/vllm.py",
           "enable_allreduce_rms_fusion | is_device_capability(90)", OLD),
]


@pytest.mark.slow
@pytest.mark.wheels
@pytest.mark.parametrize("version", ["0.12.0", "0.14.1", "0.15.1", "0.16.0", "0.17.0", "0.18.1",
                                     "0.19.0", "0.33.0"])
def test_vllm_at_every_boundary(sliced: Sliced, tmp_path: Path, version: str) -> None:
    here = Installed(tmp_path / "root")
    unpack(sliced("vllm", version), here.root)
    path = "vllm/compilation/passes/fusion/allreduce_rms_fusion.py" \
        if SpecifierSet(">=0.16").contains(version) else "vllm/compilation/collective_fusion.py"
    sizes = _place("allreduce-sizes", "", path, "", "")

    def tables(here: Installed, before: dict[str, bytes]) -> None:
        for name, row in (("FI_ALLREDUCE_FUSION_MAX_SIZE_MB", "{2: 64, 4: 2, 8: 0.5}"),
                          ("_FI_ALLREDUCE_ONE_SHOT_MAX_SIZES_MB", "{2: 32, 4: 2, 8: 0.5}")):
            old = _rows(before[path].decode(), name)
            assert not {"120", "121"} & set(old)
            assert _rows(here.text(path), name) == old | {"120": row, "121": row}
            # vLLM's own row of 9.0, value for value, in the releases that have one number a size
            if version != "0.12.0":
                assert row == old["90"]
        assert {p for p, data in here.bytes().items() if data != before[p]} == {
            path, *(place.path for place in places)}

    places = _fits(version, DEFAULT)
    if places:
        _there_and_back(here, "vllm-sm120", places, tables)
        return
    before = here.bytes()
    assert here.run("apply", _alone("vllm-sm120", tmp_path), "--group", sizes.group) == Exit.DONE
    tables(here, before)
    assert here.run("revert", "vllm-sm120") == Exit.DONE
    assert here.bytes() == before


HOST = " | major_capability * 10 + minor_capability == 120"
W4A8 = [
    _place("marlin-w4a8", "<0.22", MARLIN, "get_marlin_input_dtype | is_device_capability(89)",
           "not 8.9 12.0", SPARK),
    *(_place("marlin-w4a8", versions, f"csrc/{folder}/generate_kernels.py", " | arch | 89",
             "8.9 12.0", SPARK)
      for versions, folder in (("<0.15", "quantization/gptq_marlin"),
                               (">=0.15,<0.22", "quantization/marlin"),
                               ("<0.22", "moe/marlin_moe_wna16"))),
    *(_place("marlin-w4a8", versions, f"csrc/{file}", HOST, "8.9 12.0", SPARK)
      for versions, file in (("<0.15", "quantization/gptq_marlin/gptq_marlin.cu"),
                             (">=0.15", "quantization/marlin/marlin.cu"),
                             ("<0.22", "moe/marlin_moe_wna16/ops.cu"))),
]


@pytest.mark.slow
@pytest.mark.wheels
@pytest.mark.parametrize("version", ["0.12.0", "0.14.1", "0.16.0", "0.21.0", "0.22.0", "0.22.1"])
def test_marlin_in_the_sources_of_vllm(sliced: Sliced, tmp_path: Path, version: str) -> None:
    here = Installed(tmp_path / "vllm")
    unpack(sliced("vllm", version, "sources"), here.root)
    _there_and_back(here, "vllm-sm120", _fits(version, W4A8))
