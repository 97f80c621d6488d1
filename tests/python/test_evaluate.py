"""Expressions against Python itself: every capability is tried, both answers of every flag."""

from __future__ import annotations

import ast
from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st

from patcher.arch import known_targets
from patcher.python.evaluate import Evaluator
from patcher.python.index import Index
from patcher.python.values import truth_of

MODULE = b"""
import torch
from settings import flag
major, minor = torch.cuda.get_device_capability()
number = major * 10 + minor
pair = (major, minor)
name = f"sm_{number}"
"""

majors = st.sampled_from([7, 8, 9, 10, 11, 12, 13])
numbers = st.sampled_from([75, 80, 89, 90, 100, 103, 110, 120, 121])
pairs = st.tuples(majors, st.sampled_from([0, 1, 3, 9]))
orders = st.sampled_from(["==", "!=", "<", "<=", ">", ">="])


def listed(items: st.SearchStrategy[object]) -> st.SearchStrategy[str]:
    shapes = st.sampled_from(["[{}]", "({},)", "{{{}}}", "frozenset([{}])"])
    some = st.lists(items, min_size=1, max_size=4)
    return st.builds(lambda shape, xs: shape.format(", ".join(map(repr, xs))), shapes, some)


members = st.sampled_from(["in", "not in"])
tests = st.one_of(
    st.builds("major {} {}".format, orders, majors),
    st.builds("{1} {0} number".format, orders, numbers),
    st.builds("pair {} {}".format, orders, pairs),
    st.builds("{} <= number < {}".format, numbers, numbers),
    st.builds("{} <= pair < {}".format, pairs, pairs),
    st.builds("major {} {}".format, members, listed(majors)),
    st.builds("number {} {}".format, members, listed(numbers)),
    st.builds("pair {} {}".format, members, listed(pairs)),
    st.builds("name {} {}".format, members, listed(numbers.map("sm_{}".format))),
    st.builds("name == 'sm_{}'".format, numbers),
    st.builds("{{9: 0, 10: 1, 12: 2}}.get(major, {}) > 0".format, st.sampled_from([0, 1])),
    st.builds("any(major == m for m in {})".format, st.lists(majors, min_size=1, max_size=3)),
    st.builds("number // 10 {} {}".format, orders, majors),
    st.just("flag"),
    st.just("True"),
)
expressions = st.recursive(tests, lambda inner: st.one_of(
    st.builds("({} and {})".format, inner, inner),
    st.builds("({} or {})".format, inner, inner),
    st.builds("(not {})".format, inner),
    st.builds("({} if {} else {})".format, inner, inner, inner),
    st.builds("bool({})".format, inner),
), max_leaves=8)


def ours(expression: str) -> list[bool | None]:
    """True, False or unknown for every target."""
    evaluator = Evaluator(Index(None, "m.py"))
    module = evaluator.index.add("m.py", MODULE)
    assert module is not None
    value = evaluator.value(ast.parse(expression, mode="eval").body, evaluator.module_scope(module))
    truth = truth_of(value)
    return [True if t in truth.true else False if t in truth.false else None
            for t in known_targets()]


def pythons(expression: str, flag: bool) -> list[bool]:
    """What Python says when it runs the expression (ours, generated above) on each target."""
    answers = []
    for target in known_targets():
        major, minor = target.capability.major, target.capability.minor
        names = {"major": major, "minor": minor, "number": major * 10 + minor, "flag": flag,
                 "pair": (major, minor), "name": f"sm_{major * 10 + minor}"}
        answers.append(bool(eval(expression, names)))
    return answers


@settings(max_examples=150, deadline=None)
@given(expressions)
def test_known_answers_are_pythons(expression: str) -> None:
    with_flag, without = pythons(expression, True), pythons(expression, False)
    for answer, yes, no in zip(ours(expression), with_flag, without, strict=True):
        assert answer is None or answer == yes == no


@settings(max_examples=100, deadline=None)
@given(expressions.filter(lambda text: "flag" not in text))
def test_nothing_is_unknown_without_a_flag(expression: str) -> None:
    assert ours(expression) == pythons(expression, True)


def test_a_flag_matters_only_where_the_architecture_leaves_it_open(
        ask: Callable[..., Callable[[str], tuple[list[str], list[str]]]]) -> None:
    asked = ask({"pkg/a.py": MODULE.decode()})
    assert asked("major == 12 and flag") == ([], ["12.0", "12.1"])
    assert asked("major == 12 or flag")[0] == ["12.0", "12.1"]
