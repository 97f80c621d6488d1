"""Every file that clang-scan-deps finds for a release's units is one that the walker reads."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from bench import units

pytestmark = [pytest.mark.slow, pytest.mark.wheels, pytest.mark.nvcc]
TOOLS = [f"clang-scan-deps{suffix}" for suffix in ("", "-21", "-20", "-19", "-18", "-14")]


def test_no_file_of_clang_scan_deps_is_missed(tmp_path: Path) -> None:
    """clang's own headers aside, and what a header asks of clang alone: gcc, with nvcc's macros,
    must not read that in the unit that clang reads it in."""
    tool = next(filter(None, map(shutil.which, TOOLS)), None)
    if tool is None or not units.RELEASE.is_dir():
        pytest.skip("needs clang-scan-deps and the unpacked wheel")
    stubs = tmp_path / "stubs"
    stubs.mkdir()
    units.prepare(stubs)
    ours = {units._there(path if path.startswith("/") else str(units.RELEASE / path))
            for report in units.walk_all(stubs) for path in report.files}
    database = units.compilation_database(stubs, tmp_path / "db.json")
    theirs, failed = units.headers_of(tool, database)
    assert failed == 0
    assert len(theirs) > 2000
    more = sorted(path for path in theirs - ours if "/lib/clang/" not in path)
    assert len(more) <= 3, more
    for path in more:
        source = _first_unit_with(path, tool, database)
        run = subprocess.run([*units.flags(stubs, "gcc"), "-M", source], capture_output=True,
                             text=True, check=False)
        assert ".cu" in run.stdout[:400], run.stderr[:400]
        assert _tail(path) not in run.stdout, (path, source)


def _first_unit_with(path: str, tool: str, database: Path) -> str:
    """The first unit whose rule names the file."""
    run = subprocess.run([tool, "-j", "1", f"-compilation-database={database}"],
                         capture_output=True, text=True, check=False)
    rules = run.stdout.replace("\\\n", " ").splitlines()
    return next(rule.split()[1] for rule in rules if _tail(path) in rule)


def _tail(path: str) -> str:
    """Folder and name: compilers spell what stands before that in many ways."""
    return "/".join(("", *Path(path).parts[-2:]))
