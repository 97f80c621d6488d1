"""Modules that a table gives flags for other devices: closed, though no line of code says it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from patcher.arch import target
from patcher.gates import Layer
from patcher.profiles.base import JitModule, Site
from patcher.report.counted import in_line
from patcher.scan.features import Feature
from patcher.scan.layers import fixed_targets, with_causes

MODULE = JitModule("m_sm_100a", "m_sm_100a", Site("p/jit.py", "module_spec", 7), ("p/m.cu",), (),
                   (), (), ("sm_100a",), tabled=True)


@pytest.mark.parametrize(("targets", "device", "shut"), [
    (("sm_100a",), "sm_120a", True),
    (("sm_103a",), "sm_120a", True),  # no reference runs it either: it is still not built
    (("sm_100a",), "sm_100a", False),
    (("sm_120a", "sm_100a"), "sm_120a", False),
    (("sm_120f",), "sm_121a", False),  # f code serves the family
    (("sm_120a",), "sm_121a", True),
    ((), "sm_120a", False),  # the machine's own
    (("sm_",), "sm_120a", False),  # an argument
    (("sm_999a",), "sm_120a", False),  # nothing is known of it
])
def test_who_is_shut_out(targets: tuple[str, ...], device: str, shut: bool) -> None:
    gate = fixed_targets(replace(MODULE, targets=targets), target(device))
    assert (gate is not None) is shut
    if gate is not None:
        assert gate.excludes_target
        assert target(device) in gate.worlds.closed
        assert all(target(name) in gate.worlds.open for name in targets)
        assert not gate.worlds.open & gate.worlds.closed


def test_a_module_whose_code_has_the_line_is_left_to_it() -> None:
    assert fixed_targets(replace(MODULE, tabled=False), target("sm_120a")) is None


def test_modules_of_one_table_are_one_gate() -> None:
    """By function and targets; the sources of the first are looked at for a cause."""
    modules = [replace(MODULE, name=name, targets=targets) for name, targets in (
        ("b", ("sm_100a",)), ("a", ("sm_100a",)), ("c", ("sm_103a",)), ("d", ("sm_120a",)))]
    looked: list[str] = []

    def hardware(feature: Feature) -> tuple[()]:
        looked.append(feature.module.name)
        return ()

    gates = with_causes([], [Feature(m, 0) for m in modules], hardware, target("sm_120a"))
    assert [(g.layer, g.condition, g.modules) for g in gates] == [
        (Layer.BUILD, "targets sm_100a", ("a", "b")), (Layer.BUILD, "targets sm_103a", ("c",))]
    assert looked == ["b", "c"]
    assert with_causes([], [Feature(m, 0) for m in modules], hardware, None) == []


def test_kernels_that_differ_in_a_digest_are_one_name() -> None:
    names = [f"cake_msa_{n:020x}_sm_90a_*" for n in range(50)]
    assert list(in_line([*names, "fused_moe_120"])) == [
        "  fused_moe_120, cake_msa_*_sm_90a_* (50)"]
