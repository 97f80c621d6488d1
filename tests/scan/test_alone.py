"""One gate opens, the others stay: the outcome for each function, by reasoning."""

from __future__ import annotations

from patcher.arch import ArchSet
from patcher.gates import Effect, Gate, Layer, Location, Worlds
from patcher.scan.alone import Obstacle, Part, Use, opens_alone
from patcher.scan.model import Opening

CLOSED = Worlds(open=ArchSet.of("sm_100a"), closed=ArchSet.of("sm_120a"))


def gate(layer: Layer, effect: Effect, line: int, rule: str = "arm", names: tuple[str, ...] = (),
         ) -> Gate:
    return Gate(layer, rule, Location("a", line, line), f"c{line}", CLOSED, effect=effect,
                names=names, excludes_target=True)


LIST = gate(Layer.PYTHON, Effect.ERROR, 1, "PY-MAJORS")
BODY = gate(Layer.PREPROCESSOR, Effect.KERNEL_BODY, 2, names=("lamport",))
SYNC = gate(Layer.PREPROCESSOR, Effect.SYNC, 3, names=("oneshot",))
CHECK = gate(Layer.HOST, Effect.ERROR, 4, names=("Runner::Runner",))


def results(opened: Gate, parts: list[Part], uses: list[Use], *obstacles: Obstacle,
            ) -> dict[str, Opening]:
    return {
        name: row.result
        for row in opens_alone(parts, uses, obstacles)
        if row.gate == opened.id
        for name in row.functions
    }


def test_each_function_meets_only_what_it_comes_to() -> None:
    parts = [Part(LIST), Part(BODY, 0b01), Part(SYNC, 0b01), Part(CHECK, 0b10)]
    uses = [
        Use("all", 0b01, frozenset({"start", "lamport", "oneshot"})),
        Use("some", 0b01, frozenset({"start", "oneshot"})),
        Use("none", 0b01, frozenset({"start"})),
        Use("other", 0b10, frozenset({"start", "Runner"})),
        Use("unfollowed", 0b01),
    ]
    assert results(LIST, parts, uses) == {
        "all": Opening.HOLLOW,
        "some": Opening.WORSE,
        "none": Opening.OK,
        "other": Opening.ERROR,
        "unfollowed": Opening.HOLLOW,
    }


def test_nothing_changes_while_the_list_refuses() -> None:
    parts = [Part(LIST), Part(BODY, 1)]
    rows = [r for r in opens_alone(parts, [Use("f", 1)]) if r.gate == BODY.id]
    assert [r.result for r in rows] == [Opening.OK]
    assert rows[0].why == "nothing changes: a:1 still refuses it"


def test_the_last_gate_is_fine_to_open() -> None:
    assert results(BODY, [Part(BODY, 1)], [Use("f", 1)]) == {"f": Opening.OK}


def test_sync_stays_lost_when_only_the_body_opens() -> None:
    assert results(BODY, [Part(BODY, 1), Part(SYNC, 1)], [Use("f", 1)]) == {"f": Opening.WORSE}


def test_an_undecided_condition_is_no_claim() -> None:
    doubt = Obstacle(Opening.UNKNOWN, "undecided", 1)
    assert results(LIST, [Part(LIST)], [Use("f", 1)], doubt) == {"f": Opening.UNKNOWN}
    assert results(LIST, [Part(LIST), Part(BODY, 1)], [Use("f", 1)], doubt) == {"f": Opening.HOLLOW}


def test_a_check_inside_one_function_concerns_no_other() -> None:
    check = gate(Layer.PYTHON, Effect.ERROR, 9, "PY-DECORATOR")
    parts = [Part(LIST), Part(check, functions=("f",))]
    rows = {name: r.why for r in opens_alone(parts, [Use("f"), Use("g")]) if r.gate == LIST.id
            for name in r.functions}
    assert rows["f"].startswith("nothing changes: a:9")
    assert rows["g"] == "no other gate is in its way"
