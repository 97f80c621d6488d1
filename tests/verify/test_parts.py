"""The parts that a verification is put together from."""

from __future__ import annotations

import os
import random
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from patcher.arch import target
from patcher.changes import Create, Modify
from patcher.cuda.model import Configuration, TranslationUnit
from patcher.toolchain.find import find_toolkit
from patcher.tree import ChangedTree, FolderTree
from patcher.verify import store as store_module
from patcher.verify.bench import Bench
from patcher.verify.compile import Compiled, Job, Stage, failure
from patcher.verify.executors import LocalFarm
from patcher.verify.judge import KernelVerdict, Verdict
from patcher.verify.kernels import Code, Kernel
from patcher.verify.memory import MemoryGate
from patcher.verify.prepare import Workshop
from patcher.verify.resources import Resources, read_resources
from patcher.verify.result import Pair, Reason, family, reasons_of
from patcher.verify.run import Goals, Shops, verify_unit
from patcher.verify.shadow import build_shadow
from patcher.verify.store import Store, encode
from patcher.verify.tools import find_tools

KERNEL = Kernel("_Z1kv", "a.cu:1", 2, {"st.u32": 2, "ret": 1}, {"text": "a.cu:2"}, {"vprintf": 1},
                frozenset({"aa"}), frozenset({"bb", "cc"}), dies=False, shared=16)
COMPILED = Compiled("key", Code({"_Z1kv": KERNEL}, {"aa": "_Z5emptyv"}), "", True,
                    Resources(32, 16, 8, 1), 1.5)


def test_a_result_survives_the_store(store: Store) -> None:
    store.put("key", encode(COMPILED))
    assert store.compiled("key") == COMPILED
    assert store.compiled("other") is None


@pytest.mark.parametrize("damage", [b"", b"nonsense", b"\x78\x9c\x03\x00\x00\x00\x00\x01"])
def test_a_damaged_entry_is_a_miss(damage: bytes, store: Store, tmp_path: Path) -> None:
    store.put("key", {"error": "", "kernels": []})
    assert store.compiled("key") is None  # another shape
    (tmp_path / "results" / "key").write_bytes(damage)
    assert store.get("key") is None


def test_the_oldest_entries_go_first(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_module, "MAX_BYTES", 150)
    for age, name in ((300, "old"), (200, "middle"), (100, "new")):
        store.put(name, random.Random(name).randbytes(40).hex())
        path = tmp_path / "results" / name
        if path.exists():
            os.utime(path, (1_000_000 - age, 1_000_000 - age))
    assert store.get("old") is None
    assert store.get("new") is not None


def test_a_store_that_cannot_be_written_only_costs_caching(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    store = Store(tmp_path / "file" / "folder")
    store.put("key", 1)
    assert store.get("key") is None


def test_a_shadow_holds_changes_beside_links(tmp_path: Path) -> None:
    origin = tmp_path / "origin"
    for name in ("p/a.cu", "p/deep/b.cuh", "p/x.py"):
        (origin / name).parent.mkdir(parents=True, exist_ok=True)
        (origin / name).write_text(name)
    tree = ChangedTree(FolderTree(origin), [
        Modify("p/deep/b.cuh", b"p/deep/b.cuh", b"changed"), Create("p/new.cuh", b"new")])
    shadow = tmp_path / "shadow"
    build_shadow(tree, ["p"], shadow)
    found = {str(p.relative_to(shadow)): p.read_text() for p in shadow.rglob("*") if p.is_file()}
    assert found == {"p/a.cu": "p/a.cu", "p/deep/b.cuh": "changed", "p/new.cuh": "new"}
    assert (shadow / "p/a.cu").is_symlink()
    assert not (shadow / "p/deep").is_symlink()  # else ".." would lead to the origin
    assert (origin / "p/deep/b.cuh").read_text() == "p/deep/b.cuh"


@pytest.mark.nvcc
def test_other_targets_and_the_host_are_compared(
    toolkit: Path, store: Store, tmp_path: Path
) -> None:
    # both claim to change 12.x alone; the first also changes sm_90a and the host
    before = _guarded("__CUDA_ARCH__ < 0", host=1)
    wide = _guarded("__CUDA_ARCH__ >= 1200 || __CUDA_ARCH__ == 900", host=2)
    # more lines, that other targets never see, only move those below
    narrow = _guarded("__CUDA_ARCH__ >= 1200", host=1).replace("p[0] = 2;", "\n\np[0] = 2;\n")
    identical, different, verdict = _compared(before, wide, toolkit, store, tmp_path / "wide")
    assert (identical, different, verdict) == (
        ("sm_100a",), ("host", "sm_90a"), Verdict.FAILED)
    identical, different, verdict = _compared(before, narrow, toolkit, store, tmp_path / "narrow")
    assert (identical, different, verdict) == (("host", "sm_90a", "sm_100a"), (), Verdict.OK)


def _guarded(condition: str, host: int) -> str:
    return (f"__global__ void k(int *p) {{\n#if defined(__CUDA_ARCH__) && ({condition})\n"
            f"p[0] = 2;\n#else\np[0] = 1;\n#endif\n}}\n"
            f"#ifndef __CUDA_ARCH__\nint host = {host};\n#endif\n")


def _compared(before: str, asked: str, toolkit: Path, store: Store,
              folder: Path) -> tuple[tuple[str, ...], tuple[str, ...], Verdict]:
    tools = find_tools(find_toolkit(str(toolkit)), ())
    for name, text in (("before", before), ("asked", asked)):
        (folder / name).mkdir(parents=True)
        (folder / name / "u.cu").write_text(text)
    shops = Shops(Workshop(folder / "before", tools.nvcc), Workshop(folder / "asked", tools.nvcc),
                  Workshop(folder / "asked", tools.nvcc))
    unit = TranslationUnit("u.cu", Configuration("x"))
    references = (target("sm_90a"), target("sm_100a"))
    goals = Goals([target("sm_120a")], references, references, references, full=False)
    with ThreadPoolExecutor(1) as pool:
        bench = Bench(tools, store, LocalFarm(pool, tools.compilers, 1 << 32), 1)
        (result,) = verify_unit(bench, Pair(unit, unit), shops, goals)
    return result.elsewhere.identical, result.elsewhere.different, result.verdict


@pytest.mark.nvcc
@pytest.mark.parametrize(("lost", "stage", "reason"), [
    ("sm_100a", Stage.READ, "the reference sm_100a: ended by a test"),
    ("sm_120a", Stage.READ, "ended by a test"), ("sm_120a", Stage.BUILD, "ended by a test"),
])
def test_without_a_lost_job_nothing_is_ok(
    lost: str, stage: Stage, reason: str, toolkit: Path, store: Store, tmp_path: Path
) -> None:
    # the body is empty on 12.x, which only the reference can tell: it is not in this function
    (tmp_path / "u.cu").write_text(
        "#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ < 1200\n#define BODY p[0] = 1;\n#else\n"
        "#define BODY\n#endif\n__global__ void k(int *p) { BODY }\n")
    tools = find_tools(find_toolkit(str(toolkit)), ())

    class Losing(LocalFarm):
        def submit(self, job: Job) -> Future[Compiled]:
            if (job.target, job.stage) != (lost, stage):
                return super().submit(job)
            future: Future[Compiled] = Future()
            future.set_result(failure(job, "ended by a test"))
            return future

    shop, unit = Workshop(tmp_path, tools.nvcc), TranslationUnit("u.cu", Configuration("x"))
    goals = Goals([target("sm_120a")], [target("sm_100a")], (), (), full=True)
    with ThreadPoolExecutor(1) as pool:
        bench = Bench(tools, store, Losing(pool, tools.compilers, 1 << 32), 1)
        (result,) = verify_unit(bench, Pair(unit, unit, opened=True), Shops(shop, shop), goals)
    assert (result.verdict, result.lasting) == (Verdict.FAILED, False)
    assert str(result.reasons[0]) == reason


def test_kernels_are_counted_by_template() -> None:
    # mangled by the Itanium ABI's rules: ns::f<1>(int*), ns::f<2>(int*), g()
    bad = KernelVerdict("_ZN2ns1fILi1EEEvPi", Verdict.HOLLOW, "empty", "a.cu:1")
    kernels = [bad, replace(bad, name="_ZN2ns1fILi2EEEvPi", verdict=Verdict.OK, reason=""),
               replace(bad, name="_Z1gv")]
    assert reasons_of(kernels) == (Reason("empty", "a.cu:1", "f", 1, 2),
                                   Reason("empty", "a.cu:1", "g", 1, 1))
    assert str(reasons_of(kernels)[0]) == "1 of 2 f: empty, a.cu:1"


@pytest.mark.parametrize(("name", "expected"), [
    ("_Z5plainPi", "plain"),
    ("_ZN10flashinfer4gemm15tgv_gemm_deviceIN7cutlassE", "tgv_gemm_device"),
    ("_ZN12_GLOBAL__N_11kEv", "k"), ("extern_c_name", "extern_c_name"),
])
def test_a_template_s_name_is_read_from_the_mangled_one(name: str, expected: str) -> None:
    assert family(name) == expected


def test_resources_are_the_worst_of_all_kernels() -> None:
    # the form that ptxas 13.0 -v prints
    messages = """ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function '_Z1av' for 'sm_120a'
ptxas info    : Function properties for _Z1av
    8 bytes stack frame, 4 bytes spill stores, 12 bytes spill loads
ptxas info    : Used 40 registers, used 1 barriers, 256 bytes smem
ptxas info    : Compiling entry function '_Z1bv' for 'sm_120a'
ptxas info    : Function properties for _Z1bv
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 255 registers, used 0 barriers
"""
    assert read_resources(messages) == Resources(255, 256, 16, 1)
    assert read_resources("") == Resources()


def test_a_gate_is_shared_by_threads() -> None:
    gate, order = MemoryGate(2), list[int]()

    def work(number: int) -> None:
        gate.enter(2)
        order.append(number)
        gate.leave(2)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(20)))
    assert sorted(order) == list(range(20))
