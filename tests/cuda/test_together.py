"""What units show together, part by part, is what each of them shows alone."""

from __future__ import annotations

from pathlib import Path

from patcher.cuda.model import ArmKey, ArmState, Configuration, Missing, TranslationUnit
from patcher.cuda.walk import Walker
from patcher.tree import FolderTree

SETUP = Configuration("test", include=("inc",), forced=("forced.h",))
FILES = {
    "inc/forced.h": "#define FORCED\n",
    "inc/shared.h": "#pragma once\n#include \"deep.h\"\n#if WIDE\n#include <gone.h>\n#endif\n",
    "inc/deep.h": "#ifndef DEEP\n#define DEEP\n#if __CUDA_ARCH__ >= 900\n#define NEW 1\n"
                  "#endif\n#endif\n",
    "a.cu": "#include \"shared.h\"\n",
    "b.cu": "#define WIDE 1\n#include \"shared.h\"\n#if NEW\n#elif GONE_SAYS\n#endif\n",
    "c.cu": "#include \"deep.h\"\n#include \"shared.h\"\n#endif\n",
    "d.cu": "#include \"shared.h\"\n",
}


def test_parts_hold_what_the_units_report_alone(tmp_path: Path) -> None:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    units = [TranslationUnit(name, SETUP) for name in FILES if name.endswith(".cu")]
    arms: dict[tuple[ArmKey, ArmState], set[int]] = {}
    files: dict[str, set[int]] = {}
    missing: dict[Missing, set[int]] = {}
    warnings: dict[str, set[int]] = {}
    for part, having in Walker(FolderTree(tmp_path)).gather(enumerate(units)):
        members = {number for number in range(len(units)) if having >> number & 1}
        for key in part.arms:
            arms.setdefault(key, set()).update(members)
        if part.path:
            files.setdefault(part.path, set()).update(members)
        for one in part.missing:
            missing.setdefault(one, set()).update(members)
        for text in part.warnings:
            warnings.setdefault(text, set()).update(members)
    # which unit includes what is to be read off the texts above
    assert files == {"inc/forced.h": {0, 1, 2, 3}, "inc/shared.h": {0, 1, 2, 3},
                     "inc/deep.h": {0, 1, 2, 3}, "a.cu": {0}, "b.cu": {1}, "c.cu": {2},
                     "d.cu": {3}}
    assert missing == {Missing("<gone.h>", "inc/shared.h", 4): {1}}
    assert warnings == {"c.cu:3: #endif without #if": {2}}
    for number, unit in enumerate(units):
        report = Walker(FolderTree(tmp_path)).walk(unit)
        assert {key for key, having in arms.items() if number in having} == {
            (key, state) for key, states in report.arms.items() for state in states}
    assert any(key == ("b.cu", 4) and state.unknown for (key, state) in arms)
