"""Packages that CMake builds: sources, rules and devices, against what the build files say."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from patcher.arch import Capability, target
from patcher.cuda.model import TranslationUnit
from patcher.gates import Gate, Layer
from patcher.package import Environment, find_package
from patcher.package.model import Package
from patcher.profiles import profile_for
from patcher.profiles.known import Known
from patcher.profiles.native import CMakeBuild
from patcher.scan.model import Options
from patcher.scan.run import scan
from tests.profiles.test_targets import cuda

MINI = Path(__file__).parents[1] / "cmake" / "mini"


def _package(folder: Path) -> Package:
    return find_package(str(folder), Environment(None, (), None, "test"))


def _mini(tmp_path: Path) -> tuple[CMakeBuild, Package]:
    """The mini project as a source tree with a Python package in it."""
    folder = tmp_path / "mini"
    shutil.copytree(MINI, folder)
    (folder / "mini").mkdir()
    (folder / "mini" / "__init__.py").touch()
    (folder / "csrc" / "left.cu").touch()
    (folder / "pyproject.toml").write_text('[project]\nname = "mini"\nversion = "1"\n')
    return CMakeBuild(Known("mini", ("mini",), "cmake", (), "")), _package(folder)


def _lists(profile: CMakeBuild, package: Package, version: str) -> dict[str, Gate]:
    """The gates of lists of architectures, by module."""
    return {gate.modules[0]: gate for gate in profile.build_gates(package, cuda(version))
            if gate.modules}


def test_each_list_of_architectures_is_a_gate_with_its_place(tmp_path: Path) -> None:
    """Reasoned from the mini project's CMakeLists.txt and its archs_met."""
    profile, package = _mini(tmp_path)
    lines = (MINI / "CMakeLists.txt").read_text().splitlines()
    gates = _lists(profile, package, "13.0")
    new, old = gates["_C/SM120_SRC"], gates["_C/SM90_SRC"]
    assert new.condition == 'archs_met(SCALED_ARCHS "12.0f" "${CUDA_ARCHS}")'
    assert lines[new.location.line - 1].strip() == new.condition
    assert new.worlds.open.capabilities == [Capability(12, 0), Capability(12, 1)]
    assert old.worlds.open.capabilities == [Capability(9, 0)]
    assert new.units == ("csrc/sm120/blockwise.cu", "csrc/sm120/fp8.cu")
    # the list for CUDA 12.8 says 12.0a, and that code runs on 12.0 alone
    before = _lists(profile, package, "12.8")
    assert before["_C/SM120_SRC"].worlds.open.capabilities == [Capability(12, 0)]


def test_units_have_the_macros_that_the_build_sets(tmp_path: Path) -> None:
    profile, package = _mini(tmp_path)
    units = {u.path: u for u in profile.translation_units(package, cuda("13.0"))}
    flags = dict(units["csrc/entry.cu"].configuration.defines)
    assert {"ENABLE_SCALED_SM90", "ENABLE_SCALED_SM120", "ENABLE_MLA", "STABLE"} <= set(flags)
    assert not units["csrc/entry.cu"].configuration.guessed
    assert dict(units["csrc/sm120/fp8.cu"].configuration.defines)["WIDE"] == "1"
    assert units["csrc/left.cu"].configuration.guessed  # no target names it
    assert units["csrc/mla.cu"].modules == ("_C/mla",)


def test_macros_differ_by_the_device_that_is_built_for(tmp_path: Path) -> None:
    profile, package = _mini(tmp_path)
    macros = profile.macros_for(package, cuda("13.0"))
    assert macros[Capability(12, 0)] == {"ENABLE_SCALED_SM120", "ENABLE_MLA"}
    assert macros[Capability(9, 0)] == {"ENABLE_SCALED_SM90"}
    assert macros[Capability(8, 0)] == set()


def test_a_scan_reports_what_is_not_built_for_the_target(tmp_path: Path) -> None:
    profile, package = _mini(tmp_path)
    references = [target("sm_90a"), target("sm_100a")]
    report = scan(package, profile, [target("sm_120a")], references, cuda("13.0"), Options())
    closed = {module.name for module in report.modules if module.closed}
    assert closed == {"_C/SM90_SRC", "_C/mla"}
    assert all(gate.layer is Layer.BUILD for gate in report.findings)
    assert any("fetched when it is built" in note for note in report.notes)


def test_a_wheel_has_no_build_to_read(tmp_path: Path) -> None:
    (tmp_path / "vllm").mkdir()
    (tmp_path / "vllm" / "__init__.py").touch()
    package = find_package("vllm", Environment(None, (tmp_path,), None, "test", root=tmp_path))
    profile = profile_for(package)
    assert isinstance(profile, CMakeBuild)
    assert profile.build_gates(package, cuda("13.0")) == []
    assert any("need a source build" in said for said in profile.about(package))


@pytest.mark.slow
def test_vllm_builds_for_12_what_its_released_wheel_holds(
        source_tree: Callable[[str, str], Path]) -> None:
    """The wheel of 0.33.0 (cuobjdump --list-elf): _qutlass_C has 6 entries for sm_100 and none for
    12.x; _flashmla_C has sm_90a and sm_100; _C_stable_libtorch has sm_120."""
    package = _package(source_tree("vllm", "0.33.0"))
    profile = profile_for(package)
    assert isinstance(profile, CMakeBuild)
    before = time.process_time()
    profile.modules(package, cuda("13.0"))
    assert time.process_time() - before < 2  # 0.6 s on this project's machine
    gates = _lists(profile, package, "13.0")
    asked = target("sm_120a")
    for name, served in (("_C_stable_libtorch/SCALED_MM_SM120_SRCS", True),
                         ("_C_stable_libtorch/SCALED_MM_SM100_SRCS", False),
                         ("_flashmla_C/FlashMLA_SOURCES", False)):
        assert (asked in gates[name].worlds.open) is served
    assert any("_qutlass_C" in said and "12.0 only alone" in said
               for said in profile.about(package))
    units: list[TranslationUnit] = profile.translation_units(package, cuda("13.0"))
    own = next(u for u in units if u.path.endswith("scaled_mm_c3x_sm120.cu"))
    assert ("ENABLE_SCALED_MM_SM120", "1") in own.configuration.defines


def test_a_library_with_fixed_architectures_leaves_out_the_rest(tmp_path: Path) -> None:
    """As sglang-kernel has it: codes by CUDA release and machine, one library for all sources.

    sm_120a runs on 12.0 alone and sm_90 code on 9.x alone (CUDA guide, binary compatibility).
    """
    (tmp_path / "CMakeLists.txt").write_text(
        "project(fixed LANGUAGES CXX CUDA)\nset(FLAGS -O3 -gencode=arch=compute_90,code=sm_90)\n"
        'if ("${CUDA_VERSION}" VERSION_GREATER_EQUAL "12.8")\n  list(APPEND FLAGS\n'
        '    "-gencode=arch=compute_120a,code=sm_120a")\n'
        '  if (CMAKE_SYSTEM_PROCESSOR STREQUAL "aarch64")\n'
        '    list(APPEND FLAGS "-gencode=arch=compute_121a,code=sm_121a")\n  endif()\nendif()\n'
        "Python_add_library(ops MODULE USE_SABI 3.10 a.cu b.cc)\n"
        "target_compile_options(ops PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:${FLAGS} -use_fast_math>)\n")
    (tmp_path / "fixed").mkdir()
    for name in ("a.cu", "b.cc", "fixed/__init__.py"):
        (tmp_path / name).touch()
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "fixed"\nversion = "1"\n')
    profile = CMakeBuild(Known("fixed", ("fixed",), "cmake", (), ""))
    (gate,) = profile.build_gates(_package(tmp_path), cuda("13.0"))
    assert gate.worlds.open.capabilities == [Capability(9, 0), Capability(12, 0)]
    assert gate.condition.startswith("list(APPEND FLAGS")
    assert "sm_120a" in gate.condition
    assert (gate.location.line, gate.units) == (4, ("a.cu",))
    spark = replace(cuda("13.0"), platform="aarch64")
    (gate,) = profile.build_gates(_package(tmp_path), spark)
    assert Capability(12, 1) in gate.worlds.open.capabilities


def test_a_macro_that_is_set_although_its_unit_is_not_built_is_a_gate(tmp_path: Path) -> None:
    """The mini project sets ENABLE_MLA for 10.x and 12.x and builds mla.cu for 10.x alone; on 12.x
    entry.cu calls a mla() that no object defines. scaled() is called under either of two macros,
    which says nothing about one of them."""
    profile, package = _mini(tmp_path)
    (gate,) = (g for g in profile.build_gates(package, cuda("13.0"))
               if g.rule == "MACRO-WITHOUT-UNIT")
    assert (gate.location.path, gate.condition, gate.names) == (
        "csrc/entry.cu", "ENABLE_MLA", ("mla",))
    assert gate.worlds.closed.capabilities == [Capability(12, 0), Capability(12, 1)]
    assert "csrc/mla.cu" in gate.evidence[0].text


@pytest.mark.parametrize(("condition", "found"), [
    ("#if defined ENABLE_MLA && ENABLE_MLA", True),  # as vLLM writes it
    ("#if (defined(ENABLE_MLA) && ENABLE_MLA == 1)", True),
    ("#if !defined(ENABLE_MLA)", False), ("#if ENABLE_MLA && ENABLE_SCALED_SM90", False),
])
def test_how_a_macro_is_tested_for_a_unit(tmp_path: Path, condition: str, found: bool) -> None:
    profile, package = _mini(tmp_path)
    entry = package.root / "csrc" / "entry.cu"
    entry.write_text(entry.read_text().replace("#ifdef ENABLE_MLA", condition))
    rules = [g.rule for g in profile.build_gates(package, cuda("13.0"))]
    assert ("MACRO-WITHOUT-UNIT" in rules) is found


def test_a_unit_that_is_compiled_for_a_neighbour_has_its_symbols(tmp_path: Path) -> None:
    """With CUDA 12.8 a build for 12.1 compiles these sources as sm_120a: nothing of it runs
    there, which the list's own gate says, but no symbol is missing."""
    profile, package = _mini(tmp_path)
    with (package.root / "csrc" / "sm120" / "fp8.cu").open("a") as unit:
        unit.write("void narrow() {\n}\n")
    with (package.root / "csrc" / "entry.cu").open("a") as entry:
        entry.write("#ifdef ENABLE_SCALED_SM120\nvoid narrow();\n#endif\n")
    gates = list(profile.build_gates(package, cuda("12.8")))
    assert [g.names for g in gates if g.rule == "MACRO-WITHOUT-UNIT"] == [("mla",)]
    (lists,) = (g for g in gates if g.modules == ("_C/SM120_SRC",))
    assert Capability(12, 1) in lists.worlds.closed.capabilities


@pytest.mark.slow
@pytest.mark.wheels
def test_vllm_0_11_1_misses_a_symbol_on_12_0(source_tree: Callable[[str, str], Path]) -> None:
    """vllm issue 29030: with CUDA 13.0 its list for FP4 has 12.0f and sets a macro of SM100;
    ``_C.abi3.so: undefined symbol: _Z20cutlass_moe_mm_sm100...``. 28938 took 12.0f out."""
    root = source_tree("vllm", "0.11.1")
    profile = CMakeBuild(Known("vllm", ("vllm",), "cmake", (), ""))
    (gate,) = (g for g in profile.build_gates(_package(root), cuda("13.0"))
               if g.rule == "MACRO-WITHOUT-UNIT")
    assert (gate.condition, gate.names) == ("ENABLE_CUTLASS_MOE_SM100", ("cutlass_moe_mm_sm100",))
    assert gate.worlds.closed.capabilities == [Capability(12, 0), Capability(12, 1)]
    assert gate.location.path == "csrc/quantization/w8a8/cutlass/scaled_mm_entry.cu"


def test_a_macro_that_nothing_sets_is_said(tmp_path: Path) -> None:
    profile, package = _mini(tmp_path)
    profile.build_gates(package, cuda("13.0"))
    (said,) = (s for s in profile.about(package) if s.startswith("tested in its sources"))
    assert "ENABLE_NEVER_SET (csrc/entry.cu:7)" in said
    assert "ENABLE_MLA" not in said


def test_a_project_below_the_repository_with_a_list_of_devices_of_its_own(tmp_path: Path) -> None:
    """As Transformer Engine has it: the build file two folders down reads a header beside it, and
    sources with features of one architecture are built for 120f, with CUDA 12.8 for 120a, which
    does not run on 12.1."""
    home = tmp_path / "engine" / "common"
    home.mkdir(parents=True)
    (home / "CMakeLists.txt").write_text(
        "project(engine LANGUAGES CUDA CXX)\n"
        'file(READ "${UNKNOWN_INCLUDE_DIR}/version.h" text)\n'
        "include_directories(${PROJECT_SOURCE_DIR}/..)\n"
        "set(codes)\nforeach(arch IN LISTS CMAKE_CUDA_ARCHITECTURES)\n"
        '  if (arch MATCHES "^12[01]$" AND CUDAToolkit_VERSION VERSION_GREATER_EQUAL 12.9)\n'
        "    list(APPEND codes --generate-code=arch=compute_120f,code=sm_120f)\n"
        '  elseif (arch MATCHES "^12[01]$")\n'
        "    list(APPEND codes --generate-code=arch=compute_120a,code=sm_120a)\n  endif()\n"
        "endforeach()\n"
        "set_property(SOURCE cast/cast.cu APPEND PROPERTY COMPILE_OPTIONS ${codes})\n"
        "add_library(engine SHARED cast/cast.cu)\n")
    (home / "cast").mkdir()
    (home / "cast" / "cast.cu").write_text('#include "common/common.h"\n')
    (home / "common.h").touch()
    (home.parent / "__init__.py").touch()
    (tmp_path / "setup.py").write_text('setup(\n  name="engine",\n  version=__version__,\n)\n')
    package = _package(tmp_path)
    assert package.version is None
    row = Known("engine", ("engine",), "cmake", (), "", "engine/common", "CMAKE_CUDA_ARCHITECTURES")
    for version, served in (("12.8", [Capability(12, 0)]),
                            ("13.0", [Capability(12, 0), Capability(12, 1)])):
        profile = CMakeBuild(row)
        (gate,) = profile.build_gates(package, cuda(version))
        assert gate.worlds.open.capabilities == served
        (unit,) = profile.translation_units(package, cuda(version))
        assert unit.path == "engine/common/cast/cast.cu"
        assert "engine" in unit.configuration.include
