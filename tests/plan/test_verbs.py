"""diff and patchsets as typed: stdout is data, stderr is talk, the exit code says which."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from patcher.commands.options import Settings
from patcher.commands.planning import Planner
from patcher.errors import PackageNotFound
from patcher.package.environment import find_environment
from patcher.package.find import find_package
from patcher.package.model import Environment, Package
from patcher.plan import Untouched
from tests.plan.site import PATCHSET, Site
from tests.plan.test_plan import SEVERAL


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site.make(tmp_path / "site")


def test_git_applies_the_diff_of_edits_new_files_and_links(
    site: Site, capfd: pytest.CaptureFixture[str]
) -> None:
    more = """\
      - id: note
        summary: "first line\\ndiff --git a/x b/x"
        create: {file: mini/run.sh, content: "#!/bin/sh\\n", executable: true}
      - id: link
        symlink: {link: mini/lib64, target: jit.py}
"""
    assert site.run("diff", site.patchset(PATCHSET + more)) == 0
    out = capfd.readouterr().out
    assert "# mini-sm120/main/note: first line diff --git a/x b/x\n" in out
    subprocess.run(["git", "init", "-q"], cwd=site.root, check=True)
    subprocess.run(["git", "apply", "-"], cwd=site.root, input=out.encode(), check=True)
    assert "[9, 10, 12]" in site.read("mini/jit.py")
    assert "stride(8)" in site.read("mini/unit.cu")
    assert (site.root / "mini/run.sh").stat().st_mode & 0o100
    assert (site.root / "mini/lib64").is_symlink()


def test_nothing_is_written_and_reading_needs_no_permission(site: Site) -> None:
    site.patchset()
    before = {path: path.read_bytes() for path in site.root.rglob("*") if path.is_file()}
    site.root.chmod(0o555)
    try:
        assert site.run("diff", site.patchset()) == 0
    finally:
        site.root.chmod(0o755)
    assert {p: p.read_bytes() for p in site.root.rglob("*") if p.is_file()} == before
    assert not (site.root.parent / ".sm-patch").exists()


def test_a_conflict_prints_no_diff_and_the_command_that_goes_through(
    site: Site, capfd: pytest.CaptureFixture[str]
) -> None:
    text = SEVERAL.replace("id: second\n    requires: [third]", "id: second\n    default: true")
    site.write("mini/two.txt", "something else")
    document = site.patchset(text)
    assert site.run("diff", document) == 3
    out, err = capfd.readouterr()
    assert out == ""
    assert "second: conflict: note: mini/two.txt exists with other content" in err
    repeated = r"(--[a-z-]+ \S+ )+"  # the place and the target, as they were given
    assert re.search(rf"this goes through: sm-patch diff {repeated}{document} --group first\n", err)


def test_json_carries_the_contract(site: Site, capfd: pytest.CaptureFixture[str]) -> None:
    assert site.run("diff", site.patchset(), "--format", "json") == 0
    found = json.loads(capfd.readouterr().out)
    assert sorted(found) == ["caches", "changed", "diff", "packages", "patchsets", "restart",
                             "version"]
    (package,) = found["packages"]
    assert package["digest_before"] != package["digest_after"]
    (group,) = found["patchsets"][0]["groups"]
    assert [patch["files"] for patch in group["patches"]] == [
        ["mini/jit.py"], ["mini/kernel.cuh"], ["mini/unit.cu"]]
    assert found["diff"].count("diff --git") == 3


@pytest.mark.parametrize(("typed", "near"), [
    (["flashinfer-sm120/trtllm-comm"], "flashinfer-sm120 --group trtllm-comm"),
    (["flashinfer-sm120", "--group", "trtllm_comm"], "did you mean trtllm-comm?"),
    (["flashinfer-sm120", "--group", "trtlm-com"], "did you mean trtllm-comm?"),
    (["flashinfer-sm120", "--group", "nonsense"], "groups: flashinfer-sm120/trtllm-comm"),
])
def test_a_group_as_a_report_names_it_leads_to_the_option(
    site: Site, capfd: pytest.CaptureFixture[str], typed: list[str], near: str
) -> None:
    assert site.run("diff", *typed) == 2
    assert near in capfd.readouterr().err


@pytest.mark.parametrize(("arch", "code"), [
    ("4090", 3), ("h100", 3), ("sm_100a,sm_89", 3), ("5090", 0), ("sm_120", 0), ("12.1", 0),
    ("sm_100a,sm_120a", 0)])
def test_a_device_for_which_it_opens_nothing_is_refused(
    site: Site, capfd: pytest.CaptureFixture[str], arch: str, code: int
) -> None:
    document = site.patchset(PATCHSET.replace("[sm_120a]", "[sm_120a, sm_121a]"))
    assert site.run("diff", document, arch=arch) == code
    assert ("opens nothing for" in "".join(capfd.readouterr())) is (code == 3)


@pytest.mark.parametrize(("arch", "offered"), [("h100", False), ("5090", True)])
def test_a_group_is_offered_only_for_a_device_for_which_it_opens_something(
    site: Site, capfd: pytest.CaptureFixture[str], arch: str, offered: bool
) -> None:
    more = """\
  - id: second
    patches:
      - id: two
        text: {file: mini/two.txt, find: something, replace: else}
"""
    site.write("mini/two.txt", "something")
    document = site.patchset(PATCHSET.replace("[sm_120a]", "[sm_120a, sm_121a]") + more)
    site.run("diff", document, "--group", "main", arch=arch)
    assert ("also there: second" in "".join(capfd.readouterr())) is offered


def test_applied_means_an_empty_diff(site: Site, capfd: pytest.CaptureFixture[str]) -> None:
    site.apply()
    assert site.run("diff", site.patchset()) == 0
    out, err = capfd.readouterr()
    assert (out, "main: already-applied" in err) == ("", True)


@pytest.mark.parametrize(("arguments", "message"), [
    (["diff", "nothing-of-that-name"], "no such patchset"),
    (["diff", "{broken}"], "groups: expected a list with at least one entry, got nothing"),
])
def test_unreadable_input_is_exit_2_in_one_line(
    site: Site, capfd: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    broken = site.root.parent / "broken.yaml"
    broken.write_text("sm-patch: 1\nname: broken\npackage: mini\n")
    assert site.run(*(part.replace("{broken}", str(broken)) for part in arguments)) == 2
    err = capfd.readouterr().err
    assert message in err
    assert "Traceback" not in err


def test_patchsets_lists_groups_without_the_package(
    site: Site, capfd: pytest.CaptureFixture[str]
) -> None:
    assert site.run("patchsets", "--format", "json") == 0
    found = json.loads(capfd.readouterr().out)
    (patchset,) = (p for p in found["patchsets"] if p["name"] == "flashinfer-sm120")
    groups = {group["id"]: group for group in patchset["groups"]}
    assert groups["trtllm-comm"]["default"] is True
    assert groups["dsv3-router"]["default"] is False
    assert {group["outcome"] for group in groups.values()} == {"absent"}
    assert site.run("patchsets") == 0
    assert "trtllm-comm  absent, default, risk medium" in capfd.readouterr().out


def test_an_absent_package_is_looked_for_once(site: Site) -> None:
    """Each look asks the other environments, too: minutes for many groups on a slow machine."""
    asked = []

    def find(name: str, environment: Environment) -> Package:
        asked.append(name)
        return find_package(name, environment)

    planner = Planner(Settings(root=str(site.root)), find_environment(None, str(site.root)),
                      Untouched, find)
    for _ in range(3):
        with pytest.raises(PackageNotFound, match="absent is not in"):
            planner("absent")
        planner("mini")
    assert asked == ["absent", "mini"]
