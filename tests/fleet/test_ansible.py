"""The collection, run by the real ansible-core; three local roots stand for three hosts."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY

SCRIPTS = Path(sys.executable).parent
GATE = "flashinfer/jit/comm.py"

pytestmark = [pytest.mark.slow, pytest.mark.wheels]


class Fleet:
    """Hosts by name, each with its own root."""

    def __init__(self, folder: Path, roots: dict[str, Path]) -> None:
        self.folder, self.roots = folder, roots
        self.inventory = folder / "hosts.json"
        self.inventory.write_text(json.dumps({"gpu": {
            "hosts": {name: {"sm_patch_root": str(root)} for name, root in roots.items()},
            "vars": {
                "ansible_connection": "local",
                "ansible_python_interpreter": sys.executable,
                "sm_patch_arch": ["5090"],
                "sm_patch_executable": [str(SCRIPTS / "sm-patch")],
            },
        }}), "utf-8")

    def play(self, *options: str) -> tuple[int, str]:
        """Run the rollout; its exit code and output."""
        environment = {
            **os.environ, "ANSIBLE_COLLECTIONS_PATH": str(REPOSITORY / "fleet"),
            "ANSIBLE_HOME": str(self.folder / "ansible"), "ANSIBLE_NOCOLOR": "1",
            "LC_ALL": "C.UTF-8",
        }
        done = subprocess.run(
            [SCRIPTS / "ansible-playbook", "-i", self.inventory, "smpatch.core.rollout", *options],
            env=environment, capture_output=True, text=True, check=False, cwd=self.folder)
        return done.returncode, done.stdout + done.stderr

    def gates(self) -> dict[str, bool]:
        """By host: whether the list of the module names 12."""
        return {name: "supported_major_versions=[9, 10, 12]" in (root / GATE).read_text("utf-8")
                for name, root in self.roots.items()}


def _changed(output: str) -> dict[str, int]:
    return {name: int(count) for name, count in
            re.findall(r"^(\w+) +: ok=.* changed=(\d+)", output, re.MULTILINE)}


@pytest.fixture
def fleet(copy_of: Callable[..., Path], tmp_path: Path) -> Fleet:
    """Three hosts with one and the same release."""
    return Fleet(tmp_path, {name: copy_of("flashinfer-python", "0.6.3", name)
                            for name in ("n1", "n2", "n3")})


def test_check_shows_the_diff_and_writes_nothing_then_a_canary_then_the_rest(
    fleet: Fleet, tmp_path: Path
) -> None:
    before = {name: (root / GATE).read_bytes() for name, root in fleet.roots.items()}
    code, output = fleet.play("-C", "-D")
    assert code == 0, output
    # one diff for each host, of what the shipped patchset says
    assert output.count("+        supported_major_versions=[9, 10, 12]") == 3
    assert _changed(output) == {"n1": 1, "n2": 1, "n3": 1}
    assert {name: (root / GATE).read_bytes() for name, root in fleet.roots.items()} == before
    assert not [p for root in fleet.roots.values() for p in root.rglob("*sm-patch*")]

    code, output = fleet.play()
    assert code == 0, output
    assert _changed(output) == {"n1": 1, "n2": 1, "n3": 1}
    assert output.count("TASK [Apply]") == 2  # a batch of one, then a batch of two
    assert fleet.gates() == {"n1": True, "n2": True, "n3": True}

    code, output = fleet.play()
    assert code == 0, output
    assert _changed(output) == {"n1": 0, "n2": 0, "n3": 0}


def test_another_version_stops_the_play_before_its_batch_is_written(
    copy_of: Callable[..., Path], tmp_path: Path
) -> None:
    fleet = Fleet(tmp_path, {
        "n1": copy_of("flashinfer-python", "0.6.3", "n1"),
        "n2": copy_of("flashinfer-python", "0.6.3", "n2"),
        "n3": copy_of("flashinfer-python", "0.5.3", "n3"),
    })
    code, output = fleet.play()
    assert code != 0
    said = " ".join(output.split())
    assert "n3 would not be equal to n1: flashinfer-python 0.5.3 here" in said
    assert fleet.gates() == {"n1": True, "n2": False, "n3": False}


def test_a_foreign_edit_on_the_canary_stops_everything(fleet: Fleet) -> None:
    gate = fleet.roots["n1"] / GATE
    gate.write_text(gate.read_text("utf-8") + "# tuned by hand\n", "utf-8")
    code, output = fleet.play()
    assert code != 0
    assert f"{GATE}" in output
    assert fleet.gates() == {"n1": False, "n2": False, "n3": False}
