"""What tools that patch installed packages do when things go wrong: run, and printed as a table.

    python -m bench.peers [--tool NAME] [--row WORD]

Needs git, patch, quilt and uv, and in the environment PATCH_PACKAGE, P12Y and
ANSIBLE: the programs of patch-package (npm), patch-package-py (PyPI) and
Ansible with its collection ansible.posix. Each cell is what was found on the
disk afterwards, with the tool's exit code where it says something.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from bench.peer_tools import TOOLS, Patch, Tool

LINES = "".join(f"line {number:02}\n" for number in range(1, 31))
BLOCK = "begin\n  step a\n  step b\n  guard\n  step c\n  step d\nend\n"
MANY = 600
TRIES = 8
FILES = {"a.h": LINES, "b.h": LINES}
A = Patch("pa", {"a.h": ("line 05\n", "line 05 A\n")})
B = Patch("pb", {"a.h": ("line 20\n", "line 20 B\n")})
Row = Callable[[type[Tool], Path], str]
ROWS: dict[str, Row] = {}


def row(title: str) -> Callable[[Row], Row]:
    def keep(function: Row) -> Row:
        ROWS[title] = function
        return function

    return keep


def made(kind: type[Tool], case: Path, files: Mapping[str, str] = FILES,
         link_mode: str = "copy") -> Tool:
    case.mkdir(parents=True)
    return kind(case, files, link_mode)


def holds(tool: Tool, name: str, text: str) -> bool:
    return text in (tool.home / name).read_bytes().decode()


@row("hard link shared with another environment (uv)")
def hard_link(kind: type[Tool], case: Path) -> str:
    tool = made(kind, case, link_mode="hardlink")
    other = case / "other.h"
    other.hardlink_to(tool.home / "a.h")
    tool.run(tool.apply(A))
    done = holds(tool, "a.h", "05 A")
    return ("not applied" if not done else
            "kept apart" if other.read_text() == LINES else "**the other one is changed, too**")


@row("symlink into the installer's cache (uv)")
def symlink(kind: type[Tool], case: Path) -> str:
    tool = made(kind, case)
    cached = case / "cached.h"
    (tool.home / "a.h").rename(cached)
    (tool.home / "a.h").symlink_to(cached)
    code = tool.run(tool.apply(A))
    if cached.read_text() != LINES:
        return "**the cache is changed**"
    if holds(tool, "a.h", "05 A"):
        return "link replaced, cache kept"
    return _said(code, "nothing written")


@row("second file does not match")
def second_fails(kind: type[Tool], case: Path) -> str:
    tool = made(kind, case)
    both = Patch("pb", {"a.h": ("line 05\n", "line 05 A\n"), "b.h": ("line 05\n", "line 05 A\n")})
    (tool.home / "b.h").write_text("rewritten\n")
    code = tool.run(tool.apply(both))
    return _said(code, "**half applied**" if holds(tool, "a.h", "05 A") else "nothing written")


@row("the place is gone in the new release")
def anchor_gone(kind: type[Tool], case: Path) -> str:
    tool = made(kind, case)
    (tool.home / "a.h").write_text(LINES.replace("line 05\n", "line 05, rewritten\n"))
    code = tool.run(tool.apply(A))
    return "refused" if code else "**not applied, exit 0**"


@row("the text stands twice, the wrong one nearer")
def twice(kind: type[Tool], case: Path) -> str:
    before = BLOCK + "pad\n" * 40 + "second:\n"
    tool = made(kind, case, {"a.h": "first:\n" + BLOCK})
    patch = Patch("pa", {"a.h": ("  guard\n", "  guard A\n")})
    tool.written(patch)
    (tool.home / "a.h").write_text(before + BLOCK)
    code = tool.run(tool.apply(patch))
    if not holds(tool, "a.h", "guard A"):
        return _said(code, "nothing written")
    return _said(code, "**takes the first, says nothing**" if not code else "takes the first")


@row("applied twice")
def again(kind: type[Tool], case: Path) -> str:
    tool = made(kind, case)
    tool.run(tool.apply(A))
    code = tool.run(tool.apply(A))
    kept = holds(tool, "a.h", "05 A") and not holds(tool, "a.h", "05 A A")
    return _said(code, "nothing to do" if kept else "**undone or doubled**")


@row("killed half-way, then run again")
def killed(kind: type[Tool], case: Path) -> str:
    """Tried anew until the kill came in between: a tool may be faster than its killer."""
    for attempt in range(TRIES):
        half, whole, code = _killed_once(kind, case / str(attempt))
        if 0 < half < MANY:
            break
    else:
        return "always done before the kill"
    if whole == MANY:
        return f"{half} of {MANY}, then whole"
    return f"**{half} of {MANY}, then stays at {whole}** (exit {code})"


def _killed_once(kind: type[Tool], case: Path) -> tuple[int, int, int]:
    """Files changed by the time of the kill, after the second run, and its exit code."""
    files = {f"many/{number}.h": LINES for number in range(MANY)}
    tool = made(kind, case, files)
    patch = Patch("pa", dict.fromkeys(files, ("line 05\n", "line 05 A\n")))
    process = tool.start(tool.apply(patch))
    while process.poll() is None and not _patched(tool, ["many/0.h"]):  # the first one
        pass
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    half = _patched(tool, files)
    code = tool.run(tool.apply(patch)) if 0 < half < MANY else 0
    return half, _patched(tool, files), code


def _patched(tool: Tool, files: Iterable[str]) -> int:
    count = 0
    for name in files:
        with suppress(OSError):
            count += holds(tool, name, "05 A")
    return count


@row("two at once, another patch each")
def together(kind: type[Tool], case: Path) -> str:
    files = {f"many/{number}.h": LINES for number in range(MANY)}
    tool = made(kind, case, files)
    patches = [Patch("pa", dict.fromkeys(files, ("line 05\n", "line 05 A\n"))),
               Patch("pb", dict.fromkeys(files, ("line 20\n", "line 20 B\n")))]
    commands = [tool.apply(patch) for patch in patches]
    codes = [process.wait() for process in [tool.start(command) for command in commands]]
    first = sum(holds(tool, name, "05 A") for name in files)
    second = sum(holds(tool, name, "20 B") for name in files)
    if first == second == MANY:
        return "both are in"
    refused = sum(code != 0 for code in codes)
    whole = {first, second} <= {0, MANY}
    return (f"one is in, the other {'refused' if refused else '**lost, exit 0**'}" if whole
            else f"**{first} and {second} of {MANY}**, exit {codes[0]} and {codes[1]}")


@row("revert the first of two")
def order(kind: type[Tool], case: Path) -> str:
    tool = made(kind, case)
    near = Patch("pb", {"a.h": ("line 07\n", "line 07 B\n")})
    if tool.run(tool.apply(A)) or tool.run(tool.apply(near)) or not holds(tool, "a.h", "07 B"):
        return "second patch refused"
    command = tool.revert(A)
    if command is None:
        return "no revert"
    code = tool.run(command)
    left = holds(tool, "a.h", "05 A"), holds(tool, "a.h", "07 B")
    return {(False, True): "the second stays", (True, True): f"refused ({code})",
            (False, False): "takes both back" if not tool.single else "**takes both back**",
            (True, False): "**takes back the other one**"}[left]


@row("someone edited elsewhere in the file; revert")
def foreign(kind: type[Tool], case: Path) -> str:
    tool = made(kind, case)
    tool.run(tool.apply(A))
    text = (tool.home / "a.h").read_text()
    (tool.home / "a.h").write_text(text.replace("line 28\n", "line 28 theirs\n"))
    command = tool.revert(A)
    if command is None:
        return "no revert"
    code = tool.run(command)
    if not holds(tool, "a.h", "28 theirs"):
        return _said(code, "**their edit is lost**")
    return _said(code, "their edit is kept" if not holds(tool, "a.h", "05 A") else "refused")


@row("the file has CRLF line ends")
def crlf(kind: type[Tool], case: Path) -> str:
    tool = made(kind, case)
    wanted = LINES.replace("line 05\n", "line 05 A\n").replace("\n", "\r\n").encode()
    (tool.home / "a.h").write_bytes(LINES.replace("\n", "\r\n").encode())
    code = tool.run(tool.apply(A))
    data = (tool.home / "a.h").read_bytes()
    if data == wanted:
        return "applied, line ends kept"
    return _said(code, "**line ends changed**" if b"05 A" in data else "nothing written")


@row("reinstalled since; applied again")
def reinstalled(kind: type[Tool], case: Path) -> str:
    tool = made(kind, case)
    tool.run(tool.apply(A))
    tool.reinstall()
    code = tool.run(tool.apply(A))
    return "applied again" if holds(tool, "a.h", "05 A") else _said(code, "**not applied**")


@row("a patch that adds a file; uninstall")
def leftovers(kind: type[Tool], case: Path) -> str:
    tool = made(kind, case)
    tool.run(tool.apply(Patch("pa", A.edits, {"sub/new.h": "new\n"})))
    tool.uninstall()
    left = sorted(p.name for p in tool.home.rglob("*") if p.is_file()
                  and ".git" not in p.relative_to(tool.home).parts) if tool.home.exists() else []
    return "nothing stays" if not left else f"stays: {', '.join(left[:3])}"


@row("beside the package after apply and revert")
def beside(kind: type[Tool], case: Path) -> str:
    tool = made(kind, case)
    around = (tool.home, tool.home.parent)
    before = {str(p) for folder in around for p in folder.iterdir()}
    tool.run(tool.apply(A))
    (tool.home / "b.h").write_text("theirs\n")
    command = tool.revert(A)
    if command is not None:
        tool.run(command)
    after = {str(p) for folder in around for p in folder.iterdir()}
    names = sorted(Path(p).name for p in after - before if not p.endswith("__pycache__"))
    return ", ".join(names) or "nothing"


def _said(code: int, what: str) -> str:
    return f"{what} (exit {code})"


def cells(titles: list[str], tools: list[type[Tool]]) -> Iterator[tuple[str, list[str]]]:
    for title in titles:
        found = []
        for kind in tools:
            folder = Path(tempfile.mkdtemp(prefix="peers-"))
            try:
                found.append(ROWS[title](kind, folder / "case"))
            except (OSError, subprocess.CalledProcessError, KeyError) as error:
                found.append(f"not run: {type(error).__name__}")
            finally:
                shutil.rmtree(folder, ignore_errors=True)
        yield title, found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tool", action="append", help="only this one; repeatable")
    parser.add_argument("--row", default="", help="only rows with this word")
    options = parser.parse_args()
    tools = [kind for kind in TOOLS if not options.tool or kind.name in options.tool]
    titles = [title for title in ROWS if options.row in title]
    print("| situation |", " | ".join(kind.name for kind in tools), "|")
    print("|---" * (len(tools) + 1) + "|")
    for title, found in cells(titles, tools):
        print(f"| {title} |", " | ".join(found), "|", flush=True)


if __name__ == "__main__":
    main()
