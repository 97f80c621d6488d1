"""The Dockerfile, built by a real buildah on a real Debian, and run with a read-only root.

Runs as root where buildah and debootstrap are installed; no daemon is needed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from tests.conftest import REPOSITORY

RECIPES = REPOSITORY / "fleet" / "container"
MIRROR = "http://deb.debian.org/debian"
LOCK = "sm-patch.lock"
# a root that cannot be written but for /tmp and the volume at /mnt
READ_ONLY = """set -e
mount --bind "$1" "$1"; mount -o remount,bind,ro "$1"
mount -t tmpfs none "$1/tmp"; mount --bind "$2" "$1/mnt"
root=$1; shift 2; exec chroot "$root" env -i PATH=/usr/bin:/bin HOME=/mnt "$@"
"""

pytestmark = [
    pytest.mark.slow, pytest.mark.wheels, pytest.mark.network,
    pytest.mark.skipif(
        os.geteuid() != 0 or not (shutil.which("buildah") and shutil.which("debootstrap")),
        reason="needs root, buildah and debootstrap"),
]


class Buildah:
    """Images in a folder of the test."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.store = ["buildah", "--storage-driver", "vfs", "--root", str(folder / "images"),
                      "--runroot", str(folder / "run")]

    def __call__(self, *words: str | Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run([*self.store, *words], check=False, capture_output=True, text=True)

    def out(self, *words: str | Path) -> str:
        done = self(*words)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout.strip()

    def build(self, context: Path, *options: str) -> subprocess.CompletedProcess[str]:
        return self("bud", "--isolation", "chroot", "--build-arg", "BASE=localhost/base", *options,
                    "--file", RECIPES / "Dockerfile", "--tag", "patched", context)

    def run(self, *words: str, volume: Path) -> subprocess.CompletedProcess[str]:
        root = self.out("mount", self.out("from", "localhost/patched"))
        return subprocess.run(
            ["unshare", "-m", "bash", "-c", READ_ONLY, "-", root, volume, *words],
            check=False, capture_output=True, text=True)


@pytest.fixture(scope="module")
def buildah(tmp_path_factory: pytest.TempPathFactory, unpacked: Callable[[str, str], Path]
            ) -> Iterator[Buildah]:
    """With an image "base": Debian's Python, and a venv with FlashInfer."""
    folder = tmp_path_factory.mktemp("container")
    root = folder / "debian"
    subprocess.run(["debootstrap", "--variant=minbase", "--include=python3,python3-venv",
                    "bookworm", root, MIRROR], check=True, capture_output=True)
    subprocess.run(["chroot", root, "python3", "-m", "venv", "--without-pip", "/opt/venv"],
                   check=True)
    (site,) = root.glob("opt/venv/lib/python3*/site-packages")
    shutil.copytree(unpacked("flashinfer-python", "0.6.3"), site, dirs_exist_ok=True)
    tool = Buildah(folder)
    container = tool.out("from", "scratch")
    tool.out("add", container, root, "/")
    tool.out("commit", "--rm", container, "base")
    yield tool
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def context(copy_of: Callable[..., Path], tmp_path: Path) -> Path:
    """The zipapp, and what a reviewer's machine has locked."""
    folder = tmp_path / "context"
    folder.mkdir()
    subprocess.run([sys.executable, "-m", "uv", "build", "--quiet", "--wheel", "--out-dir",
                    tmp_path, REPOSITORY], check=True)
    (wheel,) = tmp_path.glob("*.whl")
    subprocess.run([sys.executable, REPOSITORY / "fleet" / "zipapp" / "build.py", wheel, "-o",
                    folder / "sm-patch.pyz", "--python", "3.11"], check=True, capture_output=True)
    subprocess.run([Path(sys.executable).parent / "sm-patch", "apply", "flashinfer-sm120", "--root",
                    copy_of("flashinfer-python", "0.6.3"), "--force", "--write-lock",
                    folder / LOCK], check=True, capture_output=True)
    return folder


def test_an_image_is_patched_as_locked_and_runs_with_a_read_only_root(
    buildah: Buildah, context: Path, tmp_path: Path
) -> None:
    refused = buildah.build(context)  # no compiler is in this base
    assert refused.returncode != 0
    assert "there is no nvcc" in refused.stderr + refused.stdout

    built = buildah.build(context, "--build-arg", "OPTIONS=--force")
    assert built.returncode == 0, built.stderr
    locked = yaml.safe_load((context / LOCK).read_text("utf-8"))["packages"][0]["digest"]
    (entry,) = [line for line in (RECIPES / "Dockerfile").read_text("utf-8").splitlines()
                if line.startswith("ENTRYPOINT")]
    words = yaml.safe_load(entry.removeprefix("ENTRYPOINT "))

    volume = tmp_path / "volume"
    old = volume / ".cache" / "flashinfer" / "0.6.3"
    old.mkdir(parents=True)
    started = buildah.run(*words, "env", volume=volume)
    assert started.returncode == 0, started.stderr
    environment = dict(line.split("=", 1) for line in started.stdout.splitlines())
    assert environment["SM_PATCH_DIGEST"] == locked
    assert environment["FLASHINFER_WORKSPACE_BASE"].startswith("/mnt/.cache/sm-patch/epoch/")

    other = buildah.run("SM_PATCH_DIGEST=beef", *words, "env", volume=volume)
    assert (other.returncode, other.stdout) == (1, "")
    assert "SM_PATCH_DIGEST" in other.stderr


def test_the_deployment_runs_what_the_image_expects() -> None:
    pod = yaml.safe_load((RECIPES / "deployment.yaml").read_text("utf-8"))["spec"]["template"]
    (container,) = pod["spec"]["containers"]
    assert "command" not in container  # it would replace the entry point that checks
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    mounted = {mount["name"] for mount in container["volumeMounts"]}
    assert mounted == {volume["name"] for volume in pod["spec"]["volumes"]}
