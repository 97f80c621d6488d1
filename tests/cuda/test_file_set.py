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
    must not read those in the units that name them."""
    tool = next(filter(None, map(shutil.which, TOOLS)), None)
    if tool is None or not units.RELEASE.is_dir():
        pytest.skip("needs clang-scan-deps and the unpacked wheel")
    stubs = tmp_path / "stubs"
    stubs.mkdir()
    units.prepare(stubs)
    ours = {units._there(path if path.startswith("/") else str(units.RELEASE / path))
            for report in units.walk_all(stubs) for path in report.files}
    theirs, failed = units.headers_of(tool, units.compilation_database(stubs, tmp_path / "db.json"))
    assert failed == 0
    assert len(theirs) > 2000
    more = sorted(path for path in theirs - ours if "/lib/clang/" not in path)
    assert [path for path in more if _gcc_reads(path, stubs)] == []
    assert len(more) <= 3, more


def _gcc_reads(path: str, stubs: Path) -> bool:
    for source in units.sources():
        run = subprocess.run([*units.flags(stubs, "gcc"), "-M", str(units.RELEASE / source)],
                             capture_output=True, text=True, check=False)
        if Path(path).name in run.stdout:
            return True
    return False
