"""Epochs: redirected where entries can go stale, pinned where they would move for nothing."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from patcher.caches.actions import Touched
from patcher.caches.epoch import epoch_folder, epoch_of, epoch_variables, tool_versions
from patcher.caches.registry import Edit, registry, spec

ENVIRON = {"HOME": "/h", "USER": "u"}
FOLDER = Path("/h/.cache/sm-patch/epoch/E")


def variables(name: str, *paths: str, root: str = "/site",
              environ: dict[str, str] | None = None) -> dict[str, str]:
    touched = Touched(name, "1", root, frozenset(paths))
    return epoch_variables(FOLDER, [touched], ENVIRON if environ is None else environ)


def test_flashinfer_kernels_move_and_the_cubins_stay() -> None:
    found = variables("flashinfer-python", "flashinfer/data/include/flashinfer/a.cuh")
    assert found["FLASHINFER_WORKSPACE_BASE"] == f"{FOLDER}/flashinfer"
    assert found["FLASHINFER_CUBIN_DIR"] == "/h/.cache/flashinfer/cubins"


def test_a_cubin_folder_that_was_chosen_is_not_touched() -> None:
    chosen = {**ENVIRON, "FLASHINFER_CUBIN_DIR": "/cubins"}
    found = variables("flashinfer-python", "flashinfer/data/a.cuh", environ=chosen)
    assert "FLASHINFER_CUBIN_DIR" not in found


def test_an_installed_cubin_package_is_not_hidden(tmp_path: Path) -> None:
    """From 0.7 on the variable wins over the package (jit/env.py, _get_cubin_dir)."""
    (tmp_path / "flashinfer_cubin").mkdir()
    found = variables("flashinfer-python", "flashinfer/data/a.cuh", root=str(tmp_path))
    assert "FLASHINFER_CUBIN_DIR" not in found


def test_caches_keyed_by_content_are_left_alone() -> None:
    found = variables("flashinfer-python", "flashinfer/jit/comm.py", "flashinfer/data/a.cuh")
    assert not {"TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR", "CUTE_DSL_CACHE_DIR"} & found.keys()
    # SGLANG_CACHE_DIR moves for the autotune files alone; what lies beside them stays
    assert found["SGLANG_JIT_CACHE_DIR"] == "/h/.cache/sglang/jit"
    assert found["SGLANG_DG_CACHE_DIR"] == "/h/.cache/sglang/deep_gemm"


def test_nothing_patched_redirects_nothing() -> None:
    assert epoch_variables(FOLDER, [], ENVIRON) == {}
    assert variables("requests", "requests/api.py") == {}


def test_the_epoch_follows_digests_and_tools() -> None:
    digests, tools = {"a": "1", "b": "2"}, {"nvcc": "13.0"}
    same = epoch_of({"b": "2", "a": "1"}, tools)
    assert epoch_of(digests, tools) == same
    assert len({same, epoch_of({**digests, "a": "3"}, tools), epoch_of(digests, {"nvcc": "13.1"}),
                epoch_of({"a": "1"}, tools)}) == 4


def test_the_folder_follows_xdg_and_home() -> None:
    assert epoch_folder("E", ENVIRON) == FOLDER
    assert epoch_folder("E", {"XDG_CACHE_HOME": "/x"}) == Path("/x/sm-patch/epoch/E")


@pytest.mark.nvcc
def test_tools_tell_their_versions(toolkit: Path, tmp_path: Path) -> None:
    found = tool_versions(toolkit)
    assert all(found[name].startswith("release ") for name in ("nvcc", "ptxas", "cicc"))
    assert found["cudart"].isdecimal()
    assert tool_versions(tmp_path) == dict.fromkeys(found, "absent")
    (tmp_path / "bin").mkdir()
    shutil.copy("/bin/sh", tmp_path / "bin" / "nvcc")  # a wrapper: its content counts
    assert len(tool_versions(tmp_path)["nvcc"]) == 64


def test_every_cache_of_the_atlas_says_what_it_must() -> None:
    assert len(registry()) == 36
    for entry in registry():
        assert set(entry.stale_after) == set(Edit)
        assert all(s.verdict in ("yes", "no", "partial", "n/a") for s in entry.stale_after.values())
        for name, _ in entry.epoch:
            assert any(f"${name}" in place for group in entry.places for place in group), name


# From the atlas's table: a column per kind of edit, yes or partial means stale.
@pytest.mark.parametrize(("cache", "package", "path", "stale"), [
    ("triton", "triton", "triton/language/core.py", False),
    ("flashinfer_nvcc_jit", "flashinfer-python", "flashinfer/jit/comm.py", True),
    ("flashinfer_autotune", "flashinfer-python", "flashinfer/gemm/gemm_base.py", True),
    ("fa4", "flash-attn-4", "flash_attn/cute/flash_fwd.py", False),
    ("deepgemm_new", "sgl-deep-gemm", "deep_gemm/include/deep_gemm/a.cuh", True),
    ("vllm_compile", "vllm", "vllm/platforms/cuda.py", True),
    ("vllm_compile", "vllm", "vllm/csrc/a.cu", False),
])
def test_what_goes_stale(cache: str, package: str, path: str, stale: bool) -> None:
    touched = Touched(package, "1", "/site", frozenset({path}))
    assert bool(spec(cache).stale(touched)) is stale


def test_a_dsl_cache_goes_stale_by_kernels_and_helpers_only(tmp_path: Path) -> None:
    kernels, plain = tmp_path / "pkg/kernels", tmp_path / "pkg/jit"
    for folder in (kernels, plain):
        folder.mkdir(parents=True)
        (folder / "helper.py").write_text("x = 1\n")
    (kernels / "gemm.py").write_text("import cutlass\n")

    def stale(path: str) -> bool:
        touched = Touched("flashinfer-python", "0.7.4", str(tmp_path), frozenset({path}))
        return bool(spec("flashinfer_cute_dsl").stale(touched))

    assert stale("pkg/kernels/helper.py")
    assert not stale("pkg/jit/helper.py")
    assert not stale("pkg/kernels/a.cuh")
