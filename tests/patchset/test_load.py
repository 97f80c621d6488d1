"""Loading patchsets: the contract's own example, every problem at once, hostile documents."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from patcher.arch import ArchSet, Capability
from patcher.errors import InputError, SchemaError
from patcher.patchset import schema
from patcher.patchset.document import MAX_BYTES
from patcher.patchset.load import load_patchset, parse_patchset
from patcher.patchset.shipped import shipped

TWELVE = ArchSet.of(Capability(12, 0), Capability(12, 1))
EXAMPLE = """\
sm-patch: 1
name: flashinfer-sm120
summary: Open FlashInfer's TRT-LLM all-reduce kernels on SM120 and SM121
package: flashinfer-python          # a patch or group may name another; a group may span packages
archs: [sm_120a, sm_120f, sm_121a, sm_121f]
groups:
  - id: trtllm-comm
    summary: JIT gate, PDL guards, the lamport kernel body and its launch, together or not at all
    why: trtllm_custom_all_reduce and trtllm_allreduce_fusion are refused on 12.x
    default: true                   # plain apply takes these; for the rest it prints --group
    risk: medium
    warning: TP4 over PCIe was measured slower with the fused path; compare before you keep it
    needs: [single-node]
    versions: ">=0.5.3,<0.6.17"
    fixed-in: "0.6.17"
    references: ["flashinfer#3903", "sglang#32330"]
    patches:
      - id: jit-majors
        python-gate:
          file: flashinfer/jit/comm.py
          within: gen_trtllm_comm_module
          gate: supported_major_versions
          open: ["12.0", "12.1"]
      - id: pdl-and-body-guards
        cuda-guard:
          file: flashinfer/data/include/flashinfer/comm/trtllm_allreduce.cuh
          condition: defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900 && __CUDA_ARCH__ < 1200
          count: 13
          open: ["12.0", "12.1"]
      - id: lamport-stride
        affects: all
        reason: the pointer table is read with a fixed stride on every architecture
        text:
          file: flashinfer/data/csrc/trtllm_allreduce.cu
          find: "lamport_peer_comm_buffer_ptrs[i + tp_size] ="
          replace: "lamport_peer_comm_buffer_ptrs[i + MAX_RANKS_PER_NODE] ="
          count: 1
    caches: [{flashinfer_nvcc_jit: {modules: [trtllm_comm]}}]   # in addition to what is detected
    verify:
      - unit: flashinfer/data/csrc/trtllm_allreduce.cu
        expect: {hollow: 0, griddepcontrol.wait: ">0"}
"""
MINIMAL = """\
sm-patch: 1
name: mini
package: mini
groups:
  - id: one
    patches:
      - id: first
        create: {file: mini/new.txt, content: hello}
"""


def load(text: str) -> schema.Patchset:
    return parse_patchset(text.encode(), "test.yaml")


def problems(text: str) -> list[str]:
    with pytest.raises(SchemaError) as caught:
        load(text)
    return caught.value.problems


def test_the_contracts_example_loads_as_written() -> None:
    patchset = load(EXAMPLE)
    assert patchset.archs == ArchSet.of("sm_120a", "sm_120f", "sm_121a", "sm_121f")
    (group,) = patchset.groups
    assert (group.versions, group.fixed_in) == (">=0.5.3,<0.6.17", "0.6.17")
    assert group.risk is schema.Risk.MEDIUM
    gate, guard, stride = group.patches
    assert gate.operation == schema.PythonGate(
        file=schema.RelativePath("flashinfer/jit/comm.py"), within="gen_trtllm_comm_module",
        gate="supported_major_versions", open=TWELVE)
    assert isinstance(guard.operation, schema.CudaGuard)
    assert guard.operation.count == 13
    assert stride.affects is schema.Affects.ALL
    assert group.caches == (schema.CacheUse(cache="flashinfer_nvcc_jit", modules=("trtllm_comm",)),)
    assert [(e.name, e.operator, e.value) for e in group.verify[0].expect] == [
        ("hollow", "==", 0), ("griddepcontrol.wait", ">", 0)]
    assert patchset.default_groups == ("trtllm-comm",)


def test_the_digest_is_over_the_meaning() -> None:
    """Canonical JSON: sorted keys, no white space; comments and layout do not count."""
    document = {"sm-patch": 1, "name": "mini", "package": "mini", "groups": [
        {"id": "one", "patches": [
            {"id": "first", "create": {"file": "mini/new.txt", "content": "hello"}}]}]}
    canonical = json.dumps(document, sort_keys=True, separators=(",", ":"))
    assert load(MINIMAL).digest == hashlib.sha256(canonical.encode()).hexdigest()
    assert load("# a comment\n" + MINIMAL.replace("{file", "{  file")).digest \
        == load(MINIMAL).digest
    assert load(MINIMAL.replace("hello", "hallo")).digest != load(MINIMAL).digest


def test_versions_and_capabilities_need_no_quotes() -> None:
    keys = "    fixed-in: 0.10\n    for: [12.0, sm_121a]\n    patches:"
    text = MINIMAL.replace("    patches:", keys)
    (group,) = load(text).groups
    assert group.fixed_in == "0.10"
    assert group.for_ == ArchSet.of(Capability(12, 0), "sm_121a")


def test_all_problems_come_at_once_each_with_its_path() -> None:
    found = problems("""\
sm-patch: 1
name: Foo Bar
package: x
groups:
  - id: a
    sumary: x
    versions: ">=a"
    patches:
      - id: p
        affects: all
        cuda-guard: {file: /etc/x, condition: "a", count: "13", open: [12.0, 99.9, 12]}
      - id: q
        text: {file: a/../b, find: x, replace: x}
      - {id: r, txt: {}}
  - id: a
    variants: []
""")
    assert found == [
        "groups[0].patches[0].cuda-guard.file: absolute paths are not allowed: '/etc/x'",
        "groups[0].patches[0].cuda-guard.count: expected int, got str",
        "groups[0].patches[0].cuda-guard.open[1]: no target has capability 99.9",
        'groups[0].patches[0].cuda-guard.open[2]: expected a capability such as "12.0", got int',
        "groups[0].patches[0]: 'affects: all' needs a 'reason'",
        "groups[0].patches[1].text.file: a path may not hold '..', '.' or empty parts: 'a/../b'",
        ("groups[0].patches[2]: expected exactly one operation of python-gate, cuda-guard, text, "
         "flag, overlay, symlink, create; got 0"),
        "groups[0].patches[2].txt: unknown key; did you mean text?",
        "groups[0].sumary: unknown key; did you mean summary?",
        "groups[0].versions: not a version specifier such as '>=0.5.3,<0.6.17': '>=a'",
        "groups[1].variants: expected a list with at least one entry, got nothing",
        "name: expected lower case words joined by '-': 'Foo Bar'",
    ]


@pytest.mark.parametrize(("change", "expected"), [
    (("name: mini", "name: mini\nname: mini"), "document: duplicate key 'name' (line 3)"),
    (("id: first", "id: &x first"), "groups[0].patches[0].id: anchor &x is not allowed (line 7)"),
    (("hello", "!!python/object/apply:os.system [ls]"), "tag tag:yaml.org,2002:python/object"),
    (("hello", "*x"), "alias *x is not allowed"),
    (("sm-patch: 1", "sm-patch: 2"), "sm-patch: expected 1, got 2; a newer document"),
    (("sm-patch: 1\n", ""), "document: 'sm-patch: 1' is required"),
    (("sm-patch: 1", "sm-patch: true"), "sm-patch: expected 1, got True"),
    (("package: mini\n", ""), "document: 'package' is required"),
    (("mini/new.txt", "~/new.txt"), "absolute paths are not allowed"),
    (("mini/new.txt", "C:/new.txt"), "absolute paths are not allowed"),
    (("mini/new.txt", '"mini\\\\new.txt"'), "not a path with forward slashes"),
    (("mini/new.txt", '"mini/new\\0.txt"'), "not a path with forward slashes"),
    (("create:", "affects: some\n        create:"), "expected one of asked, all; got 'some'"),
    (("id: one", "id: one\n    requires: [other]"), "no other group is called 'other'"),
    (("id: one", "id: one\n    default: yes"), "groups[0].default: expected bool, got str"),
    (("id: one", "id: one\n    references: [somewhere]"), "expected 'project#123' or an URL"),
    (("id: one", "id: one\n    verify: [{unit: a.cu, expect: {hollow: few}}]"),
     "groups[0].verify[0].expect.hollow: expected a number or '>0', got 'few'"),
])
def test_a_wrong_document_says_where(change: tuple[str, str], expected: str) -> None:
    assert any(expected in problem for problem in problems(MINIMAL.replace(*change, 1)))


def _deep() -> bytes:
    return b"a: " + b"[" * 40 + b"]" * 40


def _bomb() -> bytes:
    levels = ["a: &a [x]"]
    names = "abcdefghijklmnopqrstuvwxyz"
    levels += [f"{new}: &{new} [{', '.join([f'*{old}'] * 9)}]"
               for old, new in zip(names, names[1:], strict=False)]
    return "\n".join(levels).encode()


@pytest.mark.parametrize(("document", "expected"), [
    (_deep, "nested deeper than 32"),
    (_bomb, "is not allowed"),
    (lambda: b"#" * (MAX_BYTES + 1), "larger than 1024 KiB"),
    (lambda: b"\xff\xfe\x00", "not UTF-8"),
    (lambda: b"a: [", "not YAML"),
    (lambda: b"a: 1\n---\nb: 2\n", "more than one document"),
    (lambda: b"", "expected a mapping, got null"),
    (lambda: b"- 1\n", "expected a mapping, got list"),
    (lambda: b"? [a]\n: 1\n", "a key must be a plain word"),
], ids=["deep", "bomb", "large", "binary", "broken", "two", "empty", "list", "key"])
def test_hostile_documents_are_refused_in_one_line(
    document: Callable[[], bytes], expected: str
) -> None:
    with pytest.raises(SchemaError) as caught:
        parse_patchset(document(), "test.yaml")
    assert expected in str(caught.value)
    assert "\n" not in str(caught.value)


def test_silence_about_default_means_no_once_a_group_has_said_it() -> None:
    two = MINIMAL + MINIMAL.split("groups:\n")[1].replace("id: one", "id: two")
    assert load(two).default_groups == ("one", "two")
    assert load(two.replace("id: one", "id: one\n    default: true")).default_groups == ("one",)
    assert load(two.replace("id: one", "id: one\n    default: false")).default_groups == ()


def test_shipped_patchsets_are_found_by_name_and_as_the_readme_types_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    by_name = load_patchset("flashinfer-sm120")
    assert load_patchset("patchsets/flashinfer-sm120.yaml") == by_name
    assert Path(by_name.source) == shipped()["flashinfer-sm120"]
    (tmp_path / "mine.yaml").write_text(MINIMAL)
    assert load_patchset("mine.yaml").name == "mini"
    with pytest.raises(InputError, match="flashinfer-sm120"):
        load_patchset("flashinfer-sm12")
    with pytest.raises(InputError):
        load_patchset("elsewhere/flashinfer-sm120.yaml")


def test_every_shipped_patchset_loads() -> None:
    for name, path in shipped().items():
        assert load_patchset(str(path)).name == name


@pytest.mark.parametrize("kind", ["fifo", "folder", "device", "link"])
def test_what_is_no_file_is_not_called_missing(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "p.yaml"
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        path.symlink_to("/dev/zero" if kind == "device" else "gone")
    with pytest.raises(InputError, match="nowhere" if kind == "link" else "not a file"):
        load_patchset(str(path))
