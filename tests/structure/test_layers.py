"""Dependencies point one way: from the verbs down to the vocabulary."""

from __future__ import annotations

import sys
from graphlib import CycleError, TopologicalSorter

import pytest
from packaging.requirements import Requirement

from tests.structure.imports import ROOT, modules

LAYERS = (
    # the vocabulary
    ("errors", "arch", "gates", "edits", "changes", "room", "tree", "instructions", "toml",
     "atomic", "durable", "scratch"),
    # libraries that know nothing of packages and patches
    ("cuda", "python", "binary", "host", "cmake", "repack"),
    # what is known of packages, patchsets and caches
    ("package", "toolchain", "profiles", "operations", "patchset", "caches", "releases", "project"),
    # what is seen in a package
    ("scan", "cause", "build", "units", "law"),
    # what was done to it, and what would be done
    (
        *("engine", "state", "journal", "locks", "composition", "processes"),
        *("plan", "decide", "lawful", "wrong", "preview", "preflight", "snippets", "wheel"),
        *("export",),
    ),
    # doing it, and looking at it
    ("apply", "transaction", "session", "status", "effective", "readiness", "affected"),
    ("verify", "probe", "warm", "built", "lockfile", "audit", "explain", "draft"),
    ("report", "doctor"),
    ("commands", "api", "cli", "__main__"),
    ("the door",),  # what `import patcher` offers, imported on use
)
_RANK = {part: rank for rank, layer in enumerate(LAYERS) for part in layer}


def _part(name: str) -> str:
    return name.split(".")[1] if "." in name else "the door"


def test_every_part_has_a_layer() -> None:
    strangers = {_part(name) for name in modules()} - _RANK.keys()
    assert not strangers, f"say in LAYERS where these belong: {sorted(strangers)}"


def test_imports_never_point_upwards() -> None:
    wrong = [
        f"{module.name} -> {target}"
        for module in modules().values()
        for target in sorted(module.imports)
        if target != "patcher" and _RANK[_part(target)] > _RANK[_part(module.name)]
    ]
    assert not wrong


def test_no_import_cycles() -> None:
    graph = {module.name: module.imports for module in modules().values()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))


def test_what_is_imported_is_declared() -> None:
    tomllib = pytest.importorskip("tomllib", reason="came with Python 3.11")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = project["optional-dependencies"]
    declared = {
        Requirement(text).name.lower()
        for text in [*project["dependencies"], *extras["farm"], *extras["unpack"]]
    }
    renamed = {
        "git": "gitpython",
        "gitdb": "gitpython",  # its object database, of the same project
        "yaml": "pyyaml",
        "dask": "distributed",
    }
    undeclared = {
        f"{module.name}: {name}"
        for module in modules().values()
        for name in module.external - sys.stdlib_module_names
        if renamed.get(name, name) not in declared
    }
    assert not undeclared


SCANNED = {"flashinfer", "sglang", "vllm", "sgl_kernel", "torch", "triton", "tvm_ffi", "cutlass"}


def test_no_scanned_package_is_imported() -> None:
    found = {
        f"{module.name}: {name}"
        for module in modules().values()
        for name in module.external & SCANNED
    }
    assert not found
