"""Input made to hurt: time and memory stay bounded, and the place is named."""

from __future__ import annotations

import resource
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from patcher.cuda.directives import parse
from patcher.cuda.model import Configuration, TranslationUnit, UnitReport
from patcher.cuda.walk import Walker
from patcher.errors import InputError
from patcher.tree import FolderTree

SECONDS = 12.0  # of CPU; each takes about one, the machine may be slow


@pytest.fixture(autouse=True)
def _bounded() -> Iterator[None]:
    start = time.process_time()
    yield
    assert time.process_time() - start < SECONDS


def walk(folder: Path, unit: str, **files: str) -> UnitReport:
    (folder / "unit.cu").write_text(unit)
    for name, text in files.items():
        (folder / f"{name}.h").write_text(text)
    setup = Configuration("test", forced=())
    return Walker(FolderTree(folder)).walk(TranslationUnit("unit.cu", setup))


def test_a_file_that_includes_itself_twice(tmp_path: Path) -> None:
    report = walk(tmp_path, '#include "a.h"\n', a='#include "a.h"\n#include "a.h"\n')
    assert any("200 levels deep" in w and w.startswith("a.h:1:") for w in report.warnings)


def test_a_circle_of_headers_with_conditions(tmp_path: Path) -> None:
    report = walk(tmp_path, '#include "a.h"\n', a='#if __CUDA_ARCH__\n#include "b.h"\n#endif\n',
                  b='#define X\n#include "a.h"\n')
    assert report.warnings


def test_a_macro_that_doubles(tmp_path: Path) -> None:
    doubling = "".join(f"#define M{n} M{n + 1} M{n + 1}\n" for n in range(40))
    report = walk(tmp_path, doubling + "#define M40 1\n" + "#if M0\n#endif\n" * 200)
    assert len(report.arms) == 200
    assert any("expands without end" in w and w.startswith("unit.cu:42:") for w in report.warnings)


def test_macro_arguments_without_end(tmp_path: Path) -> None:
    call = "F(" * 5000 + "1" + ")" * 5000
    report = walk(tmp_path, f"#define F(x) x x\n#if {call}\n#endif\n")
    assert any("unit.cu:2:" in w for w in report.warnings)


def test_deep_parentheses_and_operators(tmp_path: Path) -> None:
    report = walk(tmp_path, f"#if {'(' * 50_000}1{')' * 50_000}\n#endif\n"
                            f"#if {'!' * 50_000}1\n#endif\n#if 1{' + 1' * 50_000}\n#endif\n")
    assert sum("nested too deep" in w for w in report.warnings) == 2
    assert not any("unit.cu:5" in w for w in report.warnings)


def test_operators_and_parentheses_deepen_together(tmp_path: Path) -> None:
    """199 operators on each of 150 levels are 30,000 levels, though neither alone is many."""
    report = walk(tmp_path, f"#if {('!' * 199 + '(') * 150}1{')' * 150}\n#endif\n"
                            f"#if {'0, ' * 100_000}1\n#define LAST\n#endif\n"
                            "#ifdef LAST\n#endif\n")
    assert [w for w in report.warnings if "nested too deep" in w] == [
        w for w in report.warnings if w.startswith("unit.cu:1:")] != []
    assert not any("unit.cu:3" in w for w in report.warnings)


def test_a_hundred_thousand_nested_ifs(tmp_path: Path) -> None:
    report = walk(tmp_path, "#if 1\n" * 100_000)
    assert any("within each other" in w for w in report.warnings)
    assert len(parse(b"#if 1\n" * 100_000).ladders) == 100_000


def test_an_unterminated_if_is_named(tmp_path: Path) -> None:
    report = walk(tmp_path, "\n#if __CUDA_ARCH__\n")
    assert "unit.cu:2: unterminated #if" in report.warnings
    assert ("unit.cu", 2) in report.arms


def test_a_hundred_megabytes(tmp_path: Path) -> None:
    with (tmp_path / "big.h").open("wb") as handle:
        for _ in range(100):
            handle.write(b"int x; /* */ \"s\"\n" * (1 << 16))
    report = walk(tmp_path, '#include "big.h"\n#if AFTER\n#endif\n')
    assert any("big.h is larger" in w for w in report.warnings)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < 1 << 20  # KiB
    # nobody read it, so nobody knows what it defines
    assert report.arms["unit.cu", 2][0].decided_by == ("AFTER",)


def test_a_condition_of_megabytes(tmp_path: Path) -> None:
    report = walk(tmp_path, f"#if 1{' || 1' * 500_000}\n#endif\n#define M {'x ' * 1_000_000}\n"
                            "#if M\n#endif\n")
    assert [w.split(": ", 1)[1] for w in report.warnings] == [
        "the condition is too long", "a macro is too long"]


def test_raw_strings_that_never_end() -> None:
    with pytest.raises(InputError):
        parse(b"#if 1\n#endif\n" + b'R"(' * 2_000_000)


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    (tmp_path / "unit.cu").write_bytes(bytes(range(256)) * 4000 + b"\n#if __CUDA_ARCH__\n#endif\n")
    setup = Configuration("test", forced=())
    report = Walker(FolderTree(tmp_path)).walk(TranslationUnit("unit.cu", setup))
    assert len(report.arms) == 1


def test_a_device_in_place_of_a_header(tmp_path: Path) -> None:
    (tmp_path / "zero.h").symlink_to("/dev/zero")
    report = walk(tmp_path, '#include "zero.h"\n')
    assert any("zero.h" in w for w in report.warnings)


def test_a_link_out_of_the_root_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "outside.h").write_text("#define SECRET 1\n")
    root = tmp_path / "root"
    root.mkdir()
    (root / "a.h").symlink_to(tmp_path / "outside.h")
    report = walk(root, '#include "a.h"\n#if SECRET\n#endif\nint rest;\n')
    assert "a.h" not in report.files
    assert [m.include.strip('"') for m in report.missing] == ["a.h"]


class _Vanishing:
    """A tree of which one file is listed and gone when it is read."""

    def __init__(self, base: FolderTree, gone: str) -> None:
        self.base, self.gone, self.root = base, gone, base.root
        self.names, self.folders = base.names, base.folders

    def read(self, path: str) -> bytes:
        if path == self.gone:
            raise FileNotFoundError(path)
        return self.base.read(path)


def test_a_path_that_vanishes_leaves_the_rest(tmp_path: Path) -> None:
    unit = '#include "a.h"\n#include "b.h"\n#if __CUDA_ARCH__ >= B\n#endif\n'
    (tmp_path / "unit.cu").write_text(unit)
    (tmp_path / "a.h").write_text("#define A 1\n")
    (tmp_path / "b.h").write_text("#define B 900\n")
    tree = _Vanishing(FolderTree(tmp_path), "a.h")
    report = Walker(tree).walk(TranslationUnit("unit.cu", Configuration("test", forced=())))
    assert "b.h" in report.files
    assert any("unit.cu:1: cannot read a.h" in warning for warning in report.warnings)
    assert ("unit.cu", 3) in report.arms
