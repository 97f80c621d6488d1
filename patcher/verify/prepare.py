"""Preprocess units of a tree with the real compiler, ready to be compared and compiled."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from patcher.arch import Target
from patcher.cuda.model import Configuration, TranslationUnit
from patcher.errors import ToolFailed
from patcher.verify.commands import front_flags, preprocess_command

_ROOT = b"/package"  # stands for the shadow's root, so that texts compare and cache by content


@dataclass(frozen=True, slots=True)
class Preprocessed:
    """One device pass's text, or the first error of the preprocessor."""

    text: bytes
    error: str = ""


class Workshop:
    """A shadow tree on disk together with the compiler that reads it."""

    def __init__(self, root: Path, nvcc: Path, extra_flags: Sequence[str] = ()) -> None:
        self._root = root
        self._nvcc = nvcc
        self._extra = tuple(extra_flags)

    def flags(self, unit: TranslationUnit) -> tuple[str, ...]:
        """The unit's flags with the package's folders moved into the shadow."""
        return (*front_flags(self._placed(unit.configuration)), *self._extra)

    def preprocess(self, unit: TranslationUnit, target: Target) -> Preprocessed:
        """Run ``nvcc -E`` for one target; raises ToolFailed when nvcc cannot be run."""
        source = self._root / unit.path
        if unit.content is not None:
            source.parent.mkdir(parents=True, exist_ok=True)
            source.write_bytes(unit.content)
        command = preprocess_command(self._nvcc, target, self.flags(unit), source)
        try:
            run = subprocess.run(command, capture_output=True, check=False, timeout=600,
                                 stdin=subprocess.DEVNULL)
        except subprocess.TimeoutExpired:
            return Preprocessed(b"", "the preprocessor took longer than 600 s")
        except OSError as error:
            raise ToolFailed(f"cannot run nvcc: {error.strerror}", where=str(self._nvcc)) from error
        if run.returncode:
            return Preprocessed(b"", self._shorten(run.stderr))
        return Preprocessed(run.stdout.replace(str(self._root).encode(), _ROOT))

    def _shorten(self, messages: bytes) -> str:
        lines = messages.decode("utf-8", "replace").replace(f"{self._root}/", "").splitlines()
        return next((line for line in lines if "error" in line), (lines or ["failed"])[-1])

    def _placed(self, configuration: Configuration) -> Configuration:
        return replace(
            configuration,
            include=tuple(self._place(f) for f in configuration.include),
            system=tuple(self._place(f) for f in configuration.system),
        )

    def _place(self, folder: str) -> str:
        return folder if folder.startswith("/") else str(self._root / folder)
