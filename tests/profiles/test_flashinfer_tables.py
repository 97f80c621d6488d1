"""Modules whose build function looks its sources and flags up in a table: 0.7.4 has thousands.

What is expected is read here, from the same tables, by the rules that the
generators state in their own text: ``jit/cake_program.py`` compiles a program
once per target with that target's flags, ``--fmad=false``, its options and
without fast math, from ``csrc/OPERATOR``; ``jit/blackwell_bf16_fp4.py`` once
per architecture of a record; ``fused_moe/cake`` every module of its manifest
for sm_103a.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from patcher.package import Environment, Package, find_package
from patcher.profiles import profile_for
from patcher.profiles.base import JitModule
from patcher.profiles.flashinfer.builds import BuildReader, Machine, Spec
from patcher.profiles.ninja import compile_commands
from patcher.toolchain.model import HostCompiler, Toolkit

pytestmark = [pytest.mark.wheels, pytest.mark.slow]
CSRC = "flashinfer/data/csrc"
HOST = HostCompiler(None, "12", ("/gcc/include",), (), True)
TOOLKIT = Toolkit("13.0", Path("/usr/local/cuda"), None, ("/usr/local/cuda/include",), (), HOST,
                  "x86_64", False, "test")
MACHINE = Machine((13, 0), "/usr/local/cuda", "/python/include", "/tvm", "/dlpack")


@pytest.fixture(scope="module")
def wheel(unpacked: Callable[[str, str], Path]) -> Package:
    environment = Environment(None, (), None, "test", include=Path("/python/include"))
    return find_package(str(unpacked("flashinfer-python", "0.7.4")), environment)


@pytest.fixture(scope="module")
def modules(wheel: Package) -> list[JitModule]:
    return list(profile_for(wheel).modules(wheel, TOOLKIT))


def literal(value: ast.expr) -> Any:
    """A literal, or the keyword arguments of a call of literals."""
    if isinstance(value, ast.Call):
        return {k.arg: ast.literal_eval(k.value) for k in value.keywords}
    return ast.literal_eval(value)


def globals_of(wheel: Package, path: str) -> Iterator[tuple[str, Any]]:
    for node in ast.parse(wheel.tree.read(f"flashinfer/{path}")).body:
        target = node.target if isinstance(node, ast.AnnAssign) else (
            node.targets[0] if isinstance(node, ast.Assign) else None)
        if isinstance(target, ast.Name) and isinstance(node, ast.Assign | ast.AnnAssign):
            try:
                yield target.id, literal(node.value) if node.value else None
            except ValueError:
                continue  # no literal


def gencode(target: str) -> str:
    number = target.removeprefix("sm_")
    return f"-gencode=arch=compute_{number},code=sm_{number}"


@pytest.mark.parametrize("operator", ["cake_tinygemm2_wgmma", "cake_fmha_context_fp8"])
def test_programs_by_target(wheel: Package, modules: list[JitModule], operator: str) -> None:
    programs = [value for _, value in globals_of(wheel, f"jit/{operator}.py")
                if isinstance(value, dict) and "compile_options" in value]
    assert len(programs) > 80
    for program in programs:
        sources = tuple(f"{CSRC}/{program['operator_dir']}/{s}" for s in program["sources"])
        built = {m.targets: m for m in modules if m.sources == sources}
        assert set(built) == {(target,) for target in program["targets"]}
        for target, options in program["compile_options"]:
            module = built[(target,)]
            flags = list(module.flags)
            start = flags.index(gencode(target))
            assert tuple(flags[start + 1:start + 2 + len(options)]) == ("--fmad=false", *options)
            assert "-use_fast_math" not in flags
            assert not module.guessed
            assert module.include[0] == f"{CSRC}/{program['operator_dir']}"
            # the digest of the sources ends the name; it is not computed, so it matches any
            assert module.name == f"{program['name']}_{target}_*"


def test_records_by_architecture(wheel: Package, modules: list[JitModule]) -> None:
    records = dict(globals_of(wheel, "jit/blackwell_bf16_fp4.py"))["MODULES"]
    by_name = {m.name: m for m in modules}
    assert len(records) > 90
    for name, record in records.items():
        for arch in record["arches"]:
            module = by_name[f"{name}_{arch}"]
            assert module.sources == tuple(f"{CSRC}/{s}" for s in record["sources"])
            assert module.targets == (arch,)
            assert not module.guessed
            assert module.include[:3] == (CSRC, f"{CSRC}/blackwell_bf16_fp4",
                                          "flashinfer/data/include")
            assert set(record["compile_flags"]) <= set(module.flags)


def test_a_manifest_in_json(wheel: Package, modules: list[JitModule]) -> None:
    folder = f"{CSRC}/fused_moe/cake_mxfp4_situ_moe"
    manifest = json.loads(wheel.tree.read(f"{folder}/cake_mxfp4_situ_moe_manifest.json"))
    wanted = [m for m in manifest["modules"] if m["arch"] == "sm_103a"]
    by_name = {m.name: m for m in modules}
    assert len(wanted) > 100
    for record in wanted:
        module = by_name[f"{record['name']}_sm_103a"]
        units = record["translation_units"]
        assert module.sources == tuple(f"flashinfer/data/{units[k]}" for k in ("device", "binding"))
        assert set(record["compile_flags"]) <= set(module.flags)
        assert module.targets == ("sm_103a",)
        assert not module.guessed


def test_no_source_of_a_program_has_default_flags(wheel: Package) -> None:
    """Whatever a table of programs names is built with its flags, in every module of the package
    that has such a table."""
    named: set[str] = set()
    for path in sorted(wheel.tree.names("flashinfer/jit")):
        for _, value in globals_of(wheel, f"jit/{path}") if path.endswith(".py") else ():
            if isinstance(value, dict) and {"operator_dir", "compile_options"} <= value.keys():
                named |= {f"{CSRC}/{value['operator_dir']}/{s}" for s in value["sources"]}
    assert len(named) > 800
    units = profile_for(wheel).translation_units(wheel, TOOLKIT)
    assert not named & {unit.path for unit in units if not unit.modules}
    assert named <= {unit.path for unit in units}


def test_a_shared_build_file_says_what_an_own_one_would(wheel: Package) -> None:
    """Build files are evaluated once per set of flags: every 40th is written again by itself."""
    reader = BuildReader(wheel, MACHINE)
    shared = reader.specs()
    own = {}

    class Alone(BuildReader):
        def _make(self, call: Any) -> Any:
            self._made.clear()
            return super()._make(call)

    for spec in Alone(wheel, MACHINE).specs():
        own[_key(spec)] = spec
    assert len(shared) > 3000
    for spec in shared[::40]:
        assert _commands(spec) == _commands(own[_key(spec)])


def _key(spec: Spec) -> tuple[str, tuple[str, ...], str, int]:
    return spec.name, tuple(spec.sources), spec.site.path, len(spec.gates)


def _commands(spec: Spec) -> list[Any]:
    """Without the names of the objects, which are the first module's."""
    return [(c.source, [a for a in c.arguments if not a.endswith((".o", ".o.d"))])
            for c in compile_commands(spec.build_file)]
