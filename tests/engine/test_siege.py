"""A short siege; the long one is ``python -m tests.engine.siege 300``."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.engine.siege import siege


@pytest.mark.slow
def test_many_processes_agree_on_one_order(tmp_path: Path) -> None:
    done = siege(tmp_path, 5, processes=16, least=4)
    assert len(done.order) >= 64
    assert all(one["committed"] >= 4 for one in done.counts)
    assert sum(one.get("looks", 0) for one in done.counts) > 16
    assert len({commit.number for commit in done.order}) > 10
