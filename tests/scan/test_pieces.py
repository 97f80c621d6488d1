"""A table in several pieces gives back what was put, and makes only what changed."""

from __future__ import annotations

from pathlib import Path

from patcher.cuda.store import Store
from patcher.scan.stages import Stages, Table
from patcher.scan.watch import WatchedTree
from patcher.tree import FolderTree

NAMES = [str(number) for number in range(40)]


def asked(folder: Path, digests: dict[str, str], names: list[str]) -> list[str]:
    """The names for which a fresh table made a value; each value is its name and digest."""
    stages = Stages(Store(folder), "us", WatchedTree(FolderTree(folder)))
    table: Table[str] = Table(stages, "table", str, 4)
    made = []
    for name in names:
        def make(name: str = name) -> str:
            made.append(name)
            return name + digests[name]

        assert table.of(name, digests[name], make) == name + digests[name]
    table.save()
    return made


def test_only_what_changed_is_made_and_only_its_piece_written(tmp_path: Path) -> None:
    digests = dict.fromkeys(NAMES, "old")
    assert asked(tmp_path, digests, NAMES) == NAMES
    written = {path: path.read_bytes() for path in tmp_path.glob("*/*")}
    assert len(written) == 4
    assert asked(tmp_path, digests, NAMES) == []
    digests["7"] = "new"
    assert asked(tmp_path, digests, NAMES) == ["7"]
    assert sum(path.read_bytes() != data for path, data in written.items()) == 1
    assert asked(tmp_path, digests, NAMES) == []
