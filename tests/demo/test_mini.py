"""The miniature package that keeps the demo alive offline."""

from __future__ import annotations

import base64
import csv
import filecmp
import hashlib
import subprocess
import sys
from pathlib import Path

import pytest

MINI = Path(__file__).resolve().parents[2] / "corpus" / "mini"
VERSIONS = ["0.6.3", "0.7.4"]


def _run(*arguments: str, code: int = 0) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "patcher", *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("version", VERSIONS)
def test_its_record_is_right(version: str) -> None:
    """As the wheel format says: urlsafe base64 of SHA-256 without padding, and the size."""
    root = MINI / version
    (record,) = root.glob("*.dist-info/RECORD")
    rows = {row[0]: row[1:] for row in csv.reader(record.read_text("utf-8").splitlines())}
    files = {path.relative_to(root).as_posix(): path for path in root.rglob("*") if path.is_file()}
    assert rows.keys() == files.keys()
    for name, path in files.items():
        if path == record:
            continue
        data = path.read_bytes()
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        assert rows[name] == [f"sha256={digest}", str(len(data))], name


def _same(one: Path, other: Path) -> bool:
    names = {path.relative_to(one) for path in one.rglob("*") if path.is_file()}
    if names != {path.relative_to(other) for path in other.rglob("*") if path.is_file()}:
        return False
    return all(filecmp.cmp(one / name, other / name, shallow=False) for name in names)


@pytest.fixture
def old(tmp_path: Path) -> Path:
    subprocess.run(["cp", "-r", MINI / "0.6.3", tmp_path / "packages"], check=True)
    return tmp_path / "packages"


def test_apply_gives_what_the_later_release_has_and_revert_takes_it_back(old: Path) -> None:
    """The later miniature is the earlier one with each edit made by hand."""
    place = ["--root", str(old), "--arch", "sm_120a"]
    _run("apply", "flashinfer-sm120", *place)
    changed = {
        path.relative_to(old)
        for path in old.rglob("*")
        if path.is_file()
        and not path.match("*.dist-info/*")
        and not filecmp.cmp(path, MINI / "0.6.3" / path.relative_to(old), shallow=False)
    }
    assert {path.name for path in changed} == {
        "comm.py",
        "core.py",
        "fused_moe.py",
        "trtllm_allreduce.cu",
        "trtllm_allreduce.cuh",
    }
    for path in changed:
        assert (old / path).read_text() == (MINI / "0.7.4" / path).read_text()
    _run("apply", "flashinfer-sm120", *place)
    _run("revert", "flashinfer-sm120", "--root", str(old))
    assert _same(old, MINI / "0.6.3")


def test_nothing_to_do_on_the_later_release(tmp_path: Path) -> None:
    subprocess.run(["cp", "-r", MINI / "0.7.4", tmp_path / "packages"], check=True)
    root = tmp_path / "packages"
    diff = _run("diff", "flashinfer-sm120", "--root", str(root), "--arch", "sm_120a")
    assert "@@" not in diff
    _run("apply", "flashinfer-sm120", "--root", str(root), "--arch", "sm_120a")
    assert _same(root, MINI / "0.7.4")
