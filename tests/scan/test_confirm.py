"""The second methods that precision rests on contradict where they should."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from patcher.arch import target
from patcher.gates import Layer, Location
from tests.python.apart import Apart
from tests.report.made import gate
from tests.scan.confirm import Confirm, compiled

GOAL, REFERENCES = target("sm_120a"), (target("sm_90a"), target("sm_100a"))
SOURCE = '''\
import torch
from functools import lru_cache

SIZES: dict[int, int] = {9: 1, 10: 2}
MAJORS = [9, 10]
_ready = None

class Keeper:
    def __init__(self, forced=None):
        self.forced = forced
        self.is_new = torch.cuda.get_device_capability()[0] in (9, 10)

    @supported_compute_capability([90, 100])
    def run(self, name):
        major, minor = torch.cuda.get_device_capability()
        def inner():
            return major == 10
        use = False
        if self.forced:
            use = self.forced
        else:
            use = major == 9
        last = open("/etc/hostname").read()
        return major
'''


@pytest.fixture(scope="module")
def confirm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Confirm]:
    root = tmp_path_factory.mktemp("package")
    (root / "made").mkdir()
    (root / "made" / "a.py").write_text(SOURCE)
    with Apart(root, "made", ["made/a.py"]) as other:
        yield Confirm(root, other, REFERENCES)


@pytest.mark.parametrize(("rule", "condition", "confirmed"), [
    ("PY-IF", "major in MAJORS", True),
    ("PY-IF", "major >= 9", False),
    ("PY-IF", "inner()", True),
    ("PY-IF", "use", False),  # forced may be true on any device
    ("PY-IF", "self.is_new and _ready is not None", True),
    ("PY-IF", "self.forced is False and major < 11", True),
    ("PY-IF", "name and self.forced", False),
    ("PY-REFUSAL", "major > 10", True),
    ("PY-REFUSAL", "major == 9", False),
    ("PY-TABLE", "SIZES.get(major)", True),
    ("PY-TABLE", "SIZES[9]", False),
    ("PY-MAJORS", "supported_major_versions=MAJORS", True),
    ("PY-MAJORS", "supported_major_versions=[9, 12]", False),
    ("PY-DECORATOR", "@supported_compute_capability([90, 100])", True),
    ("PY-DECORATOR", "@supported_compute_capability([100, 120])", False),
    ("PY-GENCODE", "['-gencode=arch=compute_90a,code=sm_90a']", True),
    ("PY-GENCODE", "['-gencode=arch=compute_120f,code=sm_120f']", False),
])
def test_python(confirm: Confirm, rule: str, condition: str, confirmed: bool) -> None:
    line = SOURCE[: SOURCE.index("        return major\n")].count("\n") + 1
    asked = gate("made/a.py", line, condition, layer=Layer.PYTHON, rule=rule,
                 location=Location("made/a.py", line, line))
    assert confirm.gate(asked, GOAL) is confirmed


def test_it_runs_nothing_that_the_text_does_not_define(tmp_path: Path) -> None:
    """No file is read or made, no module is imported, and an endless test ends."""
    (tmp_path / "made").mkdir()
    (tmp_path / "made" / "a.py").write_text(
        f"def touch():\n    open({str(tmp_path / 'made' / 'x')!r}, 'w')\n    return True\n"
        "def load():\n    import os\n    return os.getpid() > 0\n")
    with Apart(tmp_path, "made", ["made/a.py"]) as other:
        assert other.ask("answers", "made/a.py", 6, "touch()", GOAL) == [True]
        assert set(other.ask("answers", "made/a.py", 6, "load()", GOAL)) == {True, False}
    assert [p.name for p in (tmp_path / "made").iterdir()] == ["a.py"]


@pytest.mark.parametrize(("condition", "on_90", "on_120"), [
    ("device_properties.major == 9", True, False),
    ("!(sm_version != 90)", True, False),
    ("std::get<0>(device_props) == 10 || std::get<1>(device_props) > 3", False, False),
    ("mSM == kSM_90 || mSM == kSM_120", True, True),
    ("version_num >= 120 && version_num < 130", False, True),
    ("major * 10 + minor > 100", False, True),
])
def test_gcc_answers_for_checks(condition: str, on_90: bool, on_120: bool) -> None:
    assert compiled(condition, [target("sm_90a"), GOAL]) == [on_90, on_120]
