"""Several packages together: who turns on what another one refuses."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from patcher.gates import Cause
from patcher.patchset.shipped import shipped
from patcher.report.json_scan import document
from patcher.report.text_stack import render_stack
from patcher.scan.combine import combine
from patcher.scan.model import FeatureSite, Options, Report
from patcher.scan.stack import Verdict, feature_rules, judged
from tests.scan.conftest import scan_root

FEATURE = "allreduce-fusion"


def _site(package: str, role: str, state: str, *, default: bool = False, opened: str | None = None,
          closed: str | None = None) -> FeatureSite:
    return FeatureSite(FEATURE, package, role, default, f"{package}/a.py", 3, "name",
                       "x in [9, 10]", {"12.0": state}, Cause.SOFTWARE, opened, closed)


def _verdict(*sites: FeatureSite) -> Verdict:
    (verdict,) = (v for v in judged(sites, ["12.0"]) if v.feature.id == FEATURE)
    return verdict


def test_a_caller_that_asks_for_what_is_refused_is_wider_and_has_two_ways_out() -> None:
    verdict = _verdict(
        _site("flashinfer-python", "kernel", "closed", opened="flashinfer-sm120/trtllm-comm"),
        _site("sglang", "gate", "open", default=True))
    assert verdict.answer == "wider"
    assert verdict.ways == (
        "open flashinfer-python: sm-patch apply flashinfer-sm120 --group trtllm-comm",
        "or keep sglang from asking: a python-gate patch that closes sglang/a.py:3 for this GPU")


def test_a_shipped_group_or_a_switch_of_the_caller_is_the_second_way_out() -> None:
    kernel = _site("flashinfer-python", "kernel", "closed")
    by_group = _verdict(kernel, _site("sglang", "gate", "open", default=True, closed="a/b"))
    assert by_group.ways == ("or keep sglang from asking: sm-patch apply a --group b",)
    by_flag = _verdict(kernel, _site("vllm", "gate", "open", default=True))
    assert by_flag.ways[0].startswith("or turn it off in vllm: --compilation-config")


def test_a_package_that_asks_only_in_some_of_its_defaults_is_not_wider() -> None:
    verdict = _verdict(_site("flashinfer-python", "kernel", "closed"),
                       _site("sglang", "gate", "open", default=True),
                       _site("sglang", "gate", "fallback", default=True))
    assert verdict.answer == "closed"


@pytest.mark.parametrize(("states", "answer"), [
    ((("flashinfer-python", "kernel", "open"), ("sglang", "gate", "closed")), "narrower"),
    ((("flashinfer-python", "kernel", "closed"), ("sglang", "gate", "closed")), "closed"),
    ((("flashinfer-python", "kernel", "open"), ("sglang", "gate", "fallback")), "partly"),
    ((("flashinfer-python", "kernel", "open"),), "open"),
    # one of several modules is enough
    ((("flashinfer-python", "kernel", "open"), ("flashinfer-python", "kernel", "closed")), "open"),
    ((("sglang", "gate", "closed"),), "partly"),  # nothing is known of the kernels
    ((("flashinfer-python", "kernel", "open"), ("sglang-kernel", "library", "closed")), "closed"),
])
def test_every_other_answer(states: tuple[tuple[str, str, str], ...], answer: str) -> None:
    assert _verdict(*(_site(*state) for state in states)).answer == answer


def test_a_feature_is_opened_in_all_packages_at_once_where_a_patchset_does() -> None:
    verdict = _verdict(_site("flashinfer-python", "kernel", "closed", opened="a/b"),
                       _site("sglang", "gate", "closed", opened="c/d"))
    way = "or all of it in one transaction: sm-patch apply allreduce-fusion-"
    assert [each for each in verdict.ways if each.startswith(way)] == [f"{way}sm120"]
    verdict = _verdict(_site("flashinfer-python", "kernel", "closed", opened="a/b"),
                       _site("vllm", "gate", "closed", opened="c/d"))
    assert [each for each in verdict.ways if each.startswith(way)] == [f"{way}vllm-sm120"]
    named = {part.together for rule in feature_rules() for part in rule.parts.values()}
    assert named - {""} <= set(shipped())


def test_the_table_holds_what_it_should() -> None:
    for rule in feature_rules():
        for part in rule.parts.values():
            for text in (part.modules, part.libraries, part.words, part.defaults):
                re.compile(text)
            assert part.modules or part.words or part.libraries
        assert not rule.calls or rule.calls in rule.parts


@pytest.mark.slow
@pytest.mark.wheels
@pytest.mark.parametrize(("sglang", "flashinfer", "answer"), [
    ("0.5.7", "0.5.3", "wider"), ("0.5.9", "0.6.3", "closed"), ("0.5.7", "0.7.4", "partly")])
def test_real_releases_that_are_installed_together(
        sglang: str, flashinfer: str, answer: str,
        unpacked: Callable[[str, str], Path]) -> None:
    """0.5.7 turns the fusion on for 9.x, 10.x and 12.x (server_args.py, is_blackwell_supported has
    majors [10, 12]); 0.5.9 for 9.x and 10.x only. FlashInfer's jit/comm.py says [9, 10] in 0.5.3
    and 0.6.3 and [9, 10, 12] in 0.7.4; 0.5.7's communicator.py falls back on 12.x with each."""
    reports: list[Report] = [
        scan_root(unpacked("sglang", sglang), "sglang", "sm_120a", Options(), "13.0"),
        scan_root(unpacked("flashinfer-python", flashinfer), "flashinfer", "sm_120a",
                  Options(modules=("trtllm_comm",)), "13.0")]
    report = combine(reports)
    (row,) = (r for r in document(report)["features"] if r["id"] == FEATURE)
    assert row["answer"] == answer
    if answer == "wider":
        places = {(p["package"], p["path"]) for p in row["places"]}
        assert ("flashinfer-python", "flashinfer/jit/comm.py") in places
        assert ("sglang", "sglang/srt/server_args.py") in places
        assert any(w.startswith("open flashinfer-python") for w in row["ways"])
        assert any("keep sglang from asking" in w for w in row["ways"])
        first = render_stack(report).split("\n\n")[0]
        assert first.startswith("all-reduce fusion: sglang turns it on, flashinfer-python refuses")
    json.dumps(document(report))
