"""``sm-patch check``: outcomes over releases, from folders, lock files and pip."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest

from patcher.cli import main
from tests.conftest import WHEELS
from tests.plan.site import FILES, OPEN, PATCHSET

OLD, NEW = dict(FILES), {
    **FILES,
    "mini/jit.py": FILES["mini/jit.py"].replace("[9, 10]", "[9, 10, 12]"),
    "mini/kernel.cuh": f"__global__ void body() {{\n{OPEN}  work();\n#endif\n}}\n",
}
RESPELLED = {**FILES, "mini/kernel.cuh": FILES["mini/kernel.cuh"].replace("< 1200", "<= 1199")}
Pack = Callable[..., Path]


@pytest.fixture
def pack(tmp_path: Path) -> Pack:
    """``pack("1.0", OLD)``: a wheel of mini in the folder ``wheels``."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    (tmp_path / "mini-sm120.yaml").write_text(PATCHSET)

    def write(version: str, files: dict[str, str], label: str = "") -> Path:
        path = folder / f"mini-{version}-py3-none-any.whl"
        info = f"mini-{version}.dist-info"
        metadata = f"Metadata-Version: 2.1\nName: mini\nVersion: {label or version}\n"
        with ZipFile(path, "w") as archive:
            for name, text in files.items():
                if ".dist-info" not in name:
                    archive.writestr(name, text)
            archive.writestr(f"{info}/METADATA", metadata)
            archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\n"
                                              "Tag: py3-none-any\n")
            archive.writestr(f"{info}/RECORD", "")
        return path

    return write


def check(tmp_path: Path, capsys: pytest.CaptureFixture[str], *arguments: str | Path,
          expect: int = 0) -> dict[str, Any]:
    """The JSON of a check of mini-sm120 that ends with ``expect``."""
    rc = main(["check", str(tmp_path / "mini-sm120.yaml"), *map(str, arguments),
               "--arch", "sm_120a", "--cuda", "12.8", "--format", "json"])
    out, err = capsys.readouterr()
    assert rc == expect, err
    found: dict[str, Any] = json.loads(out)
    return found


def outcomes(found: dict[str, Any]) -> dict[str, str]:
    return {row["releases"][0]["version"]: row["groups"][0]["outcome"] for row in found["rows"]}


def test_gates_decide_over_all_wheels_of_a_folder(
    pack: Pack, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for version, files in (("1.0", OLD), ("1.10", NEW), ("2.0", NEW), ("1.9", RESPELLED)):
        pack(version, files)
    found = check(tmp_path, capsys, "--wheels", tmp_path / "wheels", expect=1)
    assert outcomes(found) == {"1.0": "applicable", "1.9": "conflict", "1.10": "not-needed",
                               "2.0": "not-needed"}
    assert [row["releases"][0]["version"] for row in found["rows"]] == ["1.0", "1.9", "1.10", "2.0"]
    assert found["summary"] == {"applicable": 1, "conflict": 1, "not-needed": 2}
    assert "mini/kernel.cuh" in found["rows"][1]["groups"][0]["reason"]


def test_a_label_never_makes_a_closed_gate_open(
    pack: Pack, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pack("1.0", OLD, label="2.1")
    found = check(tmp_path, capsys, "--wheels", tmp_path / "wheels", expect=1)
    assert outcomes(found) == {"1.0": "conflict"}  # fixed-in 2, and still closed


def test_text_has_a_table_reasons_and_the_next_command(
    pack: Pack, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    respelled = pack("1.0", RESPELLED)
    pack("1.1", OLD)
    arguments = ["check", str(tmp_path / "mini-sm120.yaml"), "--wheels", str(respelled.parent),
                 "--cuda", "12.8", "--arch", "sm_120a"]
    assert main(arguments) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "2 releases: 1 applicable, 1 conflict"
    assert lines[2:6] == ["mini-sm120", "  mini  main", "  1.0   conflict", "  1.1   applicable"]
    assert lines[-1] == f"next: sm-patch scan --arch sm_120a --cuda 12.8 {respelled}"
    assert main([*arguments, "--versions", "1.1"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == (
        "next: sm-patch diff --arch sm_120a --cuda 12.8 mini-sm120")


def test_a_release_that_is_not_there_is_missing(
    pack: Pack, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pack("1.0", OLD)
    found = check(tmp_path, capsys, "--wheels", tmp_path / "wheels", "--versions", "1.0,3.0")
    assert outcomes(found) == {"1.0": "applicable", "3.0": "missing"}
    assert "no wheel of mini 3.0" in found["rows"][1]["groups"][0]["reason"]


LOCKS = {
    "requirements.txt": "# comment\nother==9\nmini[extra]==1.1 \\\n    --hash=sha256:{hash}\n"
                        "mini==0.1 ; python_version < '3'\nloose>=1\n",
    "uv.lock": 'version = 1\n[[package]]\nname = "other"\n'
               '[[package]]\nname = "mini"\nversion = "1.1"\n',
    "pylock.toml": 'lock-version = "1.0"\n[[packages]]\nname = "mini"\nversion = "1.1"\n',
}


@pytest.mark.parametrize("name", LOCKS)
def test_lock_files(
    pack: Pack, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    pack("1.0", OLD)
    pack("1.1", NEW)
    (tmp_path / name).write_text(LOCKS[name].replace("{hash}", "0" * 64))
    found = check(tmp_path, capsys, "--wheels", tmp_path / "wheels", "--against", tmp_path / name)
    assert outcomes(found) == {"1.1": "not-needed"}


def test_what_a_lock_leaves_open_is_said(
    pack: Pack, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pack("1.0", OLD)
    (tmp_path / "r.txt").write_text("mini>=1\n-r other.txt\n")
    rc = main(["check", str(tmp_path / "mini-sm120.yaml"), "--against", str(tmp_path / "r.txt"),
               "--wheels", str(tmp_path / "wheels")])
    out, err = capsys.readouterr()
    assert rc == 0
    assert out.startswith("nothing to check: no release of a package")
    assert "not pinned: mini>=1" in err
    assert "not followed: -r other.txt" in err


def _offline(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Real pip, with the folder as its only index and a cache of the test's own."""
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "wheels"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def test_pip_fetches_into_the_cache_once(
    pack: Pack, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    wheel = pack("1.0", OLD)
    _offline(monkeypatch, tmp_path)
    assert outcomes(check(tmp_path, capsys, "--versions", "1.0")) == {"1.0": "applicable"}
    assert (tmp_path / "cache/sm-patch/wheels" / wheel.name).read_bytes() == wheel.read_bytes()
    wheel.unlink()
    assert outcomes(check(tmp_path, capsys, "--versions", "1.0")) == {"1.0": "applicable"}
    found = check(tmp_path, capsys, "--versions", "1.1")
    assert outcomes(found) == {"1.1": "missing"}
    assert "No matching distribution found" in found["rows"][0]["groups"][0]["reason"]


def test_a_wheel_that_is_not_the_locked_one_is_not_used(
    pack: Pack, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pack("1.0", OLD)
    _offline(monkeypatch, tmp_path)
    (tmp_path / "r.txt").write_text(f"mini==1.0 --hash=sha256:{'0' * 64}\n")
    found = check(tmp_path, capsys, "--against", tmp_path / "r.txt")
    assert outcomes(found) == {"1.0": "missing"}
    assert not list((tmp_path / "cache").rglob("*.whl"))


@pytest.mark.parametrize(("arguments", "message"), [
    ([], "name patchsets, or use --all"),
    (["flashinfer-sm120"], "which releases?"),
    (["--all", "--versions", "0.6.3"], "which package is 0.6.3 a version of?"),
    (["flashinfer-sm120", "--versions", "latest"], "'latest' is not a version"),
    (["flashinfer-sm120", "--wheels", "nowhere"], "not a folder"),
])
def test_usage(capsys: pytest.CaptureFixture[str], arguments: list[str], message: str) -> None:
    assert main(["check", *arguments]) == 2
    assert message in capsys.readouterr().err


# Upstream: PR 3903 (all-reduce) is in 0.6.17; PRs 2780 and 2913 (barriers) are in 0.6.8; the
# router's module moved in 0.6.5 and its list was rewritten for 0.7.
REAL = {
    "0.5.3": ("applicable", "applicable", "unsupported"),
    "0.6.3": ("applicable", "applicable", "applicable"),
    "0.6.6": ("applicable", "applicable", "applicable"),
    "0.6.7": ("applicable", "applicable", "applicable"),
    "0.6.8": ("applicable", "not-needed", "applicable"),
    "0.6.17": ("not-needed", "not-needed", "applicable"),
    "0.7.4": ("not-needed", "not-needed", "unsupported"),
}


@pytest.mark.wheels
@pytest.mark.slow
def test_flashinfer_over_seven_releases(
    unpacked: Callable[[str, str], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    for version in REAL:
        unpacked("flashinfer-python", version)  # says how to get what is not here
    assert main(["check", "flashinfer-sm120", "--wheels", str(WHEELS), "--arch", "sm_120a",
                 "--format", "json", "--versions", ",".join(REAL)]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert {row["releases"][0]["version"]: tuple(g["outcome"] for g in row["groups"])
            for row in rows} == REAL
