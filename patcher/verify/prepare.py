"""Preprocess units of a tree with the real compiler, ready to be compared and compiled."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from patcher.arch import Target
from patcher.cuda.model import Configuration, TranslationUnit
from patcher.errors import ToolFailed
from patcher.scratch import scratch
from patcher.verify.commands import device_command, front_flags, host_command
from patcher.verify.execute import Outcome, run_tool
from patcher.verify.ptx import ROOT

_ROOT = ROOT.rstrip("/").encode()  # texts compare and cache by content, wherever they lie
_SECONDS = 600
_LARGEST = 8 << 20
_Command = Callable[[Path, Target, tuple[str, ...], Path], list[str]]
_POSITIONS = re.compile(rb"^(?:# \d+ [^\n]*|[ \t]*)\n", re.M)
_MARKER = re.compile(rb'^# 1 "(/[^"\n]+[^/"\n])"', re.M)
_MISSING = re.compile(r"fatal error: ([^\s:]+): No such file")


@dataclass(frozen=True, slots=True)
class Preprocessed:
    """One pass's text, or the first error of the preprocessor.

    ``lasting`` is False for a failure of this machine rather than of the code.
    """

    text: bytes
    error: str = ""
    lasting: bool = True

    def same_code(self, other: Preprocessed) -> bool:
        """Equal but for where the lines stand: an edit for one target may move those below it."""
        return self.error == other.error and self.lasting and other.lasting and (
            self.text == other.text or _code(self.text) == _code(other.text))


def _quoted(path: Path) -> bytes:
    """A path as it stands in a text constant."""
    return os.fsencode(path).replace(b"\\", b"\\\\").replace(b'"', b'\\"')


def _code(text: bytes) -> bytes:
    return _POSITIONS.sub(b"", text)


class Workshop:
    """A shadow tree on disk together with the compiler that reads it."""

    def __init__(self, root: Path, nvcc: Path) -> None:
        self._root = root
        self._nvcc = nvcc
        self.outside: set[str] = set()  # files that are not the package's, read so far
        self.inside: dict[str, set[str]] = {}  # per unit the package's, read so far

    def place(self, unit: TranslationUnit) -> None:
        """Write a generated unit; call it before several threads preprocess it."""
        if unit.content is not None:
            source = self._root / unit.path
            source.parent.mkdir(parents=True, exist_ok=True)
            source.unlink(missing_ok=True)
            source.write_bytes(unit.content)

    def preprocess(self, unit: TranslationUnit, target: Target) -> Preprocessed:
        """The device pass's text for one target."""
        return self._run(device_command, unit, target)

    def preprocess_host(self, unit: TranslationUnit, target: Target) -> Preprocessed:
        """The host pass's text when one target is built."""
        return self._run(host_command, unit, target)

    def lines(self, path: str) -> list[str]:
        """A source file's lines, for reasons; none when it is no file of a usual size."""
        place = Path(path) if path.startswith("/") else self._root / path
        try:
            if not place.is_file() or place.stat().st_size > _LARGEST:
                return []
            return place.read_text("utf-8", "replace").splitlines()
        except OSError:
            return []

    def _flags(self, unit: TranslationUnit) -> tuple[str, ...]:
        """The unit's flags with the package's folders moved into the shadow."""
        return front_flags(self._placed(unit.configuration))

    def _run(self, command_of: _Command, unit: TranslationUnit, target: Target) -> Preprocessed:
        try:
            command = command_of(self._nvcc, target, self._flags(unit), self._root / unit.path)
        except ToolFailed as error:
            return Preprocessed(b"", error.what)
        with scratch() as folder:
            run = run_tool(command, folder, _SECONDS)
        if run.problem or run.code:
            return Preprocessed(b"", run.problem or self._explain(run), not run.problem)
        text = run.output.replace(_quoted(self._root), _ROOT)
        names = {name.decode("utf-8", "surrogateescape") for name in _MARKER.findall(text)}
        mine = {name for name in names if name.startswith(ROOT)}
        self.outside |= names - mine
        self.inside.setdefault(unit.path, set()).update(name.removeprefix(ROOT) for name in mine)
        return Preprocessed(text)

    def _explain(self, run: Outcome) -> str:
        lines = run.messages.replace(f"{self._root}/", "").splitlines()
        error = next((line for line in lines if "error" in line), (lines or ["failed"])[-1])
        found = _MISSING.search(error)
        return f"{error}; {_provider(found[1])}" if found else error

    def _placed(self, configuration: Configuration) -> Configuration:
        return replace(
            configuration,
            include=tuple(self._place(f) for f in configuration.include),
            system=tuple(self._place(f) for f in configuration.system),
        )

    def _place(self, folder: str) -> str:
        return folder if folder.startswith("/") else str(self._root / folder)


@cache
def _headers() -> dict[str, str]:
    data = json.loads((Path(__file__).parent.parent / "data" / "requirements.json").read_text(
        "utf-8"))["headers"]
    folders = {f"{name.partition('/')[0]}/": package for name, package in data.items()
               if "/" in name}
    return {**folders, **data}


def _provider(header: str) -> str:
    """What to install for a header: by its name, else by its first folder."""
    known = _headers()
    package = known.get(header) or known.get(header.partition("/")[0] + "/")
    if package is None:
        return "no package that has it is known"
    return (f"it comes with {package} (pip install {package}); when its folder is not searched "
            "yet, name it in CPATH")
