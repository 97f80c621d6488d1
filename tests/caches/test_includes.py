"""The textual closure of a host file: all that g++ reads, and nothing in a comment line."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from patcher.caches.includes import Includes

SOURCES = {
    "main.cpp": '#include "near.h"\n\t # \tinclude <a/far.h>\n  int x; // #include "comment.h"\n'
                '#if 0\n#include "never.h"\n#endif\n#include "a/missing-in-near.h"\n'
                '#include\t"last.h"',
    "near.h": '#pragma once\n#include "a/far.h"\n', "never.h": "", "last.h": "", "comment.h": "",
    "inc/a/far.h": '#pragma once\n#include "beside.h"\n', "inc/a/beside.h": "",
    "inc/a/missing-in-near.h": "",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in SOURCES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.mark.skipif(not shutil.which("g++"), reason="no g++")
def test_it_holds_all_that_the_compiler_reads(folder: Path) -> None:
    rule = subprocess.run(["g++", "-MM", "-I", "inc", "main.cpp"], cwd=folder, check=True,
                          capture_output=True, text=True).stdout
    read = {str(folder / name) for name in rule.replace("\\\n", " ").split()[1:]}
    closure = Includes().closure(str(folder / "main.cpp"), (str(folder / "inc"),))
    # conditions are ignored, so what stands under #if 0 counts, too
    assert closure.files == read | {str(folder / "never.h")}
    assert closure.complete
    assert not closure.missing


def test_what_no_folder_has_is_missing(folder: Path) -> None:
    (folder / "last.h").unlink()
    os.rename(folder / "inc" / "a", folder / "inc" / "b")
    closure = Includes().closure(str(folder / "main.cpp"), (str(folder / "inc"),))
    assert closure.missing == {"a/far.h", "a/missing-in-near.h", "last.h"}


def test_an_include_by_macro_leaves_it_incomplete(folder: Path) -> None:
    (folder / "last.h").write_text("#include HEADER\n")
    assert not Includes().closure(str(folder / "main.cpp"), (str(folder / "inc"),)).complete
