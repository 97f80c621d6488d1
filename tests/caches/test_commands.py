"""The verbs on a real environment of our own, through the command line as users run it."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from patcher.caches.stamp import read_stamps
from patcher.edits import Edit, Span
from patcher.engine.digest import package_digest
from patcher.engine.request import GroupChange, PatchChange, PatchsetChange, Request
from patcher.engine.target import sha256
from patcher.lockfile import Locked, write_lock
from patcher.package.environment import find_environment
from patcher.package.find import find_package
from patcher.session import writing
from patcher.state import StateHome, find_home
from patcher.transaction import NoCaches
from tests.caches.test_invalidate import DEEP
from tests.caches.workspace import Workspace

pytestmark = pytest.mark.nvcc


class Sited:
    """The toy package as an installed one (--root), patched by the real engine."""

    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace
        info = workspace.site / "flashinfer_python-0.6.3.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: flashinfer-python\n"
                                       "Version: 0.6.3\n")
        (workspace.site / "flashinfer" / "__init__.py").write_text("")
        files = sorted(p for p in workspace.site.rglob("*") if p.is_file())
        (info / "RECORD").write_text("".join(
            f"{p.relative_to(workspace.site)},,\n" for p in files))

    @property
    def home(self) -> StateHome:
        return find_home(prefix=None, root=self.workspace.site, state=None)

    def patch(self) -> None:
        """Change the deep header, without telling any cache."""
        environment = find_environment(None, str(self.workspace.site))
        package = find_package("flashinfer", environment)
        old = (self.workspace.site / DEEP).read_bytes()
        at = old.index(b"2.f")
        edit = Edit(Span(at, at + 3), b"3.f")
        group = GroupChange("g", (PatchChange("p", package, {DEEP: (edit,)}),))
        request = Request((PatchsetChange("toy", "0" * 64, (group,), frozenset({"g"})),))
        with writing(self.home, NoCaches()) as session:
            session.commit(session.stage(request, {package.name: package}), NoCaches())

    def run(self, *words: str | Path, code: int = 0, extra: dict[str, str] | None = None) -> str:
        """stdout of the tool; its talk is shown when the exit code is another."""
        done = subprocess.run(
            [sys.executable, "-m", "patcher", *words], text=True, check=False,
            capture_output=True, cwd=Path(__file__).parents[2],
            env={"PATH": os.environ["PATH"], **self.workspace.environ, **(extra or {})})
        assert done.returncode == code, done.stderr
        return done.stdout or done.stderr


@pytest.fixture
def sited(workspace: Workspace) -> Sited:
    return Sited(workspace)


def test_a_start_of_a_container_brings_an_old_volume_in_line(sited: Sited) -> None:
    sited.patch()
    root = ("--root", sited.workspace.site)
    listed = json.loads(sited.run("caches", "list", *root, "--format", "json"))
    (jit,) = [row for row in listed["caches"] if row["cache"] == "flashinfer_nvcc_jit"]
    assert {Path(a["path"]).name for a in jit["stale"]} == {"uses_deep.cuda.o", "toy.so"}
    assert jit["bytes"] > 0
    first = json.loads(sited.run("caches", "invalidate", "--if-changed", *root, "--format", "json"))
    assert {Path(a["path"]).name for a in first["caches"]} == {"uses_deep.cuda.o", "toy.so"}
    assert first["version"] == 1
    assert sited.workspace.build("toy") == {"uses_deep.cuda.o", "toy.so"}
    again = json.loads(sited.run("caches", "invalidate", "--if-changed", *root, "--format", "json"))
    assert (again["changed"], again["caches"]) == (False, [])
    assert "nothing to drop" in sited.run("caches", "invalidate", "--if-changed", *root)
    digest = package_digest(sited.home, sited.home.journal(), "flashinfer-python", "0.6.3")
    assert read_stamps(sited.workspace.cache)["flashinfer-python 0.6.3"].digest == digest


def test_an_unpatched_image_over_a_patched_volume(sited: Sited, tmp_path: Path) -> None:
    """No journal here, and the cache tells that it was filled by patched files."""
    sited.patch()
    root = ("--root", sited.workspace.site)
    sited.run("caches", "invalidate", "--if-changed", *root)
    sited.workspace.build("toy")
    text = (sited.workspace.site / DEEP).read_text().replace("3.f", "2.f")
    sited.workspace.write(DEEP, text)
    fresh = ("--state", tmp_path / "empty-state")
    done = json.loads(sited.run("caches", "invalidate", "--if-changed", *root, *fresh,
                                "--format", "json"))
    assert {Path(a["path"]).name for a in done["caches"]} == {"uses_deep.cuda.o", "toy.so"}
    assert not (tmp_path / "empty-state").exists()


def test_invalidate_without_if_changed_drops_again(sited: Sited) -> None:
    sited.patch()
    for _ in range(2):
        done = json.loads(sited.run("caches", "invalidate", "--root", sited.workspace.site,
                                    "--format", "json"))
        assert done["changed"]
        sited.workspace.build("toy")


def test_env_prints_an_epoch_that_a_shell_takes(sited: Sited) -> None:
    root = ("--root", sited.workspace.site)
    assert sited.run("env", *root, "--format", "json").count("FLASHINFER") == 0
    sited.patch()
    script = sited.run("env", *root)
    told = subprocess.run(["sh", "-c", f"{script}\nenv"], capture_output=True, text=True,
                          check=True).stdout
    values = dict(line.partition("=")[::2] for line in told.splitlines())
    as_json = json.loads(sited.run("env", *root, "--format", "json"))["variables"]
    assert as_json["FLASHINFER_WORKSPACE_BASE"] == values["FLASHINFER_WORKSPACE_BASE"]
    assert "/sm-patch/epoch/" in values["FLASHINFER_WORKSPACE_BASE"]
    assert values["FLASHINFER_CUBIN_DIR"] == str(sited.workspace.cache / "cubins")
    assert sited.run("env", *root, "--format", "env").splitlines() == [
        f"{name}={value}" for name, value in sorted(as_json.items())]


def test_caches_alone_lists_what_is_there(sited: Sited) -> None:
    told = sited.run("caches")
    assert str(sited.workspace.cache) in told
    assert "flashinfer_nvcc_jit" in told
    assert "torch_cpp_extension" not in told
    everything = json.loads(sited.run("caches", "list", "--all", "--format", "json"))["caches"]
    assert {"triton", "ccache"} <= {row["cache"] for row in everything}


def test_run_becomes_the_command_with_the_epoch(sited: Sited) -> None:
    sited.patch()
    told = sited.run("run", "--root", sited.workspace.site, "--", "sh", "-c",
                     "echo $FLASHINFER_WORKSPACE_BASE $SM_PATCH_DIGEST; exit 7", code=7)
    base, digest = told.split()
    assert "/sm-patch/epoch/" in base
    assert digest == package_digest(sited.home, sited.home.journal(), "flashinfer-python", "0.6.3")


@pytest.mark.parametrize("lock_says", ["", "same", "other"])
@pytest.mark.parametrize("variable_says", ["", "same", "other"])
def test_run_refuses_another_digest(sited: Sited, tmp_path: Path, lock_says: str,
                                    variable_says: str) -> None:
    """Each expectation counts, also beside one that is met: the recipe's image has a lock file,
    and its deployment sets the variable."""
    sited.patch()
    words: list[str | Path] = ["run", "--root", sited.workspace.site]
    digest = package_digest(sited.home, sited.home.journal(), "flashinfer-python", "0.6.3")
    digests = {"same": digest, "other": "0" * 64}
    if lock_says:
        lock = tmp_path / "servers.lock"
        write_lock(lock, [Locked("flashinfer-python", "0.6.3", digests[lock_says])])
        words += ["--lock", lock]
    extra = {"SM_PATCH_DIGEST": digests[variable_says]} if variable_says else {}
    wrong = "other" in (lock_says, variable_says)
    told = sited.run(*words, "--", "echo", "started", code=int(wrong), extra=extra)
    assert ("started" in told) is not wrong
    assert (digest[:12] in told) is wrong
    assert ("next: sm-patch " in told) is wrong


def test_run_refuses_a_patch_that_was_lost(sited: Sited) -> None:
    sited.patch()
    text = (sited.workspace.site / DEEP).read_text().replace("3.f", "2.f")
    sited.workspace.write(DEEP, text)  # as a reinstall does
    told = sited.run("run", "--root", sited.workspace.site, "--", "echo", "started", code=1)
    assert "toy/g: lost" in told


def test_run_starts_when_it_cannot_tell_what_a_prebuilt_module_shadows(sited: Sited) -> None:
    sited.patch()
    aot = sited.workspace.site / "flashinfer/data/aot/toy"
    aot.mkdir(parents=True)
    (aot / "toy.so").write_bytes((sited.workspace.ops / "toy" / "toy.so").read_bytes())
    told = sited.run("run", "--root", sited.workspace.site, "--", "echo", "started")
    assert "started" in told, "which module the header belongs to is unknown here"


def test_the_digest_follows_the_rule(sited: Sited) -> None:
    """semantics: SHA-256 over ``name version``, then ``path NUL sha256`` lines by path."""
    sited.patch()
    content = sha256((sited.workspace.site / DEEP).read_bytes())
    text = b"flashinfer-python 0.6.3\n" + DEEP.encode() + b"\0" + content.encode() + b"\n"
    told = sited.run("run", "--root", sited.workspace.site, "--", "sh", "-c",
                     "echo $SM_PATCH_DIGEST")
    assert told.strip() == hashlib.sha256(text).hexdigest()
