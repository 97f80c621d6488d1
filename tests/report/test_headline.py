"""The first line is the answer, and the last line's command must be about that answer."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from patcher.gates import Cause, Gate, Layer
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
    ([BY_OTHER], [SHUT], "gates that close no module can be opened by made/other", "--group other"),
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
    assert said.startswith("1 module closed on sm_120a; gates that close no module can be opened")


def test_what_is_open_by_a_group_in_place_comes_first() -> None:
    """A closed module is not said to be open, and a group's modules stand together."""
    state = LayerState(Layer.PYTHON, 1, "closed")
    shut = ModuleReport("one", (state,), (), (SHUT.id,), closed=True)
    applied = {"one": ("made/lost",), "two": ("made/first",), "three": ("made/first",),
               "": ("made/header",)}
    made = replace(report([SHUT], [shut]), applied=applied)
    assert headline(made).startswith(
        "two, three: open (made/first applied); 1 module closed on sm_120a; nothing to patch here")
    assert next_command(made) == "sm-patch why made:one"
    assert next_command(replace(made, modules=(), gates=())) == "sm-patch status"


def test_the_causes_add_up_to_what_is_closed() -> None:
    gates = [gate(f"{n}.py", n + 1, cause=cause) for n, cause in enumerate(
        [Cause.HARDWARE, Cause.INTENDED, Cause.UNKNOWN, Cause.UNKNOWN])]
    # the last gate is in a module that is built, too, and the third one in two closed ones
    closed = [ModuleReport(f"m{n}", (), (), (gates[n].id, gates[2].id), closed=True)
              for n in range(3)]
    said = headline(report(gates, [*closed, ModuleReport("built", (), (), (gates[3].id,))]))
    found = re.match(r"(\d+) modules closed on sm_120a; nothing to patch here: "
                     r"what stays closed is (.*)", said)
    assert found, said
    assert int(found[1]) == 3 == sum(int(n) for n in re.findall(r"\d+", found[2]))
