"""What earlier processes learnt of files and conditions changes no answer."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from patcher.cuda import shelf
from patcher.cuda.model import Configuration, TranslationUnit, UnitReport
from patcher.cuda.shelf import Shelf
from patcher.cuda.store import Store
from patcher.cuda.walk import Walker
from patcher.tree import FolderTree

SETUP = Configuration("test", include=("",), forced=())
HEADERS = 12


@pytest.fixture(autouse=True)
def _every_row_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shelf, "_FEW", 0)


def walked(project: Path, store: Path | None) -> tuple[UnitReport, int]:
    """A walk in what might be another process, and how many conditions it had to evaluate."""
    walker = Walker(FolderTree(project), store=Store(store) if store else None, reports=False)
    report = walker.walk(TranslationUnit("unit.cu", SETUP), every=True)
    walker.save()
    return report, walker._conditions.evaluations


def as_found(report: UnitReport) -> tuple[object, ...]:
    return (dict(report.arms), report.files, report.missing, report.warnings,
            dict(report.includes), dict(report.contexts))


def condition(chance: random.Random) -> str:
    """Macros that differ by world, take arguments, are pasted, undefined, or asked for by name."""
    name = f"M{chance.randrange(HEADERS)}"
    return chance.choice([
        f"__CUDA_ARCH__ >= {chance.choice([800, 900, 1000, 1200])}", f"defined({name})",
        f"{name} > {chance.randrange(4)}", f"CALL({name}, 1) && !defined(__CUDA_ARCH__)",
        f"PASTE(M, {chance.randrange(HEADERS)}) == 2 || ANY(1, 2, {name})",
        f"__has_include(<h{chance.randrange(2 * HEADERS)}.h>)", f"{name} == __LINE__",
        "__has_builtin(__builtin_expect)", f"ABSENT_{chance.randrange(3)} || {name}",
    ])


def header(number: int, chance: random.Random) -> str:
    lines = ["#pragma once"] if chance.random() < 0.5 else []
    for _ in range(chance.randrange(1, 5)):
        included = [f"#include <h{n}.h>" for n in range(number + 1, HEADERS)
                    if chance.random() < 0.2]
        lines += [f"#if {condition(chance)}", f"#undef M{number}",
                  f"#define M{number} {chance.randrange(4)}", *included[:2],
                  f"#elif {condition(chance)}", f"#define N{number}(x) x", "#endif"]
    return "\n".join([*lines, ""])


def write(project: Path, seed: int) -> None:
    chance = random.Random(seed)
    project.mkdir()
    for number in range(HEADERS):
        (project / f"h{number}.h").write_text(header(number, chance))
    (project / "unit.cu").write_text(
        "#define CALL(a, b) ((a) + b > 1)\n#define PASTE_(a, b) a##b\n"
        "#define PASTE(a, b) PASTE_(a, b)\n#define ANY(...) FIRST(__VA_ARGS__, 0)\n"
        "#define FIRST(a, ...) a\n#ifdef __CUDA_ARCH__\n#define M3 2\n#endif\n"
        + "".join(f"#include <h{n}.h>\n" for n in range(HEADERS)) + "#include <gone.h>\n")


@pytest.mark.parametrize("seed", range(3))
def test_edits_give_what_a_fresh_walk_gives(tmp_path: Path, seed: int) -> None:
    project, store = tmp_path / "project", tmp_path / "store"
    write(project, seed)
    chance = random.Random(-seed)
    for _ in range(3):
        fresh, evaluated = walked(project, None)
        kept, first = walked(project, store)
        again, second = walked(project, store)
        assert as_found(kept) == as_found(again) == as_found(fresh)
        assert second <= first <= evaluated
        number = chance.randrange(HEADERS)
        (project / f"h{number}.h").write_text(header(number, chance))


def test_what_was_evaluated_is_not_evaluated_again(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    (tmp_path / "project/unit.cu").write_text(
        "#define AT_LEAST(n) (__CUDA_ARCH__ >= n)\n#if AT_LEAST(900) && !AT_LEAST(1200)\n#endif\n")
    counts = [walked(tmp_path / "project", tmp_path / "store")[1] for _ in range(2)]
    assert counts[0] > 0
    assert counts[1] == 0


def test_rows_outlive_a_process_and_a_torn_entry_is_none(tmp_path: Path) -> None:
    first = Shelf(Store(tmp_path), "x")
    first.put("a", [1, None, "ä"])
    first.save()
    assert Shelf(Store(tmp_path), "x").get("a") == [1, None, "ä"]
    assert Shelf(Store(tmp_path), "y").get("a") is None
    (entry,) = tmp_path.glob("*/*")
    entry.write_bytes(entry.read_bytes()[:25])
    assert Shelf(Store(tmp_path), "x").get("a") is None


def test_a_full_shelf_keeps_what_was_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shelf, "_MAX_TEXT", 20)
    for name in ("old", "used"):
        one = Shelf(Store(tmp_path), "x")
        one.put(name, name)
        one.save()
    two = Shelf(Store(tmp_path), "x")
    two.get("used")
    two.put("new", "a text of some length")
    two.save()
    last = Shelf(Store(tmp_path), "x")
    assert [last.get(name) for name in ("old", "used", "new")] == [
        None, "used", "a text of some length"]


def test_a_few_new_rows_are_not_worth_writing_all_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shelf, "_FEW", 2)
    one = Shelf(Store(tmp_path), "x")
    for name in "ab":
        one.put(name, name)
    one.save()
    assert Shelf(Store(tmp_path), "x").get("a") is None
    one.put("c", "c")
    one.save()
    assert Shelf(Store(tmp_path), "x").get("a") == "a"
