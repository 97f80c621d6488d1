"""gcc as the judge of what a world sees: one run replays a file in every world.

The macros of a device pass are those of the table, which was measured with nvcc;
what a condition means, and which lines are live, gcc decides.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

from patcher.arch import HOST, known_targets

WORLDS: list[tuple[str, dict[str, str]]] = [
    *((target.name, target.macros) for target in known_targets()), (HOST, {})]


def _preprocess(text: str, folder: Path) -> list[str]:
    source = folder / "oracle.cpp"
    source.write_bytes(text.encode("latin-1"))
    done = subprocess.run(["gcc", "-E", "-P", "-I", str(folder), str(source)],
                          capture_output=True, check=True)
    return done.stdout.decode("latin-1").splitlines()


def _in_every_world(body: str) -> str:
    """``body`` once per world, with that world's macros, behind a marker line."""
    parts = []
    for name, macros in WORLDS:
        parts += [f"world {name}", *(f"#define {key} {value}" for key, value in macros.items()),
                  body, *(f"#undef {key}" for key in macros)]
    return "\n".join(parts) + "\n"


def truths(conditions: Sequence[str], folder: Path, defines: str = "") -> list[set[str]]:
    """The worlds in which each condition is true."""
    body = "\n".join(f"#if {condition}\nholds {index}\n#endif"
                     for index, condition in enumerate(conditions))
    found: list[set[str]] = [set() for _ in conditions]
    world = ""
    for line in _preprocess(f"{defines}\n{_in_every_world(body)}", folder):
        kind, _, rest = line.partition(" ")
        if kind == "world":
            world = rest
        elif kind == "holds":
            found[int(rest)].add(world)
    return found


def live_lines(name: str, folder: Path) -> dict[str, list[str]]:
    """What each world sees of the file ``name``; it must not guard itself."""
    found: dict[str, list[str]] = {}
    for line in _preprocess(_in_every_world(f'#include "{name}"'), folder):
        kind, _, rest = line.partition(" ")
        if kind == "world":
            world = rest
            found[world] = []
        elif line.strip():
            found[world].append(line)
    return found
