"""``why`` of a whole package is a screen: each module is named or counted, and one comes next."""

from __future__ import annotations

import re
from dataclasses import replace

from patcher.arch import target
from patcher.gates import Gate, Layer
from patcher.report.text_why import render_summary, render_why
from patcher.scan.model import LayerState, ModuleReport, Report, TagRow
from tests.report.made import gate, report

MANY = 300


def module(name: str, one: Gate, *, closed: bool) -> ModuleReport:
    states = tuple(LayerState(layer, int(layer is Layer.PYTHON), "said") for layer in Layer)
    return ModuleReport(name, states, (), (one.id,), closed=closed)


def package() -> Report:
    """Many modules that nothing opens, a few of them built for the target, and one opened."""
    gates = [gate(f"p/f{n}.cuh", n + 1) for n in range(MANY)]
    opened = replace(gate("p/opened.cuh", 7), opened_by="made/first")
    modules = [module(f"m{n:03}", one, closed=n % 3 > 0) for n, one in enumerate(gates)]
    return report([*gates, opened], [*modules, module("odd name", opened, closed=True)])


def test_it_fits_a_screen_and_counts_what_it_does_not_name() -> None:
    text = render_summary(package())
    assert len(text.splitlines()) <= 40
    assert "odd name: closed; gates that close it: 1 python; opened by made/first" in text
    closed, still_open = text.split("open, with gates in their code:")
    for part, total in ((closed, MANY - MANY // 3), (still_open, MANY // 3)):
        (more,) = re.findall(r"and (\d+) more", part)
        assert len(re.findall(r"\bm\d{3}\b", part)) + int(more) == total


def test_the_next_command_asks_about_what_can_be_opened() -> None:
    assert render_summary(package()).endswith("Next: sm-patch why 'made:odd name'\n")
    shut = gate("p/f.cuh", 1)
    one = report([shut], [module("only", shut, closed=True)])
    assert render_summary(one).endswith("Next: sm-patch why made:only\n")
    assert render_summary(report([], [])).endswith("Next: sm-patch scan made --all\n")


def test_every_module_is_there_with_all() -> None:
    text = render_why(package())
    assert all(f"m{n:03} in" in text for n in range(MANY))


def test_only_a_closed_module_has_gates_that_close_it() -> None:
    """A built module's repairable gates are in its code."""
    mine = replace(gate("p/own.cuh", 1), opened_by="made/first")
    for closed, said in ((True, "closed; gates that close it: 1 python"),
                         (False, "open; closed gates in its code: 1 python")):
        text = render_summary(report([mine], [module("mine", mine, closed=closed)]))
        assert f"mine: {said}; opened by made/first" in text


def test_a_tag_above_the_device_is_not_of_its_family() -> None:
    """Templates for 10.3 state a minimum that 10.0 does not reach; those for 12.0 serve 12.1."""
    shut = gate("p/own.cuh", 1)
    for device, minimum, said in (("sm_100a", 103, "none is of 10.x"),
                                  ("sm_121a", 120, "Sm120: of 12.x"),
                                  ("sm_120a", 100, "none is of 12.x")):
        tagged = replace(module("mine", shut, closed=False),
                         tags=(TagRow(f"Sm{minimum}", minimum, ("p/own.cuh:3", "p/own.cuh:9")),))
        text = render_why(replace(report([shut], [tagged]), targets=(target(device),)))
        assert f"tag arch::Sm{minimum}: p/own.cuh:3 and 1 more" in text
        assert said in text
