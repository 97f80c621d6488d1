"""Ask ``sm-patch check`` of every patchset and every release, and keep the answers.

    python corpus/matrix.py             everything: patchsets/matrix.json and docs/matrix.md
    python corpus/matrix.py vllm-sm120  one patchset anew, the others as they were
    python corpus/matrix.py --page      only the words and the page, from the answers that are kept

The releases are those of releases.json, of which slices.py fetched what is looked at. ``check``
decides by gates; this only sorts its answers and says since when a fix is upstream.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from packaging.version import Version

from patcher.cli import main as sm_patch
from patcher.patchset.load import load_patchset

CORPUS = Path(__file__).resolve().parent
MATRIX = CORPUS.parent / "patchsets" / "matrix.json"
PAGE = CORPUS.parent / "docs" / "matrix.md"
Row = dict[str, Any]


def checked(asked: Sequence[str], folder: Path) -> list[Row]:
    """The rows that ``sm-patch check`` gives for these arguments."""
    with tempfile.TemporaryDirectory() as place:
        report = Path(place) / "check.json"
        code = sm_patch(["check", *asked, "--wheels", str(folder), "--cuda", "13.0",
                         "--arch", "sm_120a", "--format", "json", "--output", str(report)])
        if code not in (0, 1):
            raise SystemExit(f"check {' '.join(asked)} ended with {code}")
        rows: list[Row] = json.loads(report.read_text("utf-8"))["rows"]
    return rows


def asked_of(pairs: Sequence[dict[str, str]], name: str) -> Iterator[tuple[list[str], str]]:
    """The arguments of check for one patchset, and the form of archive they are about."""
    packages = set(load_patchset(name).packages)
    if len(packages) > 1:
        together = ["/".join(f"{each}=={version}" for each, version in pair.items())
                    for pair in pairs if packages == set(pair)]
        yield [name, *(part for each in together for part in ("--versions", each))], "wheels"
        return
    yield [name], "wheels"
    if name == "vllm-sm120":
        yield [name], "sources"


def cells(name: str, pairs: Sequence[dict[str, str]]) -> list[Row]:
    """One cell for each group and set of releases."""
    found = []
    for arguments, form in asked_of(pairs, name):
        for row in checked(arguments, CORPUS / "slices" / form):
            releases = {each["name"]: each["version"] for each in row["releases"]}
            found += [{"patchset": name, "group": group["id"], "releases": releases, "form": form,
                       "outcome": group["outcome"], "reason": group["reason"]}
                      for group in row["groups"]]
    return found


def _says(cell: Row, every: Sequence[Row]) -> str:
    """The outcome in the words of the table; ``every`` is the patchset's."""
    if cell["outcome"] == "applicable":
        return "applies"
    if "is for a" in cell["reason"]:
        return "for the other form"
    own = _version(cell)
    line = [c for c in every if c["group"] == cell["group"] and c["form"] == cell["form"]]
    if cell["outcome"] == "not-needed":
        since = own
        for other in sorted((c for c in line if _version(c) < own), key=_version, reverse=True):
            if other["outcome"] != "not-needed":
                break
            since = _version(other)
        return f"not needed since {since}" if any(
            c["outcome"] == "applicable" and _version(c) < since for c in line) else "not needed"
    outside = re.search(r"version (\S+) is outside ([^\s;]+)", cell["reason"])
    if cell["outcome"] == "unsupported" and outside:
        if ";" not in cell["reason"]:  # its gates are there, and nobody has looked at them
            return "not made for it"
        lower = [Version(part[2:]) for part in outside[2].split(",") if part.startswith(">=")]
        early = bool(lower) and Version(outside[1]) < lower[0]
        return "does not exist yet" if early else "gone"
    return str(cell["outcome"])


def _version(cell: Row) -> Version:
    """The release, of a pair the one that calls the other."""
    return Version(next(v for n, v in cell["releases"].items()
                        if n != "flashinfer-python" or len(cell["releases"]) == 1))


def page(document: dict[str, Any]) -> Iterator[str]:
    """The table as a page."""
    rows: list[Row] = document["cells"]
    counts = Counter(row["says"].partition(" since ")[0] for row in rows)
    yield "# Which patchset fits which release\n"
    yield "Made by `make matrix`: `sm-patch check` on every release from mid-2025 on that can be"
    yield "fetched. Gates decide, not version numbers. The data, with every reason, is"
    yield "`patchsets/matrix.json`.\n"
    counted = ", ".join(f"{counts[key]} {key}" for key in sorted(counts))
    yield f"{len(rows)} cells: {counted}.\n"
    yield "*applies*: its gates keep 12.x out. *not needed since X*: none does, from release X on."
    yield "*does not exist yet*: what it changes came later. *gone*: what it changes went away, or"
    yield "nobody uses it any more. *for the other form*: only for a source tree, or only for"
    yield "site-packages. *not made for it*: the gates fit, but nobody proved it for that"
    yield "release.\n"
    for name in dict.fromkeys(row["patchset"] for row in rows):
        for form in ("wheels", "sources"):
            mine = [r for r in rows if r["patchset"] == name and r["form"] == form]
            groups = [g for g in dict.fromkeys(r["group"] for r in mine) if any(
                r["says"] != "for the other form" for r in mine if r["group"] == g)]
            if not groups:
                continue
            yield f"## {name}" + (", source trees" if form == "sources" else "") + "\n"
            yield "| release | " + " | ".join(groups) + " |"
            yield "|---" * (len(groups) + 1) + "|"
            for title, says in _lines(mine, groups):
                yield f"| {title} | " + " | ".join(says) + " |"
            yield ""


def _lines(rows: Sequence[Row], groups: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    """The table's lines; releases in a row that agree share one."""
    table: dict[str, dict[str, str]] = {}
    for row in sorted(rows, key=_version):
        releases = row["releases"]
        title = " + ".join(f"{n} {v}" for n, v in releases.items()) if len(releases) > 1 \
            else next(iter(releases.values()))
        table.setdefault(title, {})[row["group"]] = row["says"]
    held: list[tuple[list[str], list[str]]] = []
    for title, line in table.items():
        says = [line.get(group, "") for group in groups]
        if held and held[-1][1] == says and "+" not in title:
            held[-1][0].append(title)
        else:
            held.append(([title], says))
    for titles, says in held:
        yield titles[0] if len(titles) == 1 else f"{titles[0]} to {titles[-1]}", says


def main() -> int:
    """Check, write both files."""
    releases = json.loads((CORPUS / "releases.json").read_text("utf-8"))
    pairs = releases["installed_together"]
    names = [] if sys.argv[1:] == ["--page"] else sys.argv[1:] or releases["patchsets"]
    old = json.loads(MATRIX.read_text("utf-8"))["cells"] if MATRIX.is_file() else []
    fresh = {name: cells(name, pairs) for name in names}
    kept = {name: [c for c in old if c["patchset"] == name] for name in releases["patchsets"]}
    rows = [cell for name in releases["patchsets"] for cell in fresh.get(name, kept[name])]
    mine = {name: [c for c in rows if c["patchset"] == name] for name in releases["patchsets"]}
    rows = [{**cell, "says": _says(cell, mine[cell["patchset"]])} for cell in rows]
    document = {"version": 1, "cells": rows}
    MATRIX.write_text(json.dumps(document, indent=1, sort_keys=True) + "\n", "utf-8")
    PAGE.write_text("\n".join(page(document)).rstrip("\n") + "\n", "utf-8")
    print(Counter(row["outcome"] for row in rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
