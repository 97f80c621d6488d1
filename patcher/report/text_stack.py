"""Several packages on one page: for each feature, who closes it and what leads out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from patcher.report.libraries import library_lines
from patcher.report.wrapping import wrap
from patcher.scan.model import FeatureSite, Report
from patcher.scan.stack import CLOSED, OPEN, Verdict, judged

_ORDER = ("wider", "narrower", "closed", "partly", "open")
_SHOWN = 2  # places of one package, where something is to be done


def verdicts(report: Report) -> list[Verdict]:
    """Every feature for every device of the report, those that matter first."""
    capabilities = dict.fromkeys(str(target.capability) for target in report.targets)
    found = list(judged(report.sites, capabilities))
    return sorted(found, key=lambda v: (not v.ways, _ORDER.index(v.answer)))


def render_stack(report: Report, *, everything: bool = False) -> str:
    """One page that ends with a newline; the first line is the answer."""
    found = verdicts(report)
    lines = [*wrap(headline(found)), *_packages(report), ""]
    several = len({v.capability for v in found}) > 1
    for verdict in found:
        if verdict.answer != "open":
            lines += _feature(verdict, several, everything)
    fine = [v.feature.title for v in found if v.answer == "open"]
    if fine:
        lines += wrap(", ".join(fine), "open: ")
    lines += ["", *library_lines(report, everything=everything)] if everything else []
    for note in report.notes:
        if "prebuilt" in note:
            lines += wrap(note, "note: ")
    names = report.packages[0].name
    lines += ["", f"Next: sm-patch scan {names}"]
    return "\n".join(lines).rstrip("\n") + "\n"


def headline(found: Sequence[Verdict]) -> str:
    """The most telling feature in words, and how many there are of each kind."""
    if not found:
        return "no feature of these packages is known to depend on another package"
    counts = {answer: sum(v.answer == answer for v in found) for answer in _ORDER}
    said = {"wider": "turned on without kernels", "narrower": "refused though kernels exist",
            "closed": "closed", "partly": "partly closed", "open": "open"}
    parts = [f"{counts[answer]} {said[answer]}" for answer in _ORDER if counts[answer]]
    first = found[0]
    devices = ", ".join(dict.fromkeys(v.capability for v in found))
    lead = f"{first.feature.title}: {first.summary}" if first.answer != "open" else "nothing closed"
    return f"{lead} (on {devices}: {', '.join(parts)} of {len(found)} features)"


def _packages(report: Report) -> Iterator[str]:
    rows = [f"{row.name} {row.version or 'of unknown version'}" for row in report.packages]
    targets = ", ".join(target.name for target in report.targets)
    yield from wrap(f"{'; '.join(rows)}; for {targets}; CUDA {report.toolchain.version}")


def _feature(verdict: Verdict, several: bool, everything: bool) -> Iterator[str]:
    where = f" on {verdict.capability}" if several else ""
    yield from wrap(f"[{verdict.answer}] {verdict.feature.title}{where}: {verdict.summary}")
    by_package: dict[str, list[FeatureSite]] = {}
    brief = not verdict.ways and not everything
    for site in verdict.sites:
        by_package.setdefault(site.package, []).append(site)
    for package, sites in by_package.items():
        if brief:
            yield from wrap(_brief(sites), f"  {package}: ")
            continue
        shown = sites if everything else sorted(
            sites, key=lambda s: (s.opened_by is None, not s.default,
                                  s.states[verdict.capability] != CLOSED))[:_SHOWN]
        for site in shown:
            yield from wrap(_site(site, verdict.capability), f"  {package}: ")
        if len(sites) > len(shown):
            yield f"  {package}: and {len(sites) - len(shown)} more places (--all)"
    if verdict.answer == "wider" and verdict.feature.symptom:
        yield from wrap(f"seen as: {verdict.feature.symptom}", "  ")
    for way in verdict.ways:
        yield from wrap(way, "  > ")
    if verdict.ways and verdict.feature.needs:
        yield f"  > needs {verdict.feature.needs}"


def _brief(sites: Sequence[FeatureSite]) -> str:
    """The first place, and how many more there are."""
    first = sites[0]
    place = f"{first.path}:{first.line}" if first.line else first.path
    more = f" and {len(sites) - 1} more (--all)" if len(sites) > 1 else ""
    return f"{place}{more}"


def _site(site: FeatureSite, capability: str) -> str:
    state = site.states[capability]
    word = "turns it on" if site.default and state == OPEN else {
        OPEN: "open", CLOSED: "closed"}.get(state, "takes another way")
    place = f"{site.path}:{site.line}" if site.line else site.path
    cause = f", {site.cause.value}" if site.cause.value != "unknown" else ""
    condition = site.condition if len(site.condition) < 90 else site.condition[:87] + "..."
    name = f" {site.name}" if site.role != "gate" else ""
    return f"{word}{name} {place} {condition}{cause}"
