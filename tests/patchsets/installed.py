"""A folder with the files of real releases, and patchsets on it."""

from __future__ import annotations

import shutil
import tarfile
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from patcher.arch import DEVICE, ArchSet
from patcher.cli import main
from patcher.python.index import Index
from patcher.python.match import match_gates
from patcher.python.model import GateSpec
from patcher.tree import FolderTree


def unpack(archive: Path, root: Path) -> None:
    """A wheel into the folder; a source archive as the folder."""
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as wheel:
            wheel.extractall(root)
        return
    with tarfile.open(archive) as source:
        # the first releases of 3.10 and 3.11 know no filter; the archive is the pinned one
        safe: dict[str, Any] = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
        source.extractall(root.parent, **safe)
    shutil.move(str(root.parent / archive.name.removesuffix(".tar.gz")), root)


@dataclass(frozen=True)
class Installed:
    """The folder; the state is kept beside it."""

    root: Path

    def run(self, verb: str, *arguments: str, arch: str = "sm_120a") -> int:
        """One verb of sm-patch here, with CUDA 13.0."""
        target = () if verb == "revert" else ("--cuda", "13.0", "--arch", arch)
        return main([verb, *arguments, "--root", str(self.root),
                     "--state", str(self.root.parent / "state"), *target])

    def bytes(self) -> dict[str, bytes]:
        """Every file."""
        return {str(path.relative_to(self.root)): path.read_bytes()
                for path in sorted(self.root.rglob("*")) if path.is_file()}

    def text(self, path: str) -> str:
        return (self.root / path).read_text("utf-8")

    def passes(self, path: str, gate: str, within: str = "") -> ArchSet:
        """The devices that pass the one gate of that name, as sm-patch reads it."""
        tree = FolderTree(self.root)
        spec = GateSpec(gate, within, DEVICE, ArchSet(0), 1, None)
        (found,) = match_gates(tree.read(path), path, spec, Index(tree, path))
        return found.worlds_before & DEVICE
