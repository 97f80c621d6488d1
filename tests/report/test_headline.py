"""The first line is the answer, and the last line's command must be about that answer."""

from __future__ import annotations

from dataclasses import replace

import pytest

from patcher.gates import Gate, Layer
from patcher.report.headline import headline
from patcher.report.text_scan import next_command
from patcher.scan.model import LayerState, ModuleReport
from tests.report.made import gate, report

SHUT, OPENED, OTHER = gate("a.cuh", 1), gate("b.cuh", 2), gate("c.py", 3)
BY_FIRST = replace(OPENED, opened_by="made/first")
BY_OTHER = replace(OTHER, opened_by="made/other")


@pytest.mark.parametrize(("loose", "mine", "said", "command"), [
    # a gate of no module comes first, and a module can be opened: that one is next
    ([BY_OTHER], [SHUT, BY_FIRST], "1 can be opened: two", "--group first"),
    ([BY_OTHER], [SHUT], "gates of no module can be opened: made/other", "--group other"),
    ([OTHER], [SHUT], "nothing to patch here", "sm-patch why made:one"),
])
def test_the_next_command_follows_from_the_headline(
        loose: list[Gate], mine: list[Gate], said: str, command: str) -> None:
    gates = [*loose, *mine]
    states = (LayerState(Layer.PYTHON, 1, "closed"),)
    modules = [ModuleReport(name, states, (), (one.id,), closed=True)
               for name, one in zip(("one", "two"), mine, strict=False)]
    made = report(gates, modules)
    assert said in headline(made)
    assert command in next_command(made)


def test_critical_gates_in_what_is_built_are_never_nothing() -> None:
    """A kernel's body is gone in a unit of a module that nothing closes."""
    built = gate("d.cuh", 4, units=("one.cu",))
    open_module = ModuleReport("one", (), (), (built.id,), closed=False)
    assert headline(report([built], [open_module])) == \
        "0 modules closed on sm_120a; 1 critical gates in what is built for it"


def test_a_closed_module_is_openable_only_by_what_shuts_it() -> None:
    """The list that leaves the target out stays; a guard in a shared header opens, and no more."""
    shut = replace(SHUT, layer=Layer.BUILD, rule="BUILD-ARCHS")
    state = (LayerState(Layer.BUILD, 1, "closed"),)
    both = ModuleReport("one", state, (), (shut.id, BY_FIRST.id), closed=True)
    said = headline(report([shut, BY_FIRST], [both]))
    assert said.startswith("1 module closed on sm_120a; gates of no module can be opened")
