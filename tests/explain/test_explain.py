"""``sm-patch explain``: known texts, whole logs, rule codes; texts come from real tools."""

from __future__ import annotations

import ast
import io
import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from patcher.build import rules as build_rules
from patcher.cli import main
from patcher.explain import Explanation, Level, explain, explanations, find_rule, rules
from tests.structure.imports import modules


def first(text: str) -> str:
    """The id of the root cause."""
    return explain(text.splitlines())[0].explanation.id


@pytest.mark.parametrize("known", explanations(), ids=lambda known: known.id)
def test_every_text_is_recognised_as_itself(known: Explanation) -> None:
    assert first(known.sample) == known.id
    answer = explain([known.sample])[0]
    assert "{" not in "".join([answer.cause, answer.gate, *answer.do])


@pytest.mark.wheels
@pytest.mark.parametrize("known", [k for k in explanations() if k.seen], ids=lambda k: k.id)
def test_texts_of_packages_stand_in_their_sources(
    known: Explanation, unpacked: Callable[[str, str], Path]
) -> None:
    seen = known.seen
    source = unpacked(seen["package"], seen["version"]) / seen["path"]
    assert seen["text"] in source.read_text("utf-8")
    assert seen["text"].split("{")[0] in known.sample


def _ptxas(nvcc: Path, text: str, target: str, tmp_path: Path) -> str:
    """What the real ptxas says of an instruction."""
    source = tmp_path / "one.ptx"
    source.write_text(f".version 9.0\n.target {target}\n.address_size 64\n"
                      f".visible .entry k() {{\n{text}\n ret;\n}}\n")
    done = subprocess.run([nvcc.with_name("ptxas"), f"-arch={target}", source, "-o", "/dev/null"],
                          capture_output=True, text=True, check=False)
    assert done.returncode
    return done.stderr


@pytest.mark.nvcc
def test_ptxas_tells_hardware_from_a_missing_suffix(nvcc: Path, tmp_path: Path) -> None:
    lacking = _ptxas(nvcc, " tcgen05.fence::before_thread_sync;", "sm_120a", tmp_path)
    answer = explain(lacking.splitlines())[0]
    assert answer.explanation.id == "ptxas-target"
    assert answer.do[0].startswith("this is hardware")
    plain = _ptxas(nvcc, " setmaxnreg.inc.sync.aligned.u32 64;", "sm_120", tmp_path)
    answer = explain(plain.splitlines())[0]
    assert answer.cause.endswith("; sm_120a has it")
    assert "12.0a" in answer.do[0]


@pytest.mark.nvcc
def test_what_nvcc_says(nvcc: Path, tmp_path: Path) -> None:
    source = tmp_path / "k.cu"
    source.write_text("#include <cuda/std/of_another_world>\n")
    done = subprocess.run([nvcc, "-arch=sm_120a", "-c", source, "-o", "/dev/null"],
                          capture_output=True, text=True, check=False)
    assert first(done.stderr) == "no-cccl"
    done = subprocess.run([nvcc, "-arch=sm_199", "-c", source], capture_output=True, text=True,
                          check=False)
    assert first(done.stdout + done.stderr) == "nvcc-arch"


def test_what_the_linker_and_the_loader_say(tmp_path: Path) -> None:
    (tmp_path / "a.c").write_text("int _ZN3c104cuda4nopeEv(void); int f(void)"
                                  "{ return _ZN3c104cuda4nopeEv(); }\n")
    done = subprocess.run(["gcc", "-shared", "-fPIC", "a.c", "-o", "a.so", "-lcudadevrt"],
                          cwd=tmp_path, capture_output=True, text=True, check=False)
    assert first(done.stderr) == "ld-cudart"
    subprocess.run(["gcc", "-shared", "-fPIC", "a.c", "-o", "a.so"], cwd=tmp_path, check=True)
    code = "import ctypes, os; ctypes.CDLL('./a.so', mode=os.RTLD_NOW)"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True,
                          text=True, check=False)
    assert first(done.stderr) == "c10-abi"


LOG = """\
INFO 11-30 Starting server
WARNING something about capability
Traceback (most recent call last):
  File "/srv/flashinfer/comm/trtllm_ar.py", line 10, in get_trtllm_comm_module
    module = gen_trtllm_comm_module().build_and_load()
  File "/srv/flashinfer/jit/comm.py", line 60, in gen_trtllm_comm_module
    nvcc_flags = current_compilation_context.get_nvcc_flags_list(
RuntimeError: No supported CUDA architectures found for major versions [9, 10].
RuntimeError: CUDA error: an illegal memory access was encountered
RuntimeError: Engine core initialization failed. See root cause above.
"""


def test_a_log_gives_the_root_first_with_its_gate_and_the_group_that_opens_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(LOG.encode() + b"\xff\xfe\n")))
    assert main(["explain", "-"]) == 0
    lines = capsys.readouterr().out.replace("\n    ", " ").splitlines()  # continued lines
    assert lines[0].startswith("a JIT module of FlashInfer lists the major versions 9, 10 only")
    assert "  line 8: RuntimeError: No supported CUDA architectures" in lines[1]
    assert lines[2].endswith("supported_major_versions=[9, 10] in gen_trtllm_comm_module")
    assert [line.partition(":")[0] for line in lines if line.startswith("also")] == [
        "also, line 9", "also, line 10"]
    assert lines[-1] == "next: sm-patch diff flashinfer-sm120 --group trtllm-comm"


def test_an_aftermath_that_comes_first_is_not_the_root() -> None:
    text = ("RuntimeError: Engine core initialization failed.\n"
            "include/cuda_fp16.h:4492:10: fatal error: nv/target: No such file or directory\n")
    assert [answer.explanation.id for answer in explain(text.splitlines())] == [
        "no-cccl", "engine-failed"]


def test_of_two_roots_the_earlier_wins() -> None:
    later = "FileNotFoundError: [Errno 2] No such file or directory: 'ninja'"
    assert first(f"/usr/bin/ld: cannot find -lcudart\n{later}\n") == "ld-cudart"


def test_an_unknown_text(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "the moon is blue"]) == 0
    assert capsys.readouterr().out.splitlines() == ["no error that is known here",
                                                    "next: sm-patch doctor"]


def test_a_hostile_line_costs_a_moment() -> None:
    assert explain(["No such file or directory " * 200_000]) == []
    assert explain([f"XQA requires {'SM90, ' * 100_000}"] * 3)[:1]


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "KeyError: 12", "--format", "json"]) == 0
    (answer,) = json.loads(capsys.readouterr().out)["answers"]
    assert (answer["id"], answer["level"], answer["line"]) == ("arch-key", "root", 1)


def _rules_of_the_code() -> Iterator[str]:
    """The rule of every gate that some code makes: literals, RULE, and the build table."""
    yield from (rule.id for rule in build_rules())
    for module in modules().values():
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) \
                    and node.value.startswith("PY-") and node.value.isupper():
                yield node.value
            elif isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "RULE":
                yield str(ast.literal_eval(node.value))
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                place = {"Gate": 1, "_Check": 0}.get(node.func.id)
                if place is not None and len(node.args) > place:
                    rule = node.args[place]
                    if isinstance(rule, ast.Constant):
                        yield str(rule.value)


def test_the_registry_holds_exactly_the_rules_that_exist() -> None:
    assert set(rules()) == set(_rules_of_the_code())


def test_a_rule_by_its_code(capsys: pytest.CaptureFixture[str]) -> None:
    assert find_rule("PY-MAJORS") is find_rule("py-majors")
    assert main(["explain", "py-majors"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("PY-MAJORS (python): ")
    assert lines[-1] == "next: sm-patch why PACKAGE:MODULE"
    assert main(["explain", "arm", "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["rule"]["layer"] == "preprocessor"


def test_levels_are_all_in_use() -> None:
    assert {known.level for known in explanations()} == set(Level)


def test_without_a_module_the_next_command_is_one_that_runs(
        capsys: pytest.CaptureFixture[str]) -> None:
    """No placeholder of ours is left in what there is to do."""
    for known in explanations():
        assert not re.search(r"\bMODULE\b", "".join(explain([known.sample])[0].do)), known.id
    text = "No supported CUDA architectures found for major versions [9, 10]."
    assert main(["explain", text]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "next: sm-patch scan flashinfer"
    told = explain(["in gen_trtllm_comm_module", text])[0]  # a traceback names it
    assert told.do[0] == "sm-patch why flashinfer:trtllm_comm"


def test_a_file_is_read(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_bytes(b"\xff started\nRuntimeError: No supported CUDA architectures found for "
                    b"major versions [9, 10].\n")
    assert main(["explain", str(log)]) == 0
    assert "  line 2: RuntimeError: No supported" in capsys.readouterr().out
    for text in ("a\0b", "x" * 5000, str(tmp_path)):  # no files: a NUL, too long, a folder
        assert main(["explain", text]) == 0
        assert capsys.readouterr().out.startswith("no error that is known here")
