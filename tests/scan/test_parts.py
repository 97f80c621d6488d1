"""After an edit a scan says what one without a cache says, and walks only what it reaches."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pytest

from patcher.arch import target
from patcher.cuda.store import Store
from patcher.package.find import find_package
from patcher.package.model import Environment
from patcher.profiles import profile_for
from patcher.scan import kept
from patcher.scan.model import Options, Report
from patcher.toolchain.find import find_toolkit

COMMON = "#pragma once\n#define FIRST 900\n"
GUARD = '''#include "common.h"
__global__ void {0}(int* p) {{
#if __CUDA_ARCH__ >= FIRST && __CUDA_ARCH__ < {1}
  *p = 1;
#endif
}}
'''
HOST = '''#include "b.h"
void launch() {
  int major; cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0);
  if (major != 9) throw 1;
}
'''
PYTHON = '''import torch
def f():
    if torch.cuda.get_device_capability()[0] not in (9, 10):
        raise ValueError
'''
FILES = {
    "pkg/__init__.py": PYTHON,
    "pkg/include/common.h": COMMON, "pkg/include/a.h": GUARD.format("first", 1200),
    "pkg/include/b.h": GUARD.format("second", 1000),
    "pkg/a.cu": '#include "a.h"\n', "pkg/b.cu": HOST,
    "pkg/both.cu": '#include "a.h"\n#include "b.h"\n',
}


@dataclass
class Site:
    """A package, and the caches of its scans."""

    root: Path
    caches: Path
    walked: list[int] = field(default_factory=list)  # units done, as the last scan told

    def scan(self, cache: str) -> Report:
        environment = Environment(None, (self.root,), None, "test", root=self.root)
        package = find_package(str(self.root / "pkg"), environment)
        self.walked.clear()
        options = Options(tick=lambda done, total: self.walked.append(done))
        return kept.scan(package, profile_for(package), [target("sm_120a")], [target("sm_90a")],
                         # one that is not here: its headers are not what this is about
                         find_toolkit("12.4"), options, store=Store(self.caches / cache))

    def write(self, path: str, text: str | None) -> None:
        place = self.root / path
        if text is None:
            place.unlink()
        else:
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text)


@pytest.fixture
def site(tmp_path: Path) -> Site:
    made = Site(tmp_path / "site", tmp_path / "caches")
    for path, text in FILES.items():
        made.write(path, text)
    return made


def as_found(report: Report) -> tuple[object, ...]:
    return report, dict(report.details)


A, B, UNITS = "pkg/include/a.h", "pkg/include/b.h", 3


@pytest.mark.parametrize(("path", "text", "walked"), [
    (A, GUARD.format("first", 1200) + "// a comment\n", 2),  # a.cu and both.cu
    (A, GUARD.format("first", 1300), 2),
    (A, GUARD.format("other", 1200).replace("*p = 1", "__trap()"), 2),
    (B, '#include "a.h"\n', 2),  # b.cu and both.cu
    (B, '#include "nowhere.h"\n' + GUARD.format("second", 1000), 2),
    ("pkg/b.cu", HOST.replace("!= 9", "!= 12"), 1),
    ("pkg/include/common.h", COMMON.replace("900", "1300"), UNITS),
    ("pkg/common.h", COMMON, UNITS),  # a name where headers are looked for
    (B, None, UNITS),
    ("pkg/__init__.py", "", 0),
    ("pkg/c.cu", '#include "b.h"\n', UNITS + 1),  # another list of units
])
def test_an_edit_costs_what_it_reaches_and_changes_what_it_should(
    site: Site, path: str, text: str | None, walked: int
) -> None:
    before = site.scan("kept")
    assert len(site.walked) == UNITS
    assert {gate.layer.value for gate in before.findings} == {"python", "preprocessor", "host"}
    was = (site.root / path).read_text() if (site.root / path).exists() else None
    site.write(path, text)
    after = site.scan("kept")
    assert len(site.walked) == walked
    assert as_found(after) == as_found(site.scan("fresh"))
    site.write(path, was)  # and back
    assert as_found(site.scan("kept")) == as_found(before)


def test_a_reverted_package_is_the_one_before(site: Site) -> None:
    """Two caches of one edit after another hold the same as a scan of each state alone."""
    for number in (1300, 1000, 1200):
        site.write(A, GUARD.format("first", number))
        assert as_found(site.scan("kept")) == as_found(site.scan(f"fresh-{number}"))
