"""Rewrites of random tests, judged by Python: it runs the old and the new text for every device."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from patcher.arch import EMPTY, ArchSet, Capability, known_capabilities
from patcher.edits import apply_edits
from patcher.python.model import GateSpec, Status
from patcher.python.rewrite import rewrite
from tests.shapes import examples, matching, printed_shapes, seen

__all__ = ["printed_shapes"]

HEAD = """# caf\u00e9
import torch
major, minor = torch.cuda.get_device_capability()
number = major * 10 + minor
pair = (major, minor)
name = f"sm_{number}"
"""
CAPABILITIES = known_capabilities()
majors = st.sampled_from([8, 9, 10, 11, 12])
numbers = st.sampled_from([80, 89, 90, 100, 103, 110, 120, 121])
pairs = st.sampled_from([(8, 9), (9, 0), (10, 0), (10, 3), (12, 0), (12, 1)])
orders = st.sampled_from(["==", "!=", "<", "<=", ">", ">="])
members = st.sampled_from(["in", "not in"])


def shown(items: st.SearchStrategy[object]) -> st.SearchStrategy[str]:
    unique = st.lists(items, min_size=1, max_size=3, unique=True)
    return unique.map(lambda xs: "[" + ", ".join(map(repr, xs)) + "]")


tests = st.one_of(
    st.builds("major {} {}".format, orders, majors),
    st.builds("number {} {}".format, orders, numbers),
    st.builds("pair {} {}".format, st.sampled_from(["==", "!=", "<", ">="]), pairs),
    st.builds("{} <= number < {}".format, numbers, numbers),
    st.builds("major {} {}".format, members, shown(majors)),
    st.builds("number {} {}".format, members, shown(numbers)),
    st.builds("pair {} {}".format, members, shown(pairs)),
    st.builds("name {} {}".format, members, shown(numbers.map("sm_{}".format))),
    st.builds("number >= {} and number < {}".format, numbers, numbers),
    st.builds("major == {} or major == {}".format, majors, majors),
)
around = st.sampled_from([
    ("x = ", "\n"), ("x = y and (", ") or z  # why\n"), ("f(a, ", ", b)\n"),
    ("if ", ":\n    g()\n"), ("if not (", "):\n    g()\n"), ("if ", ":\n    raise E\n"),
    ("x = [\n    1,\n    ", ",  # tail\n]\n"), ("assert ", ", 'no'\n"),
    ("z = 1 if ", " else None\n"),
])
SHAPES = {"order": r"[<>]", "equality": r"[!=]=", "membership": r"\bin \[",
          "negated membership": r"not in", "range": r"<= number <|and number",
          "alternatives": r" or ", "tuple": r"pair", "text": r"name"}
AROUND = {"refuses": r"raise", "negated if": r"if not", "call": r"f\(", "assert": r"assert",
          "list over lines": r"x = \[", "conditional value": r" if .*|else None"}
some = st.lists(st.sampled_from([Capability.parse(c) for c in
                                 ("8.9", "9.0", "10.3", "11.0", "12.0", "12.1")]),
                min_size=1, max_size=3, unique=True)


def passing(expression: str, positive: bool) -> set[Capability]:
    """The devices for which Python says that the feature is reached."""
    found = set()
    for capability in CAPABILITIES:
        major, minor = capability.major, capability.minor
        values = {"major": major, "minor": minor, "number": capability.number,
                  "pair": (major, minor), "name": f"sm_{capability.number}"}
        if bool(eval(expression, values)) is positive:
            found.add(capability)
    return found


@settings(max_examples=examples(250), deadline=None)
@given(tests, around, some, st.booleans())
def test_only_what_was_asked_changes(test: str, around: tuple[str, str], asked: list[Capability],
                                     opening: bool) -> None:
    before, after = around
    source = (HEAD + before + test + after).encode()
    positive = (before != "if not (") and "raise" not in after
    worlds = ArchSet.of(*asked)
    spec = GateSpec(test, "", worlds if opening else EMPTY, EMPTY if opening else worlds)
    made = rewrite(source, "m.py", spec, None)
    seen("rewriting a test", made.status.value, "opened" if opening else "closed",
         *matching(test, SHAPES), *matching(before + after, AROUND))
    old = passing(test, positive)
    if made.status is Status.NO_MATCH:  # a test that no device or every device passes
        assert old in (set(), set(CAPABILITIES))
        return
    done = set(asked) <= old if opening else not set(asked) & old
    assert (made.status is Status.ALREADY) == done
    if made.status is not Status.REWRITTEN:
        assert made.edits == ()
        return
    text = apply_edits(source, made.edits)
    start, end = (HEAD + before).encode(), after.encode()
    assert text.startswith(start)
    assert text.endswith(end)
    new = passing("(" + text[len(start):len(text) - len(end)].decode() + ")", positive)
    allowed = set(made.effective.capabilities)
    assert old ^ new <= allowed
    assert set(asked) <= new if opening else not set(asked) & new
    assert rewrite(text, "m.py", spec, None).status is Status.ALREADY
