"""``sm-patch wheel``: what real pip and uv make of a patched wheel."""

from __future__ import annotations

import base64
import csv
import hashlib
import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

import pytest

from patcher.cli import main
from tests.conftest import WHEELS
from tests.plan.site import FILES, PATCHSET

CREATE = '''\
      - id: note
        affects: all
        reason: a file for people
        create: {file: mini/note.sh, content: "#!/bin/sh\\n", executable: true}
'''


def hashed(data: bytes) -> str:
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


def pack(path: Path, files: dict[str, str | bytes], version: str = "1.0") -> Path:
    """A wheel as build tools make them: compressed, with a script and a data folder."""
    info = f"mini-{version}.dist-info"
    members: dict[str, bytes] = {
        **{name: text.encode() if isinstance(text, str) else text
           for name, text in files.items() if ".dist-info" not in name},
        f"mini-{version}.data/scripts/mini-run": b"#!/bin/sh\necho mini\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: mini\nVersion: {version}\n\n"
                            "Version: 0 is not a header here\n".encode(),
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\n"
                         b"Tag: py3-none-any\n",
    }
    rows = [f"{name},{hashed(data)},{len(data)}\n" for name, data in members.items()]
    members[f"{info}/RECORD"] = ("".join(rows) + f"{info}/RECORD,,\n").encode()
    with ZipFile(path, "w", ZIP_DEFLATED) as archive:
        for name, data in members.items():
            entry = ZipInfo(name, (2024, 5, 6, 7, 8, 10))
            entry.compress_type = ZIP_DEFLATED
            entry.external_attr = (0o100755 if "scripts" in name else 0o100644) << 16
            archive.writestr(entry, data)
    return path


@pytest.fixture
def mini(tmp_path: Path) -> Path:
    return pack(tmp_path / "mini-1.0-py3-none-any.whl", dict(FILES))


@pytest.fixture
def build(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., dict[str, Any]]:
    """Runs the verb on a wheel and gives its JSON."""
    (tmp_path / "mini-sm120.yaml").write_text(PATCHSET + CREATE)

    def run(wheel: Path, *, folder: str = "out", patchset: str = "", expect: int = 0
            ) -> dict[str, Any]:
        (tmp_path / folder).mkdir(exist_ok=True)
        rc = main(["wheel", patchset or str(tmp_path / "mini-sm120.yaml"), str(wheel),
                   "-o", str(tmp_path / folder), "--arch", "sm_120a", "--format", "json"])
        out, err = capsys.readouterr()
        assert rc == expect, err
        found: dict[str, Any] = json.loads(out or "{}")
        return found

    return run


def contents(wheel: Path) -> dict[str, bytes]:
    with ZipFile(wheel) as archive:
        assert archive.testzip() is None
        return {name: archive.read(name) for name in archive.namelist()}


def wrong_in_record(record: str, read: Callable[[str], bytes]) -> list[str]:
    """Paths whose hash or size in RECORD is not that of what stands there."""
    wrong = []
    for path, digest, size in csv.reader(record.splitlines()):
        if digest:
            data = read(path)
            if (digest, size) != (hashed(data), str(len(data))):
                wrong.append(path)
    return wrong


def test_only_the_patched_files_and_the_metadata_differ(
    mini: Path, build: Callable[..., dict[str, Any]]
) -> None:
    made = build(mini)["wheel"]
    version, digest = made["version"], made["digest"]
    assert version == f"1.0+smpatch.{digest[:12]}"
    path = Path(made["path"])
    assert path.name == f"mini-{version}-py3-none-any.whl"
    assert hashlib.sha256(path.read_bytes()).hexdigest() == made["sha256"]
    old, new = contents(mini), contents(path)
    info, data = f"mini-{version}.dist-info", f"mini-{version}.data"
    renamed = {name.replace("mini-1.0.dist-info", info).replace("mini-1.0.data", data): content
               for name, content in old.items()}
    assert new.keys() == renamed.keys() | {"mini/note.sh"}
    assert {name for name in renamed if new[name] != renamed[name]} == {
        "mini/jit.py", "mini/kernel.cuh", "mini/unit.cu", f"{info}/METADATA", f"{info}/RECORD"}
    assert new[f"{info}/METADATA"].decode() == (
        f"Metadata-Version: 2.1\nName: mini\nVersion: {version}\n\n"
        "Version: 0 is not a header here\n")
    record = new[f"{info}/RECORD"].decode()
    assert wrong_in_record(record, new.__getitem__) == []
    assert {row[0] for row in csv.reader(record.splitlines())} == new.keys()
    with ZipFile(path) as archive:
        modes = {i.filename: i.external_attr >> 16 & 0o777 for i in archive.infolist()}
        assert modes["mini/note.sh"] == modes[f"{data}/scripts/mini-run"] == 0o755
        assert archive.getinfo("mini/__init__.py").date_time == (2024, 5, 6, 7, 8, 10)


def test_equal_input_gives_equal_bytes_and_other_groups_another_version(
    mini: Path, build: Callable[..., dict[str, Any]], tmp_path: Path
) -> None:
    first, again = build(mini), build(mini, folder="again")
    assert Path(first["wheel"]["path"]).read_bytes() == Path(again["wheel"]["path"]).read_bytes()
    (tmp_path / "less.yaml").write_text(PATCHSET)
    less = build(mini, patchset=str(tmp_path / "less.yaml"))
    assert less["wheel"]["version"] != first["wheel"]["version"]


def test_the_digest_is_that_of_an_installed_package_with_the_same_patches(
    mini: Path, build: Callable[..., dict[str, Any]], tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    made = build(mini)["wheel"]
    with ZipFile(mini) as archive:
        archive.extractall(tmp_path / "site")
    root = ["--root", str(tmp_path / "site")]
    assert main(["apply", str(tmp_path / "mini-sm120.yaml"), *root, "--arch", "sm_120a"]) == 0
    capsys.readouterr()
    assert main(["status", "--digest", *root]) == 0
    assert capsys.readouterr().out.strip() == made["digest"]


def test_nothing_to_do_writes_nothing_and_a_conflict_is_refused(
    build: Callable[..., dict[str, Any]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mini-sm120.yaml").write_text(PATCHSET)
    opened = {**FILES, "mini/jit.py": FILES["mini/jit.py"].replace("10]", "10, 12]"),
              "mini/kernel.cuh": FILES["mini/kernel.cuh"].replace(" && (__CUDA_ARCH__ < 1200)", "")}
    found = build(pack(tmp_path / "mini-1.0-py3-none-any.whl", dict(opened)))
    assert (found["changed"], found["wheel"]) == (False, None)
    closed = {**FILES, "mini/jit.py": "def gen():\n    return build(other=[9, 10])\n"}
    build(pack(tmp_path / "mini-1.0-py3-none-any.whl", dict(closed)), expect=3)
    assert not list((tmp_path / "out").iterdir())


@pytest.mark.parametrize(("version", "expected"), [
    ("0.7.2.post1", "0.7.2.post1+smpatch."), ("0.2+cu128", "0.2+cu128.smpatch."),
    ("1.0rc1", "1.0rc1+smpatch."),
])
def test_versions_with_parts_of_their_own(
    version: str, expected: str, build: Callable[..., dict[str, Any]], tmp_path: Path
) -> None:
    wheel = pack(tmp_path / f"mini-{version}-py3-none-any.whl", dict(FILES), version)
    made = build(wheel)["wheel"]
    assert made["version"].startswith(expected)


def test_links_and_broken_wheels_are_refused(
    mini: Path, build: Callable[..., dict[str, Any]], tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    link = "      - id: link\n        symlink: {link: mini/lib64, target: jit.py}\n"
    (tmp_path / "link.yaml").write_text(PATCHSET + link)
    build(mini, patchset=str(tmp_path / "link.yaml"), expect=3)
    broken = tmp_path / "mini-1.1-py3-none-any.whl"
    broken.write_bytes(mini.read_bytes()[:-40])
    assert main(["wheel", str(tmp_path / "link.yaml"), str(broken)]) == 2
    assert "not a readable wheel" in capsys.readouterr().err


def venv(folder: Path) -> Path:
    """An environment without pip of its own; pip is told where to install."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    return folder / "bin" / "python"


def site(python: Path) -> Path:
    code = "import sysconfig; print(sysconfig.get_path('purelib'))"
    return Path(subprocess.run([python, "-c", code], capture_output=True, text=True,
                               check=True).stdout.strip())


@pytest.fixture
def uv() -> str:
    found = shutil.which("uv") or shutil.which("uv", path=str(Path(sys.executable).parent))
    if found is None:
        pytest.skip("uv is not here; `pip install uv`")
    return found


def installed_well(python: Path, version: str) -> None:
    """The environment's own Python sees the version, and RECORD fits the files."""
    code = "import importlib.metadata as m; print(m.version('mini'))"
    said = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == version
    root = site(python)
    record = (root / f"mini-{version}.dist-info/RECORD").read_text()
    assert wrong_in_record(record, lambda path: (root / path).read_bytes()) == []
    assert "[9, 10, 12]" in (root / "mini/jit.py").read_text()
    assert (python.parent / "mini-run").is_file()


@pytest.mark.parametrize("tool", ["pip", "uv"])
def test_installers_take_it(
    tool: str, mini: Path, build: Callable[..., dict[str, Any]], tmp_path: Path, uv: str
) -> None:
    made = build(mini)["wheel"]
    python = venv(tmp_path / "venv")
    pip = [sys.executable, "-m", "pip", "--python", str(python)]
    command: Iterable[str] = [*pip, "install", "--no-index", "--quiet", made["path"]]
    if tool == "uv":
        command = [uv, "pip", "install", "--offline", "--quiet", "--python", str(python),
                   "--cache-dir", str(tmp_path / "cache"), made["path"]]
    subprocess.run([*command], check=True)
    installed_well(python, made["version"])


def test_a_lock_file_pins_it(
    mini: Path, build: Callable[..., dict[str, Any]], tmp_path: Path, uv: str
) -> None:
    made = build(mini)["wheel"]
    (tmp_path / "in.txt").write_text("mini==1.0\n")  # a local part satisfies the plain version
    common = ["--offline", "--quiet", "--no-index", "--find-links", str(tmp_path / "out"),
              "--cache-dir", str(tmp_path / "cache")]
    subprocess.run([uv, "pip", "compile", "--generate-hashes", *common, str(tmp_path / "in.txt"),
                    "-o", str(tmp_path / "lock.txt")], check=True)
    lock = (tmp_path / "lock.txt").read_text()
    assert f"mini=={made['version']}" in lock
    assert made["sha256"] in lock
    python = venv(tmp_path / "venv")
    subprocess.run([uv, "pip", "sync", *common, "--python", str(python),
                    str(tmp_path / "lock.txt")], check=True)
    installed_well(python, made["version"])


@pytest.mark.wheels
def test_flashinfer(
    unpacked: Callable[[str, str], Path], build: Callable[..., dict[str, Any]]
) -> None:
    folder = unpacked("flashinfer-python", "0.6.3")
    wheel = WHEELS / "flashinfer_python-0.6.3-py3-none-any.whl"
    made = build(wheel, patchset="flashinfer-sm120")["wheel"]
    new = contents(Path(made["path"]))
    info = f"flashinfer_python-{made['version']}.dist-info"
    assert wrong_in_record(new[f"{info}/RECORD"].decode(), new.__getitem__) == []
    changed = {name for name, data in new.items()
               if info not in name and (folder / name).read_bytes() != data}
    assert changed == {
        "flashinfer/jit/comm.py", "flashinfer/jit/fused_moe.py", "flashinfer/jit/gemm/core.py",
        "flashinfer/data/csrc/trtllm_allreduce.cu",
        "flashinfer/data/include/flashinfer/comm/trtllm_allreduce.cuh"}
    assert b'__version__ = "0.6.3"' in new["flashinfer/_build_meta.py"]
