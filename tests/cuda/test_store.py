"""What is kept on disk never outlives what it was made from."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from patcher.changes import Modify
from patcher.cuda.model import Configuration, TranslationUnit, UnitReport
from patcher.cuda.store import Store
from patcher.cuda.walk import Walker
from patcher.tree import ChangedTree, FolderTree

SETUP = Configuration("test", include=("first", "second"), forced=())
PADDING = "// a file worth keeping\n" * 1000
FILES = {
    "unit.cu": '#include <lib.h>\n#if LIB > 1 && __CUDA_ARCH__ >= 900\n#endif\n#include <gone.h>\n',
    "second/lib.h": f"#pragma once\n#define LIB 2\n{PADDING}", "first/other.h": "",
}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / "project" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "project" / name).write_text(text)
    return tmp_path / "project"


def walk(project: Path, store: Path | None, setup: Configuration = SETUP) -> UnitReport:
    walker = Walker(FolderTree(project), store=Store(store) if store else None)
    return walker.walk(TranslationUnit("unit.cu", setup))


def as_found(report: UnitReport) -> tuple[object, ...]:
    return (dict(report.arms), report.files, report.missing, report.warnings, dict(report.includes))


def test_a_kept_report_equals_a_fresh_one(project: Path, tmp_path: Path) -> None:
    fresh = walk(project, None)
    first, second = walk(project, tmp_path / "store"), walk(project, tmp_path / "store")
    assert as_found(fresh) == as_found(first) == as_found(second)
    assert fresh.arms


@pytest.mark.parametrize("change", [
    ("second/lib.h", "#define LIB 1\n"),  # a header changed
    ("first/lib.h", "#define LIB 0\n"),  # one that comes first in the path appeared
    ("first/gone.h", "#define LIB 7\n"),  # a missing one appeared
    ("unit.cu", FILES["unit.cu"] + "#ifdef __CUDA_ARCH__\n#endif\n"),
])
def test_a_change_is_seen(project: Path, tmp_path: Path, change: tuple[str, str]) -> None:
    before = walk(project, tmp_path / "store")
    (project / change[0]).write_text(change[1])
    after = walk(project, tmp_path / "store")
    assert as_found(after) == as_found(walk(project, None))
    assert as_found(after) != as_found(before)


def test_another_configuration_is_another_report(project: Path, tmp_path: Path) -> None:
    walk(project, tmp_path / "store")
    other = Configuration("test", include=("first", "second"), forced=(), defines=(("LIB", "3"),),
                          open_macros=frozenset({"LIB"}))
    report = walk(project, tmp_path / "store", other)
    assert as_found(report) == as_found(walk(project, None, other))


def test_a_spoilt_entry_is_ignored(project: Path, tmp_path: Path) -> None:
    store = tmp_path / "store"
    fresh = walk(project, store)
    entries = [p for p in store.glob("*/*") if p.is_file()]
    assert len(entries) == 2  # the report and the listings
    for spoil in (lambda b: b[: len(b) // 2], lambda b: b[:25] + b"x" + b[26:], lambda b: b""):
        for path in entries:
            path.write_bytes(spoil(path.read_bytes()))
        assert as_found(walk(project, store)) == as_found(fresh)
    assert as_found(walk(project, Path("/proc/no/such/place"))) == as_found(fresh)


def test_the_store_stays_within_its_limit(tmp_path: Path) -> None:
    store = Store(tmp_path, max_bytes=20_000)
    for number in range(100):
        store.put(f"{number:040d}", [str(n * number) for n in range(300)])
    store.prune()
    assert 0 < sum(p.stat().st_size for p in tmp_path.glob("*/*")) <= 20_000


WRITER = """
import sys
from pathlib import Path
from patcher.cuda.store import Store
store = Store(Path(sys.argv[1]))
for number in range(100):
    store.put("ab" + f"{number % 5}" * 38, ["x" * 1000 * (number % 7)])
"""


def test_writers_do_not_tear_each_others_entries(tmp_path: Path) -> None:
    root = Path(__file__).parents[2]
    command = [sys.executable, "-c", WRITER, str(tmp_path)]
    writers = [subprocess.Popen(command, cwd=root) for _ in range(3)]
    store = Store(tmp_path)
    while any(writer.poll() is None for writer in writers):
        for number in range(5):
            entry = store.get("ab" + f"{number}" * 38)
            assert entry is None or set("".join(entry)) <= {"x"}
    assert all(writer.returncode == 0 for writer in writers)
    assert all(store.get("ab" + f"{number}" * 38) is not None for number in range(5))
    assert not list(tmp_path.glob("*/.*"))


def test_a_changed_tree_shares_what_its_changes_leave_alone(tmp_path: Path) -> None:
    # outer.h itself is untouched, but what it includes is not: its record must not be replayed
    files = {"unit.cu": '#include "outer.h"\n#include "other.h"\n#if DEEP\n#endif\n',
             "outer.h": '#include "inner.h"\n', "other.h": "#define OTHER 1\n",
             "inner.h": "#define DEEP (__CUDA_ARCH__ < 1000)\n"}
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    tree = FolderTree(tmp_path)
    unit = TranslationUnit("unit.cu", Configuration("t", forced=()))
    new = b"#define DEEP (__CUDA_ARCH__ < 1200)\n"
    changed = ChangedTree(tree, [Modify("inner.h", files["inner.h"].encode(), new)])
    before = Walker(tree)
    old = before.walk(unit, every=True)
    shared, alone = (w.walk(unit, every=True) for w in (before.on(changed), Walker(changed)))
    assert shared == alone != old
    assert before.walk(unit, every=True) == old
    with pytest.raises(ValueError, match="another tree"):
        before.on(ChangedTree(FolderTree(tmp_path), []))
