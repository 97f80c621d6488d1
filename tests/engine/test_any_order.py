"""Whatever is applied and reverted in whatever order: base + the edits that remain."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    rule,
    run_state_machine_as_test,
)

from patcher.changes import Create
from patcher.edits import Edit, Span
from patcher.session import reading
from tests.engine.helpers import apply, home_of, installed, patchset, revert, snapshot, states
from tests.shapes import examples, printed_shapes, seen

__all__ = ["printed_shapes"]

SLOTS = 6  # each file has this many places that can be edited without touching another
LINES = "".join(f"line {n}\nkeep {n}\n" for n in range(SLOTS))
PATHS = ("demo/a.h", "demo/b.py")
MINE, FOREIGN = "keep 2\n", "keep 2 // theirs\n"


@contextmanager
def without_waiting() -> Iterator[None]:
    """No power fails here: do not wait for the disk."""
    with mock.patch.object(os, "fsync", return_value=None):
        yield


def slot(base: str, number: int, text: str) -> Edit:
    start = base.index(f"line {number}\n")
    return Edit(Span(start, start + len(f"line {number}")), text.encode())


Choice = dict[tuple[str, int], str]


class Machine(RuleBasedStateMachine):
    """Applies and reverts for real, and keeps in mind what should be there."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.package = installed(self.folder / "site", dict.fromkeys(PATHS, LINES))
        self.before = snapshot(self.package.root)
        self.applied: dict[str, tuple[Choice, bool]] = {}
        self.foreign: set[str] = set()

    def teardown(self) -> None:
        with without_waiting():
            revert(self.package, *self.applied)
        for path in self.foreign:
            file = self.package.root / path
            file.write_text(file.read_text().replace(FOREIGN, MINE))
        assert snapshot(self.package.root) == self.before
        assert not home_of(self.package).journal().files
        shutil.rmtree(self.folder)

    @rule(name=st.sampled_from("pqr"), creates=st.booleans(), choice=st.dictionaries(
        st.tuples(st.sampled_from(PATHS), st.integers(0, SLOTS - 1)),
        st.sampled_from(["", "new", "other\ntext"]), min_size=1, max_size=5))
    def apply(self, name: str, choice: Choice, creates: bool) -> None:
        taken = {place: text for other, (theirs, _) in self.applied.items() if other != name
                 for place, text in theirs.items()}
        clash = any(taken.get(place, text) != text for place, text in choice.items())
        edits: dict[str, list[Edit]] = {}
        bases = reading(home_of(self.package)).view(self.package).tree()
        for (path, number), text in choice.items():
            edits.setdefault(path, []).append(
                slot(bases.read(path).decode(), number, text))
        changes = [Create("demo/new/n.h", b"new\n")] if creates else []
        with without_waiting():
            done = apply(self.package, patchset(self.package, name, edits, changes))
        assert bool(done.refusals) is clash
        again = "again" if name in self.applied else "anew"
        seen("orders", "refused clash" if clash else f"applied {again}",
             "with a new file" if creates else "edits only",
             "over a foreign edit" if self.foreign else "untouched by others")
        if not clash:
            self.applied[name] = (choice, creates)

    @rule(name=st.sampled_from("pqr"))
    def revert(self, name: str) -> None:
        with without_waiting():
            assert not revert(self.package, name).refusals
        seen("orders", "reverted" if name in self.applied else "reverted what is not applied",
             f"{len(self.applied)} applied")
        self.applied.pop(name, None)

    @rule(path=st.sampled_from(PATHS))
    def edit_elsewhere(self, path: str) -> None:
        """Somebody else changes a line between ours."""
        owned = any(place[0] == path for choice, _ in self.applied.values() for place in choice)
        if owned and path not in self.foreign:
            file = self.package.root / path
            file.write_text(file.read_text().replace(MINE, FOREIGN))
            self.foreign.add(path)

    @invariant()
    def holds(self) -> None:
        for path in PATHS:
            text = LINES
            for (where, number), new in {p: t for choice, _ in self.applied.values()
                                         for p, t in choice.items()}.items():
                if where == path:
                    text = text.replace(f"line {number}\n", f"{new}\n")
            text = text.replace(MINE, FOREIGN) if path in self.foreign else text
            assert (self.package.root / path).read_text() == text
        created = any(creates for _, creates in self.applied.values())
        assert (self.package.root / "demo/new").exists() is created
        assert {state.value for state in states(self.package).values()} <= {"applied"}


@pytest.mark.slow
def test_any_order() -> None:
    run_state_machine_as_test(
        Machine, settings=settings(max_examples=examples(40), stateful_step_count=15, deadline=None,
                                   suppress_health_check=list(HealthCheck),
                                   phases=[Phase.explicit, Phase.generate]))
