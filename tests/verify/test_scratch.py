"""An interrupt may come at any moment, also right after a folder was made."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from patcher.errors import ToolFailed
from patcher.scratch import scratch


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_an_interrupt_while_it_is_made_leaves_nothing(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make = os.mkdir

    def interrupted(path: Path, mode: int) -> None:
        make(path, mode)
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "mkdir", interrupted)
    with pytest.raises(KeyboardInterrupt), scratch():
        pass
    assert os.listdir(place) == []


def test_it_is_nobody_elses_and_goes_with_the_block(place: Path) -> None:
    with scratch() as folder:
        (folder / "below").mkdir()
        assert folder.parent == place
        assert folder.stat().st_mode & 0o777 == 0o700
    assert os.listdir(place) == []


def test_no_room_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
    with pytest.raises(ToolFailed, match="cannot write temporary files"), scratch():
        pass
