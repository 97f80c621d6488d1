"""Every ``sm-patch`` command in the documentation is run, page by page, as it stands there."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.conftest import REPOSITORY, WHEELS

PAGES = [*sorted((REPOSITORY / "docs").glob("*.md")), REPOSITORY / "CONTRIBUTING.md"]
EXCEPTIONS: list[dict[str, Any]] = yaml.safe_load(
    Path(__file__).with_name("commands.yaml").read_text("utf-8"))
LINE = re.compile(r"^(?:    |\$ |    \$ )(?:RUN )?((?:sm-patch|cp) .*?)(?:\s{2,}#.*)?$")
FILE = re.compile(r"^```yaml\n# (\S+\.yaml)\n(.*?)^```", re.MULTILINE | re.DOTALL)
WRITTEN_BY_A_COMMAND = {"tour.md", "benchmarks.md"}  # by `make demo` and `make bench`


@dataclass(frozen=True)
class Command:
    """One line of a page; ``codes`` are the exit codes it may have."""

    line: str
    codes: tuple[int, ...] = (0,)


def commands(page: Path) -> list[Command]:
    """The commands of a page in order, as they are run here."""
    found = []
    for line in page.read_text("utf-8").splitlines():
        matched = LINE.match(line)
        if not matched:
            continue
        text, codes = matched[1], (0,)
        for row in EXCEPTIONS:
            if not re.search(row["in"], text):
                continue
            if "elsewhere" in row:
                break
            text = re.sub(row["in"], row.get("as", r"\g<0>"), text)
            codes = tuple(row.get("code", codes))
        else:
            found.append(Command(text, codes))
    return found


class Reader:
    """A reader's folder: a venv with two packages, an image, some libraries, a server."""

    def __init__(self, folder: Path, packages: list[Path], pid: int) -> None:
        self.folder, self.pid = folder, pid
        site = self._venv()
        for package in packages:
            shutil.copytree(package, site, dirs_exist_ok=True, symlinks=True)
        shutil.copytree(packages[0], folder / "image" / "site-packages", symlinks=True)
        for wheel in WHEELS.glob("flashinfer_python-0.6.3-*.whl"):
            shutil.copy(wheel, folder)
        shutil.copytree(REPOSITORY / "corpus" / "mini", folder / "corpus" / "mini")
        (folder / "server.env").write_text(f"HOME={folder}/server\n", "utf-8")
        self._library(folder / "libraries" / "libc10.so")
        self._library(folder / "common_ops.abi3.so")
        (site / "sgl_kernel").mkdir()
        shutil.copy(folder / "common_ops.abi3.so", site / "sgl_kernel")
        (site / "sgl_kernel" / "__init__.py").touch()

    def _venv(self) -> Path:
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", self.folder / ".venv"],
                       check=True)
        (site,) = (self.folder / ".venv" / "lib").glob("python3.*/site-packages")
        return site

    def _library(self, path: Path) -> None:
        path.parent.mkdir(exist_ok=True)
        subprocess.run(["cc", "-shared", "-x", "c", "-", "-o", path], check=True,
                       input=b"int c10_stand_in(int x) { return x; }\n")

    def run(self, command: Command) -> str | None:
        """What is wrong with it, or None."""
        environment = {
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(self.folder / "home"),
            "XDG_CACHE_HOME": str(self.folder.parent / "cache"),  # what other pages scanned
            **{name: os.environ[name] for name in ("CUDA_HOME",) if name in os.environ},
        }
        done = subprocess.run(command.line.format(pid=self.pid), shell=True, cwd=self.folder,
                              env=environment, capture_output=True, text=True, check=False)
        if done.returncode in command.codes:
            return None
        return f"{command.line}: exit {done.returncode}, not {command.codes}: {done.stderr[-600:]}"


@pytest.fixture(scope="module")
def server() -> Iterator[int]:
    """A process with an environment of its own."""
    process = subprocess.Popen(["sleep", "3600"], env={"HOME": "/nonexistent"})
    yield process.pid
    process.kill()
    process.wait()


def test_the_pages_have_commands() -> None:
    assert sum(len(commands(page)) for page in PAGES) > 20


@pytest.mark.parametrize("row", EXCEPTIONS, ids=lambda row: str(row["in"]))
def test_every_exception_is_needed(row: dict[str, Any]) -> None:
    lines = [matched[1] for page in PAGES for line in page.read_text("utf-8").splitlines()
             if (matched := LINE.match(line))]
    assert any(re.search(row["in"], line) for line in lines)
    if "tests/" in row.get("elsewhere", ""):
        assert (REPOSITORY / row["elsewhere"]).exists()


@pytest.mark.slow
@pytest.mark.wheels
@pytest.mark.nvcc
@pytest.mark.parametrize(
    "page", [page for page in PAGES if page.name not in WRITTEN_BY_A_COMMAND and commands(page)],
    ids=lambda page: str(page.stem))
def test_the_commands_of_a_page_do_what_they_say(
    page: Path, unpacked: Callable[[str, str], Path], nvcc: Path, server: int, tmp_path: Path
) -> None:
    reader = Reader(tmp_path, [unpacked("flashinfer-python", "0.6.3"), unpacked("sglang", "0.5.9"),
                               unpacked("apache-tvm-ffi", "0.1.15.post2")], server)
    for name, text in FILE.findall(page.read_text("utf-8")):
        (reader.folder / name).write_text(text, "utf-8")
    wrong = [message for command in commands(page) if (message := reader.run(command))]
    assert not wrong, "\n".join(wrong)
