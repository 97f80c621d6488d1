"""Other tools that patch installed packages, each driven the way its manual says."""

from __future__ import annotations

import base64
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

Command = Sequence[str | Path]
VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"


@dataclass(frozen=True)
class Patch:
    """Edits of unique texts by file of the package ``demo``, and new files."""

    name: str
    edits: Mapping[str, tuple[str, str]]
    creates: Mapping[str, str] = field(default_factory=dict)


def wheel(folder: Path, files: Mapping[str, str]) -> Path:
    """The distribution ``demo`` 1.0, whose package holds these files."""
    target = folder / "demo-1.0-py3-none-any.whl"
    rows = {f"demo/{name}": text for name, text in {"__init__.py": "", **files}.items()}
    info = "demo-1.0.dist-info"
    rows[f"{info}/METADATA"] = "Metadata-Version: 2.1\nName: demo\nVersion: 1.0\n"
    rows[f"{info}/WHEEL"] = "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    rows[f"{info}/RECORD"] = "".join(
        f"{name},sha256={_record(text)},{len(text)}\n" for name, text in rows.items()
    ) + f"{info}/RECORD,,\n"
    with zipfile.ZipFile(target, "w") as archive:
        for name, text in rows.items():
            archive.writestr(name, text)
    return target


def _record(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


def unified(patch: Patch, files: Mapping[str, str], prefix: str) -> str:
    """The patch as ``git diff`` writes it, made against the files as released."""
    with tempfile.TemporaryDirectory() as scratch:
        for side in ("a", "b"):
            for name, text in files.items():
                if name in patch.edits and side == "b":
                    text = text.replace(*patch.edits[name])
                if name in patch.edits:
                    _write(Path(scratch, side, prefix, name), text)
        for name, text in patch.creates.items():
            _write(Path(scratch, "b", prefix, name), text)
        Path(scratch, "a").mkdir(exist_ok=True)
        run = subprocess.run(["git", "diff", "--no-index", "--no-prefix", "a", "b"], cwd=scratch,
                             capture_output=True, check=False)
    return run.stdout.decode()


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode())


class Tool:
    """One tool on one installed copy. ``prefix`` is how its patches name the package's folder."""

    name, prefix = "", "demo"
    single = True  # one patch can be taken back alone

    def __init__(self, case: Path, files: Mapping[str, str], link_mode: str) -> None:
        self.case, self.files = case, files
        self.install(link_mode)

    @property
    def site(self) -> Path:
        return self.case / "venv" / "lib" / f"python{VERSION}" / "site-packages"

    @property
    def home(self) -> Path:
        """The package's folder."""
        return self.site / "demo"

    def install(self, link_mode: str) -> None:
        self.uv("venv", "-q", "--python", sys.executable, self.case / "venv")
        self.uv("pip", "install", "-q", "--link-mode", link_mode, "--python",
                self.case / "venv", wheel(self.case, self.files), *self.needs())

    def uv(self, *arguments: str | Path) -> None:
        subprocess.run([uv(), *arguments], check=True, capture_output=True, env={
            **os.environ, "UV_CACHE_DIR": str(self.case.parent / "uv-cache")})

    def uninstall(self) -> None:
        self.uv("pip", "uninstall", "-q", "--python", self.case / "venv", "demo")

    def reinstall(self) -> None:
        self.uv("pip", "install", "-q", "--reinstall", "--python", self.case / "venv",
                self.case / "demo-1.0-py3-none-any.whl")

    def needs(self) -> tuple[str, ...]:
        return ()

    def written(self, patch: Patch) -> Path:
        """The patch as a file of this tool's kind; made once."""
        path = self.case / f"{patch.name}.patch"
        if not path.exists():
            path.write_text(unified(patch, self.files, self.prefix), newline="")
        return path

    def apply(self, patch: Patch) -> Command:
        raise NotImplementedError

    def revert(self, patch: Patch) -> Command | None:
        raise NotImplementedError

    def run(self, command: Command) -> int:
        return self.start(command).wait()

    def start(self, command: Command) -> subprocess.Popen[bytes]:
        """In a session of its own, so that a kill meets all of it."""
        return subprocess.Popen(command, cwd=self.cwd, stdin=subprocess.DEVNULL,
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                start_new_session=True)

    @property
    def cwd(self) -> Path:
        return self.site


def uv() -> str:
    beside = Path(sys.executable).with_name("uv")
    return str(beside if beside.exists() else shutil.which("uv") or "uv")


class GnuPatch(Tool):
    name = "patch -p1 -N"

    def apply(self, patch: Patch) -> Command:
        return ["patch", "-p1", "-N", "-i", self.written(patch)]

    def revert(self, patch: Patch) -> Command:
        return ["patch", "-p1", "-R", "-i", self.written(patch)]


class GitApply(Tool):
    name = "git apply"

    def apply(self, patch: Patch) -> Command:
        return ["git", "apply", "-p1", self.written(patch)]

    def revert(self, patch: Patch) -> Command:
        return ["git", "apply", "-R", "-p1", self.written(patch)]


class Quilt(Tool):
    name = "quilt"

    def apply(self, patch: Patch) -> Command:
        self.written(patch)
        known = self.site / "patches" / f"{patch.name}.patch"
        add = "" if known.exists() else f"quilt import ../../../../{patch.name}.patch && "
        return ["sh", "-c", f"{add}quilt push {patch.name}.patch"]

    def revert(self, patch: Patch) -> Command:
        # taking one out of the middle: pop down to it, delete it, push the rest
        return ["sh", "-c", (f"quilt pop {patch.name}.patch; quilt pop && "
                f"quilt delete {patch.name}.patch && (quilt push -a || test $? = 2)")]


class PatchPackage(Tool):
    name, prefix = "patch-package", "node_modules/demo"

    @property
    def home(self) -> Path:
        return self.case / "app" / "node_modules" / "demo"

    @property
    def cwd(self) -> Path:
        return self.case / "app"

    def install(self, link_mode: str) -> None:
        for name, text in self.files.items():
            _write(self.home / name, text)
        _write(self.home / "package.json", '{"name": "demo", "version": "1.0.0"}')
        _write(self.cwd / "package.json", '{"name": "app", "version": "1.0.0"}')

    def uninstall(self) -> None:
        subprocess.run(["npm", "uninstall", "--offline", "demo"], cwd=self.cwd,
                       capture_output=True, check=False)

    def reinstall(self) -> None:
        shutil.rmtree(self.home)
        self.install("")

    def _folder(self, patch: Patch) -> str:
        folder = self.cwd / f"patches-{patch.name}"
        if not folder.exists():
            folder.mkdir()
            shutil.copy(self.written(patch), folder / "demo+1.0.0.patch")
        return folder.name

    def apply(self, patch: Patch) -> Command:
        return [os.environ["PATCH_PACKAGE"], "--error-on-fail", "--patch-dir",
                self._folder(patch)]

    def revert(self, patch: Patch) -> Command:
        return [*self.apply(patch), "--reverse"]


class VenvPatcher(Tool):
    name, prefix, single = "venv-patcher", "", False

    def needs(self) -> tuple[str, ...]:
        return ("venv-patcher",)

    def written(self, patch: Patch) -> Path:
        """With the head of a mail: it is given to ``git am``."""
        path = self.case / f"{patch.name}.patch"
        if not path.exists():
            super().written(patch)
            head = (f"From {'0' * 40} Mon Sep 17 00:00:00 2001\nFrom: A <a@example.org>\n"
                    "Date: Mon, 1 Jan 2024 00:00:00 +0000\nSubject: [PATCH] change\n\n---\n")
            path.write_bytes(head.encode() + path.read_bytes())
        return path

    def apply(self, patch: Patch) -> Command:
        listed = self.case / f"{patch.name}.yml"
        listed.write_text("version: 1\npatches:\n"
                          f"  - package: demo\n    path: {self.written(patch).name}\n")
        return [self.case / "venv/bin/venv-patcher", "apply", "-f", listed]

    def revert(self, patch: Patch) -> Command:
        return [self.case / "venv/bin/venv-patcher", "reset"]


class P12y(Tool):
    name = "patch-package-py"

    def apply(self, patch: Patch) -> Command:
        folder = self.case / f"work-{patch.name}" / "patches"
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copy(self.written(patch), folder / "demo+1.0.patch")
        return ["sh", "-c", (f"cd {folder.parent} && {os.environ['P12Y']} apply "
                f"-e {self.case / 'venv'}")]

    def revert(self, patch: Patch) -> None:
        return None


class Ansible(Tool):
    name = "ansible.posix.patch"

    def _module(self, patch: Patch, state: str) -> Command:
        return [os.environ["ANSIBLE"], "localhost", "-c", "local", "-m", "ansible.posix.patch",
                "-a", (f"src={self.written(patch)} basedir={self.site} strip=1 remote_src=yes "
                f"state={state}")]

    def apply(self, patch: Patch) -> Command:
        return self._module(patch, "present")

    def revert(self, patch: Patch) -> Command:
        return self._module(patch, "absent")


class SmPatch(Tool):
    name = "sm-patch"

    def _patchset(self, patch: Patch) -> Path:
        path = self.case / f"{patch.name}.yaml"
        rows = ["sm-patch: 1", f"name: {patch.name}", "package: demo", "groups:",
                "  - id: main", "    patches:"]
        for number, (file, (find, replace)) in enumerate(patch.edits.items()):
            rows += [f"      - id: e{number}", "        affects: all", "        reason: a test",
                     "        unreached: allow",
                     f"        text: {{file: demo/{file}, find: {find!r}, replace: {replace!r}}}"]
        for number, (file, text) in enumerate(patch.creates.items()):
            rows += [f"      - id: c{number}", "        affects: all", "        reason: a test",
                     f"        create: {{file: demo/{file}, content: {text!r}}}"]
        path.write_text("\n".join(rows).replace("'", '"') + "\n")
        return path

    def _verb(self, verb: str, *arguments: str | Path) -> Command:
        return [sys.executable, "-m", "patcher", verb, *arguments,
                "--python", self.case / "venv"]

    def apply(self, patch: Patch) -> Command:
        return self._verb("apply", self._patchset(patch), "--group", "main")

    def revert(self, patch: Patch) -> Command:
        return self._verb("revert", patch.name)

    def uninstall(self) -> None:
        super().uninstall()
        self.run(self._verb("status"))


TOOLS: tuple[type[Tool], ...] = (GnuPatch, GitApply, Quilt, PatchPackage, VenvPatcher, P12y,
                                 Ansible, SmPatch)
