"""Groups made of groups of other patchsets, and groups that require others.

Two packages of our own stand for FlashInfer (``lower``) and SGLang (``upper``).
"""

from __future__ import annotations

from pathlib import Path

import pytest

from patcher.cli import main
from patcher.errors import Exit, SchemaError
from patcher.patchset.load import load_patchset

GATE = "def gen():\n    return flags(supported_major_versions=[9, 10])\n"
OPEN = "def gen():\n    return flags(supported_major_versions=[9, 10, 12])\n"
PART = """\
sm-patch: 1
name: {name}
package: {name}
groups:
  - id: gate
    default: true
    {more}
    patches:
      - id: majors
        python-gate: {{file: {name}/jit.py, within: gen, gate: supported_major_versions,
                      open: ["12.0", "12.1"]}}
"""
BOTH = """\
sm-patch: 1
name: both
package: lower
groups:
  - id: feature
    include: [lower/gate, upper/gate]
"""


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = tmp_path / "root"
    for name in ("lower", "upper"):
        (root / name).mkdir(parents=True)
        (root / name / "__init__.py").write_text("")
        (root / name / "jit.py").write_text(GATE)
        info = root / f"{name}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (info / "RECORD").write_text(f"{name}/__init__.py,,\n{name}/jit.py,,\n")
    (tmp_path / "lower.yaml").write_text(PART.format(name="lower", more="risk: low"))
    (tmp_path / "upper.yaml").write_text(PART.format(name="upper", more="requires: [lower/gate]"))
    (tmp_path / "both.yaml").write_text(BOTH)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SM_PATCH_STATE", str(tmp_path / "state"))
    return root


def _run(*arguments: str) -> int:
    return main([*arguments, "--root", "root", "--cuda", "13.0", "--arch", "sm_120a"])


def _gates(root: Path) -> list[str]:
    return [(root / name / "jit.py").read_text() for name in ("lower", "upper")]


def test_both_packages_change_and_come_back_as_one(site: Path) -> None:
    assert _run("apply", "both.yaml") == Exit.DONE
    assert _gates(site) == [OPEN, OPEN]
    assert _run("apply", "both.yaml", "--check") == Exit.DONE  # nothing is left to do
    assert main(["revert", "both", "--root", "root"]) == Exit.DONE
    assert _gates(site) == [GATE, GATE]


@pytest.mark.parametrize("broken", ["lower", "upper"])
@pytest.mark.parametrize("more", [(), ("--keep-going",)])
def test_half_of_it_never_stays(site: Path, broken: str, more: tuple[str, ...]) -> None:
    (site / broken / "jit.py").write_text("def gen():\n    return flags(majors())\n")
    before = _gates(site)
    assert _run("apply", "both.yaml", *more) == Exit.REFUSED
    assert _gates(site) == before


def test_a_side_that_is_open_upstream_is_left_alone(site: Path) -> None:
    (site / "lower" / "jit.py").write_text(OPEN)
    assert _run("apply", "both.yaml") == Exit.DONE
    assert _gates(site) == [OPEN, OPEN]
    assert main(["revert", "both", "--root", "root"]) == Exit.DONE
    assert _gates(site) == [OPEN, GATE]


def test_what_is_open_on_both_sides_is_not_needed(site: Path) -> None:
    for name in ("lower", "upper"):
        (site / name / "jit.py").write_text(OPEN)
    assert _run("apply", "both.yaml", "--check") == Exit.DONE


# the required patchset is found among the shipped ones only; here a path names it
@pytest.fixture
def known(site: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    import patcher.patchset.load as load

    monkeypatch.setattr(load, "shipped", lambda: {
        name: site.parent / f"{name}.yaml" for name in ("lower", "upper")})
    return site


def test_a_group_that_requires_another_is_refused_alone(known: Path) -> None:
    assert _run("apply", "upper.yaml") == Exit.REFUSED
    assert _gates(known) == [GATE, GATE]


@pytest.mark.parametrize("order", [("lower.yaml", "upper.yaml"), ("upper.yaml", "lower.yaml")])
def test_and_goes_through_together_with_it(known: Path, order: tuple[str, str]) -> None:
    assert _run("apply", *order) == Exit.DONE
    assert _gates(known) == [OPEN, OPEN]


def test_or_when_its_gates_are_open_whoever_did_it(known: Path) -> None:
    (known / "lower" / "jit.py").write_text(OPEN)
    assert _run("apply", "upper.yaml") == Exit.DONE
    assert _gates(known) == [OPEN, OPEN]


def test_it_does_not_stay_when_the_other_cannot_go_through(known: Path) -> None:
    (known / "lower" / "jit.py").write_text("def gen():\n    return flags(majors())\n")
    before = _gates(known)
    assert _run("apply", "lower.yaml", "upper.yaml", "--keep-going") == Exit.REFUSED
    assert _gates(known) == before


def test_the_digest_covers_what_is_included(site: Path) -> None:
    before = load_patchset("both.yaml").digest
    text = Path("upper.yaml").read_text()
    Path("upper.yaml").write_text(text.replace('"12.1"', '"12.1", "11.0"'))
    assert load_patchset("both.yaml").digest != before


@pytest.mark.parametrize(("old", "new"), [
    ("upper/gate", "upper/none"), ("upper/gate", "nobody/gate"), ("upper/gate", "gate"),
    ("upper/gate", "both/feature")])
def test_only_a_group_that_is_there_can_be_included(site: Path, old: str, new: str) -> None:
    Path("again.yaml").write_text(BOTH.replace("name: both", "name: again").replace(old, new))
    with pytest.raises(SchemaError):
        load_patchset("again.yaml")
