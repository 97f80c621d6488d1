"""Parts of a scan's text that are too long to read, as counts by cause and by folder."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from patcher.gates import Cause, Gate
from patcher.report.wrapping import wrap

LONG = 24  # rows of a part that are shown one by one; a longer part is counted
_FOLDERS = 10
_NAMES = 24  # of one cause; --expand shows them all
_NAME = 40  # characters of one
_WARNINGS = 3
_CAUSES = list(Cause)
_DIGEST = re.compile(r"(?:_(?:[0-9a-f]{12,64}|\*)(?=_|$))+")
_DEVICE = re.compile(r"_(?:sm)?(\d{2,3})[af]?$")


def by_cause(rows: Sequence[tuple[str, Cause]], built: Iterable[str],
             numbers: Sequence[int]) -> Iterator[str]:
    """Names of closed modules: those with a sibling built for the target, the rest by cause.

    ``built`` are the modules that are not closed; what stands after a name's first variable
    part is left out.
    """
    stems = {stem for name in built for stem, number in [_stem(name)] if number in numbers}
    groups: dict[str, list[str]] = {}
    for name, cause in sorted(rows, key=lambda row: _CAUSES.index(row[1])):
        group = f"cause {cause.value}"
        if _stem(name)[0] in stems:
            group = f"beside one for {' and '.join(map(str, numbers))}"
        groups.setdefault(group, []).append(name)
    for group, names in groups.items():
        yield from in_line(names, f"  {len(names)} {group}: ")


def in_line(names: Iterable[str], head: str = "  ") -> Iterator[str]:
    """Names one after the other, those that look alike when shortened counted; first those that
    are whole: of generated kernels there may be thousands."""
    counts: dict[str, int] = {}
    for name in names:
        counts[short(name)] = counts.get(short(name), 0) + 1
    rows = sorted(counts.items(), key=lambda row: row[1] > 1 or row[0].endswith(("*", "...")))
    said = [f"{name} ({count})" if count > 1 else name for name, count in rows]
    if len(said) > _NAMES:
        said[_NAMES:] = [f"and {sum(count for _, count in rows[_NAMES:])} more"]
    yield from wrap(", ".join(said), head)


def _stem(name: str) -> tuple[str, int]:
    """A module's name without the device at its end, and that device's number or 0."""
    found = _DEVICE.search(name)
    return (name[: found.start()], int(found[1])) if found else (name, 0)


def short(name: str) -> str:
    """A name of reasonable length: that of a module for all data types ends at the first one.

    Digests in names are stars: kernels of one kind are one name.
    """
    name = _DIGEST.sub("_*", name)
    if len(name) <= _NAME:
        return name
    head, star, _ = name.partition("*")
    return head[:_NAME] + "*" if star else name[: _NAME - 3] + "..."


def by_folder(gates: Sequence[Gate]) -> Iterator[str]:
    """One line for each of the folders with most gates, and one for the rest."""
    folders: dict[str, list[Gate]] = {}
    for gate in gates:
        folders.setdefault(gate.location.path.rpartition("/")[0], []).append(gate)
    ranked = sorted(folders.items(), key=lambda item: (-_count(item[1]), item[0]))
    for folder, inside in ranked[:_FOLDERS]:
        yield from wrap(f"{folder}: {_sum(inside)}", "  ")
    if rest := [gate for _, inside in ranked[_FOLDERS:] for gate in inside]:
        yield from wrap(f"{len(ranked) - _FOLDERS} more folders: {_sum(rest)}", "  ")
    if gates:
        yield "  (--expand shows each)"


def _sum(gates: Sequence[Gate]) -> str:
    count, files = _count(gates), len({gate.location.path for gate in gates})
    causes: dict[str, int] = {}
    for gate in gates:
        causes[gate.cause.value] = causes.get(gate.cause.value, 0) + gate.count
    text = f"{count} in {files} file{'s' * (files > 1)}"
    return text if set(causes) == {Cause.UNKNOWN.value} else f"{text}, cause {_listed(causes)}"


def _listed(causes: Mapping[str, int]) -> str:
    if len(causes) == 1:
        return next(iter(causes))
    return ", ".join(f"{name} {count}" for name, count in sorted(causes.items()))


def _count(gates: Sequence[Gate]) -> int:
    return sum(gate.count for gate in gates)


def few(warnings: Sequence[str], *, everything: bool) -> Iterator[str]:
    """The first warnings, and how many more there are."""
    shown = warnings if everything else warnings[:_WARNINGS]
    for text in shown:
        yield from wrap(text, "warning: ")
    if len(warnings) > len(shown):
        yield f"and {len(warnings) - len(shown)} more warnings (--expand)"
