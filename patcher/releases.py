"""Releases of packages: named by people or lock files, found in folders or fetched by pip.

Only wheels are fetched: to learn what a source archive is, pip would run its
build, and nothing of a scanned package is ever run.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from patcher.errors import InputError, PackageNotFound, UsageError
from patcher.package.metadata import normalise
from patcher.toml import parse_toml

_TIMEOUT = 1800  # seconds for one download; vllm's wheel has 400 MB
_HASH = re.compile(r"--hash[= ](\w+:[0-9a-fA-F]+)")
_TOML_LOCKS = {"packages": "pylock.toml", "package": "uv.lock or poetry.lock"}


@dataclass(frozen=True, slots=True)
class Release:
    """A version of a package (name as PEP 503 compares it); ``hashes`` as a lock file pins them."""

    name: str
    version: str
    hashes: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.name} {self.version}"


def parse_pins(text: str, package: str | None) -> tuple[Release, ...]:
    """``0.6.3`` (of ``package``), or ``sglang==0.5.9/flashinfer-python==0.6.3``.

    Raises UsageError for what is neither, or for a bare version when ``package`` is None.
    """
    found = []
    for part in text.split("/"):
        name, _, version = part.strip().rpartition("==")
        if not name and package is None:
            raise UsageError(f"which package is {text} a version of?",
                             next_step=f"write NAME=={text}")
        found.append(Release(normalise(name or str(package)), _version(version)))
    return tuple(found)


def _version(text: str) -> str:
    from packaging.version import InvalidVersion, Version

    try:
        return str(Version(text))
    except InvalidVersion:
        raise UsageError(f"{text!r} is not a version", next_step="for example 0.6.3") from None


def read_requirements(path: Path) -> tuple[dict[str, Release], list[str]]:
    """The releases a lock file pins, by name, and notes on what it leaves open.

    Takes requirements.txt as pip-compile and uv write it, pylock.toml, uv.lock
    and poetry.lock. Raises InputError when it cannot be read.
    """
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read: {error}", where=str(path)) from error
    if path.suffix == ".toml" or path.name in ("uv.lock", "poetry.lock"):
        return _from_toml(parse_toml(text, str(path)), path), []
    notes: list[str] = []
    found: dict[str, Release] = {}
    for line in _logical_lines(text):
        release = _from_line(line, notes)
        if release is not None:
            found.setdefault(release.name, release)
    return found, notes


def _from_toml(document: dict[str, Any], path: Path) -> dict[str, Release]:
    rows = next((document[key] for key in _TOML_LOCKS if isinstance(document.get(key), list)), None)
    if rows is None:
        raise InputError("no list of packages", where=str(path),
                         next_step=f"known: requirements.txt, {', '.join(_TOML_LOCKS.values())}")
    pairs = [(row.get("name"), row.get("version")) for row in rows if isinstance(row, dict)]
    found = [Release(normalise(n), v) for n, v in pairs
             if isinstance(n, str) and isinstance(v, str)]
    return {release.name: release for release in found}


def _logical_lines(text: str) -> Iterator[str]:
    for line in re.sub(r"\\\r?\n", " ", text).splitlines():
        line = re.sub(r"(^|\s)#.*$", "", line).strip()
        if line:
            yield line


def _from_line(line: str, notes: list[str]) -> Release | None:
    """One requirement; None with a note when it pins no release of an index."""
    from packaging.requirements import InvalidRequirement, Requirement

    if line.startswith("-"):
        if not line.startswith(("--hash", "-i ", "--index", "--extra-index", "--find-links")):
            notes.append(f"not followed: {line}")
        return None
    try:
        wanted = Requirement(re.sub(r"\s--hash.*$", "", line))
    except InvalidRequirement:
        notes.append(f"not understood: {line[:80]}")
        return None
    if wanted.marker is not None and not wanted.marker.evaluate():
        return None
    exact = [s.version for s in wanted.specifier if s.operator in ("==", "===")]
    if len(exact) != 1 or exact[0].endswith(".*"):
        notes.append(f"not pinned: {wanted}")
        return None
    return Release(normalise(wanted.name), exact[0], tuple(_HASH.findall(line)))


class Wheels:
    """Where releases are looked for: a folder, else pip's index with a cache of our own."""

    def __init__(self, folder: Path | None = None, cache: Path | None = None) -> None:
        if folder is not None and not folder.is_dir():
            raise InputError("not a folder", where=str(folder))
        self._folder = folder
        self._cache = cache
        self._listed: dict[Path, list[tuple[Release, Path]]] = {}

    def versions(self, name: str) -> list[str]:
        """What the folder holds of a package, oldest first; empty without a folder."""
        from packaging.version import Version

        found = {r.version for r, _ in self._list(self._folder) if r.name == normalise(name)} \
            if self._folder else set()
        return sorted(found, key=Version)

    def find(self, release: Release) -> Path:
        """The archive of a release. Raises PackageNotFound when it cannot be had."""
        place = self._folder or self._cache_folder()
        found = self._listed_in(place, release)
        if found is None and self._folder is None:
            _download(release, place)
            self._listed.pop(place, None)
            found = self._listed_in(place, release)
        if found is None:
            raise PackageNotFound(f"no wheel of {release}", where=str(place))
        return found

    def _cache_folder(self) -> Path:
        if self._cache is None:
            from platformdirs import user_cache_path

            self._cache = user_cache_path("sm-patch") / "wheels"
        self._cache.mkdir(parents=True, exist_ok=True)
        return self._cache

    def _listed_in(self, place: Path, release: Release) -> Path | None:
        wanted = (release.name, _version(release.version))
        return next((path for one, path in self._list(place)
                     if (one.name, one.version) == wanted), None)

    def _list(self, place: Path) -> list[tuple[Release, Path]]:
        if place not in self._listed:
            self._listed[place] = list(_archives(sorted(place.iterdir())))
        return self._listed[place]


def _archives(paths: Iterable[Path]) -> Iterator[tuple[Release, Path]]:
    """Wheels first, then source archives: a wheel is what gets installed."""
    from packaging.utils import (
        InvalidSdistFilename,
        InvalidWheelFilename,
        parse_sdist_filename,
        parse_wheel_filename,
    )

    sources = []
    for path in paths:
        try:
            if path.suffix == ".whl":
                name, version, *_ = parse_wheel_filename(path.name)
                yield Release(name, str(version)), path
            elif path.name.endswith(".tar.gz"):
                name, version = parse_sdist_filename(path.name)
                sources.append((Release(name, str(version)), path))
        except (InvalidWheelFilename, InvalidSdistFilename):
            continue
    yield from sources


def _download(release: Release, place: Path) -> None:
    """Fetch one wheel through pip, whole or not at all. Raises PackageNotFound."""
    hashes = "".join(f" --hash={each}" for each in release.hashes)
    with tempfile.TemporaryDirectory(dir=place, prefix=".new-") as fresh:
        command = [*_pip(), "download", "--quiet", "--disable-pip-version-check", "--no-input",
                   "--no-deps", "--only-binary=:all:", "--ignore-requires-python",
                   "--dest", fresh, "--requirement", "/dev/stdin"]
        try:
            done = subprocess.run(command, input=f"{release.name}=={release.version}{hashes}\n",
                                  capture_output=True, text=True, timeout=_TIMEOUT, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise PackageNotFound(f"no wheel of {release}: {error}") from error
        if done.returncode:
            errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR:")]
            why = errors[-1] if errors else "pip failed"
            raise PackageNotFound(f"no wheel of {release}: {why}",
                                  next_step="put it into a folder and name that with --wheels")
        for path in Path(fresh).iterdir():
            os.replace(path, place / path.name)


def _pip() -> list[str]:
    """How pip is called here: our interpreter's, the one on PATH, or uv's."""
    if importlib.util.find_spec("pip") is not None:
        return [sys.executable, "-m", "pip"]
    if found := shutil.which("pip") or shutil.which("pip3"):
        return [found]
    if found := shutil.which("uv"):
        return [found, "tool", "run", "pip"]
    raise PackageNotFound("neither pip nor uv is here to fetch wheels",
                          next_step="name a folder that holds them with --wheels")
