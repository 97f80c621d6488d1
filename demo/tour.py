"""Write what `make demo` printed into docs/tour.md, and its beginnings into README.md.

make demo | python demo/tour.py
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
README = REPOSITORY / "README.md"
TOUR = REPOSITORY / "docs" / "tour.md"
MARKS = ("<!-- tour -->\n", "<!-- /tour -->\n")
# Lines of each command's output that the README shows; other commands are shown in full.
SHOWN = {"scan": 32, "why": 60, "diff": 34}


def steps(output: str) -> list[tuple[str, list[str]]]:
    """The commands in order, each with the lines that it printed; what came before has none."""
    output = output.replace(str(REPOSITORY), "~/sm-patch")
    found: list[tuple[str, list[str]]] = [("", [])]
    for line in output.splitlines():
        if line.startswith("$ "):
            found.append((line, []))
        elif not line.startswith(("WARNING: ", "make: ")):  # pip's and make's own talk
            found[-1][1].append(line)
    return [(command, _trim(lines)) for command, lines in found]


def _trim(lines: list[str]) -> list[str]:
    return "\n".join(lines).strip("\n").splitlines()


def shorten(command: str, lines: list[str]) -> list[str]:
    """The first lines of a long output, and a line that says how many follow."""
    verb = re.match(r"\$ sm-patch (\w+)", command)
    limit = SHOWN.get(verb[1], len(lines)) if verb else len(lines)
    left = len(lines) - limit
    return [*lines[:limit], f"... {left} more lines in docs/tour.md"] if left > 3 else lines


def main() -> int:
    """Read the output from stdin and write both files."""
    found = steps(sys.stdin.read())
    full = [
        line for command, lines in found for line in ([command] if command else []) + lines + [""]
    ]
    text = "# The tour, in full\nWhat `make demo` prints.\n\n```text\n"
    TOUR.write_text(text + "\n".join(full).strip("\n") + "\n```\n", "utf-8")
    short = [
        line
        for command, lines in found
        for line in ([command] if command else []) + shorten(command, lines) + [""]
    ]
    readme = README.read_text("utf-8")
    head, _, rest = readme.partition(MARKS[0])
    _, _, tail = rest.partition(MARKS[1])
    body = "```text\n" + "\n".join(short).strip("\n") + "\n```\n"
    README.write_text(head + MARKS[0] + body + MARKS[1] + tail, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
