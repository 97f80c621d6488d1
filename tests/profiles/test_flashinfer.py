"""FlashInfer's modules and units against what its own build functions said when they ran."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from patcher.cuda.model import TranslationUnit
from patcher.package import Environment, Package, find_environment, find_package
from patcher.profiles import profile_for
from patcher.profiles.base import JitModule
from patcher.profiles.flags import Flags
from patcher.profiles.search import SearchPath
from patcher.toolchain.find import find_toolkit
from patcher.toolchain.model import HostCompiler, Toolkit

Unpacked = Callable[[str, str], Path]
pytestmark = pytest.mark.wheels
COMMANDS = json.loads((Path(__file__).parent / "data" / "commands-0.6.3.json").read_text())
# C++ of the host only, no CUDA source
HOST_ONLY = {"spdlog"}


def toolkit(version: str = "13.0", root: str = "/usr/local/cuda") -> Toolkit:
    """A toolkit as such, so that no test depends on the one installed here."""
    host = HostCompiler(None, "12", ("/gcc/include",), (), True)
    return Toolkit(version, Path(root), None, (f"{root}/include",), (f"{root}/include/cccl",),
                   host, "x86_64", False, "test")


def package(unpacked: Unpacked, version: str) -> Package:
    """The wheel beside tvm-ffi, in an environment that has a Python include folder."""
    neighbour = unpacked("apache-tvm-ffi", "0.1.15.post2")
    environment = Environment(None, (neighbour,), None, "test", include=Path("/python/include"))
    return find_package(str(unpacked("flashinfer-python", version)), environment)


@pytest.fixture(scope="module")
def wheel(unpacked: Unpacked) -> Package:
    return package(unpacked, "0.6.3")


@pytest.fixture(scope="module")
def modules(wheel: Package) -> dict[str, JitModule]:
    return {m.name: m for m in profile_for(wheel).modules(wheel, toolkit())}


@pytest.fixture(scope="module")
def units(wheel: Package) -> list[TranslationUnit]:
    return profile_for(wheel).translation_units(wheel, toolkit())


def test_every_generator_that_ran_is_found(modules: dict[str, JitModule]) -> None:
    assert set(COMMANDS["modules"]) <= set(modules)


@pytest.mark.parametrize("name", sorted(COMMANDS["modules"]))
def test_a_module_is_what_its_own_build_said(
        name: str, modules: dict[str, JitModule], units: list[TranslationUnit]) -> None:
    real, module = COMMANDS["modules"][name], modules[name]
    csrc = "flashinfer/data/csrc/"
    expected = {*real.get("sources", ()), *(csrc + file for file in real.get("copied", ()))}
    assert {s for s in module.sources if not s.startswith("@")} == expected
    rendered = [t for t in module.templates if t.source.endswith(".jinja")]
    assert sum(t.stands_for for t in rendered) == (
        0 if name.startswith("fused_moe_") else real.get("rendered", 0))
    assert not module.guessed
    if name not in HOST_ONLY:
        _same_configuration(real, [u for u in units if name in u.modules])


def _same_configuration(real: dict[str, Any], units: list[TranslationUnit]) -> None:
    assert units
    for unit in units:
        configuration = unit.configuration
        defines = dict(configuration.defines)
        for name, value in {**COMMANDS["define"], **real.get("define", {})}.items():
            assert defines.pop(name) == value
        assert not [n for n in defines if not n.startswith("__")], "no define of its own"
        assert configuration.std == real.get("std", "c++17")
        own = ["@generated" if f.startswith("@") else f for f in configuration.include]
        assert own == [f for f in real.get("include", ()) if f not in _system_of(configuration)]
        assert not configuration.guessed


def _system_of(configuration: Any) -> tuple[str, ...]:
    """gcc ignores an -I folder that is also an -isystem folder."""
    return tuple(configuration.system)


def test_system_folders_keep_their_order(wheel: Package, units: list[TranslationUnit]) -> None:
    names = {"/python/include": "@python", "/usr/local/cuda/include": "@cuda/include",
             "/usr/local/cuda/include/cccl": "@cuda/include/cccl"}
    expected = list(dict.fromkeys(COMMANDS["system"]))
    for unit in units:
        system = unit.configuration.system
        told = ["@tvm" if f.endswith("tvm_ffi/include") else names.get(f, f) for f in system]
        assert told == [*expected, "/gcc/include"]


def test_fixed_targets_and_gates_give_the_targets_that_were_built(
        modules: dict[str, JitModule]) -> None:
    """The run listed 9.0a 10.0a 10.3a 11.0a 12.0a; a gate lets through its majors."""
    listed = {"sm_90a": 9, "sm_100a": 10, "sm_103a": 10, "sm_110a": 11, "sm_120a": 12}
    for name, real in COMMANDS["modules"].items():
        module = modules[name]
        if name in HOST_ONLY or not real.get("targets"):
            continue
        let = {t for t, major in listed.items()
               if all(major in (g.majors or ()) for g in module.gates)}
        assert set(real["targets"]) == (set(module.targets) or let), name


def test_every_cuda_file_is_in_a_unit(wheel: Package, units: list[TranslationUnit]) -> None:
    """0.6.3 ships 152 of them; those that no module names have guessed flags."""
    shipped = {str(p.relative_to(wheel.root)) for p in wheel.root.rglob("*.cu")
               if "data/csrc/" in str(p)}
    assert len(shipped) == 152
    assert shipped <= {u.path for u in units}
    assert all(u.configuration.guessed for u in units if not u.modules)
    for unit in units:
        assert unit.content is not None or unit.path in shipped


def test_trtllm_comm_has_one_gate_and_three_sources(modules: dict[str, JitModule]) -> None:
    """flashinfer PR 3903 (case C1)."""
    module = modules["trtllm_comm"]
    assert [s.rpartition("/")[2] for s in module.sources] == [
        "trtllm_allreduce.cu", "trtllm_allreduce_fusion.cu", "trtllm_moe_allreduce_fusion.cu"]
    (gate,) = module.gates
    assert (gate.site.path, gate.site.function) == ("flashinfer/jit/comm.py",
                                                    "gen_trtllm_comm_module")
    assert (gate.expression, gate.majors) == ("[9, 10]", (9, 10))


def test_names_that_depend_on_arguments_match_what_they_become(
        modules: dict[str, JitModule]) -> None:
    """The name is one a cache really holds (facts of the JIT cache's layout)."""
    built = ("batch_decode_with_kv_cache_dtype_q_bf16_dtype_kv_bf16_dtype_o_bf16_dtype_idx_i32_"
             "head_dim_qk_128_head_dim_vo_128_posenc_0_use_swa_False_use_logits_cap_False")
    matching = [m.name for m in modules.values() if m.uri and re.fullmatch(m.uri, built)]
    assert len(matching) == 1
    assert matching[0].startswith("batch_decode_with_kv_cache_dtype_q_*")


def test_moe_units_include_the_launchers_that_are_generated(
        modules: dict[str, JitModule], wheel: Package) -> None:
    """The launchers are those of the files the generator wrote when it ran, per directory."""
    launchers = {
        "fused_moe_120": {"fpA_intB_launcher_sm90", "moe_gemm_tma_ws_launcher",
                          "fused_moe_gemm_launcher_sm80"},
        "fused_moe_89": {"fpA_intB_launcher_sm90", "fused_moe_gemm_launcher_sm80"},
        "fused_moe_90": {"fpA_intB_launcher_sm90", "moe_gemm_tma_ws_launcher",
                         "moe_gemm_tma_ws_mixed_input_launcher", "fused_moe_gemm_launcher_sm80"},
    }
    for name, expected in launchers.items():
        found = b"".join(t.content for t in modules[name].templates).decode()
        assert set(re.findall(r"launchers/(\w+)\.inl", found)) == expected
        for path in re.findall(r'#include "([^"]+)"', found):
            assert wheel.tree.read(f"flashinfer/data/csrc/nv_internal/{path}")


@pytest.mark.parametrize("version", [
    "0.6.3", *(pytest.param(v, marks=pytest.mark.slow) for v in ("0.6.7", "0.7.4"))])
def test_the_sm120_moe_unit_has_an_instance_that_its_launcher_can_make(
        version: str, unpacked: Unpacked) -> None:
    """As many arguments as the macro of that release has parameters, in the generator's order."""
    found = package(unpacked, version)
    (unit,) = (t for m in profile_for(found).modules(found, toolkit()) if m.name == "fused_moe_120"
               for t in m.templates if "grouped_sm120" in t.path)
    macro = "INSTANTIATE_TMA_WARP_SPECIALIZED_MOE_GEMM"
    used = re.search(rf"{macro}\((.*?)\);", unit.content.decode(), re.S)
    (path,) = re.findall(r'#include "([^"]+)"', unit.content.decode())
    launcher = found.tree.read(f"flashinfer/data/csrc/nv_internal/{path}").decode()
    made = re.search(rf"#define {macro}\((.*?)\)", launcher, re.S)
    assert used
    assert made
    parameters = [word.strip() for word in made[1].replace("\\", "").split(",")]
    arguments = dict(zip(parameters, [w.strip() for w in used[1].split(",")], strict=True))
    assert arguments["ArchTag_"] == "Sm120"
    assert f"using {arguments['DataType_']} =" in launcher


def test_generated_headers_are_in_the_units_tree(wheel: Package,
                                                 modules: dict[str, JitModule]) -> None:
    tree = profile_for(wheel).tree(wheel, toolkit())
    module = next(m for m in modules.values() if m.name.startswith("batch_mla_attention"))
    (header,) = module.headers
    assert header.path == f"@generated/{module.name}/batch_mla_config.inc" or header.path.endswith(
        "batch_mla_sm90_config.inc")
    assert b"#include" in tree.read(header.path)
    assert module.include[0] == f"@generated/{module.name}"


def test_no_two_generated_files_share_a_path(modules: dict[str, JitModule],
                                             wheel: Package) -> None:
    """The fp8 and the other fa3 prefill kernels have one name pattern and two templates."""
    found: dict[str, set[bytes]] = {}
    for module in profile_for(wheel).modules(wheel, toolkit()):
        for file in (*module.headers, *module.templates):
            found.setdefault(file.path, set()).add(file.content)
    assert not [path for path, contents in found.items() if len(contents) > 1]
    assert any("~2/" in path for path in found)


@pytest.mark.parametrize(("version", "expected"), [
    ("0.6.6", set()), ("0.6.7", {"fp4_gemm_cutlass_sm120"}),
    ("0.6.8", {"fp4_gemm_cutlass_sm120", "fused_moe_120"}),
])
def test_the_pdl_flag_by_version(unpacked: Unpacked, version: str, expected: set[str]) -> None:
    """flashinfer PR 2780 added it to the GEMM modules in 0.6.7, PR 2913 to MoE in 0.6.8 (C3)."""
    found = package(unpacked, version)
    flag = "-DCUTLASS_ENABLE_GDC_FOR_SM100"
    have = {m.name for m in profile_for(found).modules(found, toolkit())
            if any(f.startswith(flag) for f in m.flags)}
    assert have & {"fp4_gemm_cutlass_sm120", "fused_moe_120"} == expected


@pytest.mark.parametrize(("version", "cccl"), [("0.5.3", "system"), ("0.6.6", "system"),
                                               ("0.7.4", "include")])
@pytest.mark.slow
def test_where_cccl_comes_from(unpacked: Unpacked, version: str, cccl: str) -> None:
    """Up to 0.6.9 the toolkit's, with -isystem; from 0.6.10 its own, with -I, before all else."""
    found = package(unpacked, version)
    unit = next(u for u in profile_for(found).translation_units(found, toolkit())
                if u.path.endswith("/page.cu"))
    own = [f for f in unit.configuration.include if "data/cccl/" in f]
    if cccl == "include":
        assert [f.rpartition("data/cccl/")[2] for f in own] == [
            "cub", "libcudacxx/include", "thrust"]
        assert unit.configuration.system[1:3] == (
            "/usr/local/cuda/include", unit.configuration.system[2])
        assert "cccl" not in unit.configuration.system[2]
    else:
        assert not own
        assert unit.configuration.system[2] == "/usr/local/cuda/include/cccl"


def test_macros_with_unknown_values_stay_open(units: list[TranslationUnit]) -> None:
    found = [u for u in units if u.path.endswith("xqa/mha.cu")]
    assert {dict(u.configuration.defines)["CACHE_ELEM_ENUM"] for u in found} == {"0", "1", "2"}
    for unit in found:
        assert unit.configuration.open_macros == {"HEAD_ELEMS", "HEAD_GRP_SIZE", "TOKENS_PER_PAGE"}
        assert unit.configuration.guessed


@pytest.mark.nvcc
def test_the_search_path_is_the_one_nvccs_gcc_reports(nvcc: Path, tmp_path: Path) -> None:
    """-I that is also -isystem is ignored, the toolkit's -I comes before every -isystem."""
    found = find_toolkit(str(nvcc))
    first, second, both = (tmp_path / n for n in ("first", "second", "both"))
    for folder in (first, second, both):
        folder.mkdir()
    (tmp_path / "k.cu").write_text("")
    flags = Flags(include=[str(both), str(first)],
                  system=[str(second), str(both), f"{found.path}/include"])
    arguments = [*(f"-I{f}" for f in flags.include), *(x for f in flags.system
                                                      for x in ("-isystem", f))]
    talk = subprocess.run([nvcc, "-E", "-Xcompiler", "-v", "-arch=sm_90a", *arguments,
                           tmp_path / "k.cu"], check=True, capture_output=True, text=True).stderr
    listed = talk.partition("#include <...> search starts here:")[2].partition("End of search")[0]
    expected = [str(Path(line.strip()).resolve()) for line in listed.splitlines() if line.strip()]
    configuration = SearchPath(found).configuration("x", flags, guessed=False)
    told = [str(Path(f).resolve()) for f in (*configuration.include, *configuration.system)]
    assert list(dict.fromkeys(told)) == list(dict.fromkeys(expected))


def test_without_a_toolkit_everything_but_its_headers_is_there(wheel: Package) -> None:
    missing = replace(toolkit(), path=None, include=(), system=(), assumed=True)
    units = profile_for(wheel).translation_units(wheel, missing)
    assert len({u.path for u in units if not u.path.startswith("@")}) == 152
    assert all("@missing" not in f for u in units for f in u.configuration.system)


def test_metadata_only_labels(unpacked: Unpacked) -> None:
    """0.6.3 whose metadata says 0.7.4 has 0.6.3's gates (case C2)."""
    folder = unpacked("flashinfer-python", "0.6.3")
    lying = find_package(str(folder), find_environment(root=str(folder)), assume_version="0.7.4")
    module = next(m for m in profile_for(lying).modules(lying, toolkit())
                  if m.name == "trtllm_comm")
    assert module.gates[0].majors == (9, 10)
