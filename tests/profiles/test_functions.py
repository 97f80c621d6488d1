"""From a module to the public functions that reach it, and to the sources they end in."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from patcher.package import Environment, Package, find_package
from patcher.profiles import profile_for
from patcher.profiles.base import JitModule, PublicFunction, Site
from patcher.profiles.flashinfer.functions import FunctionIndex
from patcher.tree import FolderTree

from .test_targets import cuda

Unpacked = Callable[[str, str], Path]


@pytest.fixture(scope="module")
def wheel(unpacked: Unpacked) -> Package:
    folder = unpacked("flashinfer-python", "0.6.3")
    return find_package(str(folder), Environment(None, (folder,), None, "test"))


def functions(wheel: Package, name: str) -> dict[str, PublicFunction]:
    profile = profile_for(wheel)
    module = next(m for m in profile.modules(wheel, cuda("13.0")) if m.name == name)
    return {f.name: f for f in profile.functions_of(wheel, module)}


@pytest.mark.wheels
def test_the_all_reduce_functions_end_in_different_sources(wheel: Package) -> None:
    """Read off comm/trtllm_ar.py and the export lines of the three .cu files (case C1)."""
    found = functions(wheel, "trtllm_comm")
    ends = {name: [s.rpartition("/")[2] for s in f.sources] for name, f in found.items()}
    assert ends == {
        "trtllm_lamport_initialize": ["trtllm_allreduce.cu"],
        "trtllm_lamport_initialize_all": ["trtllm_allreduce.cu"],
        "trtllm_custom_all_reduce": ["trtllm_allreduce.cu"],
        "trtllm_allreduce_fusion": ["trtllm_allreduce_fusion.cu"],
        "trtllm_moe_allreduce_fusion": ["trtllm_moe_allreduce_fusion.cu"],
        "trtllm_moe_finalize_allreduce_fusion": ["trtllm_moe_allreduce_fusion.cu"],
    }
    custom = found["trtllm_custom_all_reduce"]
    assert custom.bindings == ("trtllm_custom_all_reduce",)
    text = wheel.tree.read(custom.path).decode().splitlines()
    assert text[custom.line - 1].startswith("def trtllm_custom_all_reduce(")


@pytest.mark.wheels
@pytest.mark.parametrize(("module", "function", "sources"), [
    ("page", "append_paged_kv_cache", ["page.cu"]),  # through a private custom op
    ("rope", "apply_rope", ["rope.cu"]),
    ("gemm_sm120", "gemm_fp8_nt_groupwise", ["gemm_groupwise_sm120.cu"]),  # export and definition
    ("fused_moe_trtllm_sm100", "trtllm_bf16_moe", ["trtllm_fused_moe_kernel_launcher.cu"]),
    ("mamba_selective_state_update_sm100", "selective_state_update",
     ["selective_state_update.cu"]),
])
def test_chains_of_several_shapes(wheel: Package, module: str, function: str,
                                  sources: list[str]) -> None:
    found = functions(wheel, module)[function]
    assert [s.rpartition("/")[2] for s in found.sources] == sources


@pytest.mark.wheels
def test_wrapper_classes_are_public_functions_too(wheel: Package) -> None:
    profile = profile_for(wheel)
    module = next(m for m in profile.modules(wheel, cuda("13.0"))
                  if m.name.startswith("batch_decode_with_kv_cache"))
    found = {f.name: f for f in profile.functions_of(wheel, module)}
    wrapper = found["BatchDecodeWithPagedKVCacheWrapper"]
    assert set(wrapper.bindings) == {"plan", "run"}


@pytest.mark.wheels
def test_every_module_with_a_gate_is_reached(wheel: Package) -> None:
    """A gate nobody can reach would be a finding without a victim; 0.6.3 has none."""
    profile = profile_for(wheel)
    for module in profile.modules(wheel, cuda("13.0")):
        if module.gates:
            assert profile.functions_of(wheel, module), module.name


SHAPE = {
    "flashinfer/jit/a.py": "def gen_a_module(): ...\n",
    "flashinfer/a.py": '''
from .jit.a import gen_a_module

def get_a_module():
    module = gen_a_module().build_and_load()
    run = module.run_binding
    def first(x): return module.first_binding(x)
    def second(x): return run(x)
    return SimpleNamespace(first=first, second=second, third=module.third_binding)

def use_first(): return get_a_module().first(1)
def use_second():
    kernels = get_a_module()
    return kernels.second(2)
def use_third(): return get_a_module().third
def _private(): return get_a_module().first(1)
def through_private(): return _private()
class Wrapper:
    def plan(self): self._module = get_a_module()
    def run(self): return self._module.second(1)
def unrelated(): return first(1)
''',
    "flashinfer/__init__.py": "from .a import get_a_module\n",
    "flashinfer/b.py":
        "from . import get_a_module\ndef reexported(): return get_a_module().first(1)\n",
    # another module's function of the same name is not meant
    "flashinfer/c.py": "def get_a_module(): ...\ndef namesake(): return get_a_module().first(1)\n",
    "a.cu": "".join(
        f"void {name}(int a) {{ }}\nTVM_FFI_DLL_EXPORT_TYPED_FUNC({name}_binding, &ns::{name});\n"
        for name in ("first", "run", "third")),
}


def test_shapes_of_getters(tmp_path: Path) -> None:
    for path, text in SHAPE.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    package = Package("flashinfer-python", "flashinfer", None, tmp_path, FolderTree(tmp_path))
    module = JitModule("a", "a", Site("flashinfer/jit/a.py", "gen_a_module", 1), ("a.cu",))
    found = {f.name: f.bindings for f in FunctionIndex(package).functions_of(module)}
    assert found == {
        "use_first": ("first_binding",), "use_second": ("run_binding",),
        "use_third": ("third_binding",), "through_private": ("first_binding",),
        "Wrapper": ("run_binding",), "reexported": ("first_binding",),
    }
