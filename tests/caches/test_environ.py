"""Whose caches are meant: only HOME and the atlas's variables are ever taken."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from patcher.caches import environ as module
from patcher.caches.environ import own, read_environ
from patcher.caches.registry import spec, variables
from patcher.errors import InputError, UsageError


def test_a_process_gives_its_cache_variables_and_no_secret() -> None:
    given = {"HOME": "/home/server", "FLASHINFER_WORKSPACE_BASE": "/volume",
             "HF_TOKEN": "secret", "PATH": os.environ["PATH"]}
    child = subprocess.Popen([sys.executable, "-c", "print(flush=True); input()"], env=given,
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdout is not None
    child.stdout.readline()
    try:
        taken = read_environ(f"pid:{child.pid}")
    finally:
        child.communicate(b"\n")
    assert taken.pop("USER", "") != "secret"
    assert taken == {"HOME": "/home/server", "FLASHINFER_WORKSPACE_BASE": "/volume"}
    assert not {"HF_TOKEN", "PATH", "AWS_SECRET_ACCESS_KEY"} & variables()


def test_a_file_is_read_as_docker_and_systemd_write_them(tmp_path: Path) -> None:
    file = tmp_path / "server.env"
    file.write_text('# caches\nexport HOME="/home/with space"\nTRITON_CACHE_DIR=/t\n\nSECRET=1\n'
                    "VLLM_CACHE_ROOT='/v'\nnot an assignment\n")
    taken = read_environ(f"file:{file}")
    taken.pop("USER", None)
    assert taken == {"HOME": "/home/with space", "TRITON_CACHE_DIR": "/t", "VLLM_CACHE_ROOT": "/v"}


def test_a_unit_with_drop_ins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """systemd.exec(5): later assignments win, an empty one resets, User= decides HOME."""
    etc, lib = tmp_path / "etc", tmp_path / "lib"
    (lib / "llm.service.d").mkdir(parents=True)
    (etc / "llm.service.d").mkdir(parents=True)
    (lib / "llm.service").write_text(
        '[Unit]\nEnvironment=HOME=/wrong\n[Service]\nUser=root\n'
        'Environment="FLASHINFER_WORKSPACE_BASE=/a b" TRITON_CACHE_DIR=/t SECRET=1\n'
        "Environment=SGLANG_CACHE_DIR=/s\nExecStart=x\n")
    (lib / "llm.service.d" / "10-a.conf").write_text("[Service]\nEnvironment=\n")
    (etc / "llm.service.d" / "20-b.conf").write_text(
        "[Service]\nEnvironment=VLLM_CACHE_ROOT=/v\nEnvironmentFile=-/nonexistent\n")
    monkeypatch.setattr(module, "_UNIT_FOLDERS", (str(etc), str(lib)))
    taken = read_environ("unit:llm")
    assert taken.pop("HOME") == os.path.expanduser("~root")
    assert taken == {"USER": "root", "VLLM_CACHE_ROOT": "/v"}
    (lib / "llm.service.d" / "10-a.conf").unlink()
    assert read_environ("unit:llm.service")["FLASHINFER_WORKSPACE_BASE"] == "/a b"
    with pytest.raises(InputError, match="no such unit"):
        read_environ("unit:other")


@pytest.mark.parametrize("origin", ["12", "pid:", "pid:x", "who:1", "unit:../etc/x"])
def test_other_spellings_are_usage_errors(origin: str) -> None:
    with pytest.raises(UsageError):
        read_environ(origin)


def test_a_process_that_is_gone_is_an_input_error() -> None:
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    with pytest.raises(InputError, match="no such process"):
        read_environ(f"pid:{child.pid}")


# Expected places: the packages' own rules, as the atlas quotes them with file and line.
PLACES = [
    ("flashinfer_nvcc_jit", {"HOME": "/h"}, ["/h/.cache/flashinfer"]),
    ("flashinfer_nvcc_jit", {"HOME": "/h", "FLASHINFER_WORKSPACE_BASE": "/w"},
     ["/w/.cache/flashinfer"]),
    ("triton", {"HOME": "/h", "TRITON_HOME": "/t"}, ["/t/.triton/cache"]),
    ("triton", {"HOME": "/h", "TRITON_HOME": "/t", "TRITON_CACHE_DIR": "/c"}, ["/c"]),
    ("vllm_compile", {"HOME": "/h", "XDG_CACHE_HOME": "/x"}, ["/x/vllm/torch_compile_cache"]),
    ("deepgemm_new", {"HOME": "/h", "DG_JIT_CACHE_DIR": "/a:/b"},
     ["/h/.cache/sglang/deep_gemm", "/a"]),
    ("inductor", {"HOME": "/h", "USER": "u"}, ["/tmp/torchinductor_u"]),
    ("cuda_tile", {"CUDA_TILE_CACHE_DIR": "off"}, []),
    ("jax", {"HOME": "/h"}, []),
]


@pytest.mark.parametrize(("cache", "environ", "places"), PLACES)
def test_places_follow_the_variables(cache: str, environ: dict[str, str],
                                     places: list[str]) -> None:
    assert [str(place) for place in spec(cache).folders(environ)] == places


def test_our_own_variables_are_filtered_too() -> None:
    assert own({"HOME": "/h", "USER": "u", "HF_TOKEN": "x"}) == {"HOME": "/h", "USER": "u"}
