"""Every sown fault is caught by the tests named beside it."""

from __future__ import annotations

import pytest

from tests.engine.faults import FAULTS, Fault, sown


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_sown_fault_is_caught(fault: Fault) -> None:
    assert sown(fault) == ""


def test_every_fault_has_its_place() -> None:
    from tests.engine.faults import ROOT

    for fault in FAULTS:
        assert (ROOT / fault.file).read_text("utf-8").count(fault.old) == 1, fault.name
