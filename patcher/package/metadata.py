"""Distribution metadata read as text: names, versions, RECORD, top-level packages."""

from __future__ import annotations

import base64
import binascii
import csv
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlparse

from patcher.package.model import RecordEntry
from patcher.tree import Tree, exists

_SEPARATORS = re.compile(r"[-_.]+")
_VERSION_LINE = re.compile(
    r"""^\s*(?:__version__|version)\s*(?::\s*str)?\s*=\s*["']([^"'\n]+)["']""", re.MULTILINE)
_HASHES = {"sha256": 32, "sha384": 48, "sha512": 64}


def normalise(name: str) -> str:
    """A distribution name as PEP 503 compares it."""
    return _SEPARATORS.sub("-", name).lower()


@dataclass(frozen=True, slots=True)
class Distribution:
    """The metadata folder of one distribution in a tree."""

    tree: Tree
    folder: str  # the .dist-info or .egg-info folder
    name: str
    version: str | None

    def text(self, name: str) -> str | None:
        """A metadata file's text, None when it is absent."""
        try:
            return self.tree.read(f"{self.folder}/{name}").decode("utf-8", "replace")
        except FileNotFoundError:
            return None

    def record(self) -> dict[str, RecordEntry]:
        """RECORD by path, without entries outside the root; empty when there is none."""
        return parse_record(self.text("RECORD") or "")

    def import_names(self) -> list[str]:
        """Top-level packages, from top_level.txt or RECORD; modules and metadata left out."""
        listed = self.text("top_level.txt")
        if listed is not None:
            names = listed.split()
        else:
            names = list(dict.fromkeys(p.split("/")[0] for p in self.record() if p.count("/")))
        return [n for n in names if n.isidentifier() and exists_folder(self.tree, n)]

    def project_folder(self) -> Path | None:
        """The project behind an editable install (direct_url.json), None otherwise."""
        try:
            url = json.loads(self.text("direct_url.json") or "null")
        except ValueError:
            return None
        if not isinstance(url, dict) or not (url.get("dir_info") or {}).get("editable"):
            return None
        parts = urlparse(str(url.get("url", "")))
        return Path(unquote(parts.path)) if parts.scheme == "file" else None


def exists_folder(tree: Tree, name: str) -> bool:
    """True for a folder directly below the tree's root."""
    return name in tree.folders("")


def distributions(tree: Tree) -> Iterator[Distribution]:
    """Every distribution with metadata directly below the tree's root."""
    for folder in sorted(tree.folders("")):
        if not folder.endswith((".dist-info", ".egg-info")):
            continue
        header = _header(tree, folder)
        stem = folder.rsplit(".", 1)[0]
        name = header.get("name") or stem.partition("-")[0]
        version = header.get("version") or stem.partition("-")[2].split("-")[0] or None
        yield Distribution(tree, folder, normalise(name), version)


def _header(tree: Tree, folder: str) -> Mapping[str, str]:
    """Name and Version of METADATA or PKG-INFO; the body is not read."""
    for name in ("METADATA", "PKG-INFO"):
        try:
            text = tree.read(f"{folder}/{name}" if folder else name).decode("utf-8", "replace")
        except FileNotFoundError:
            continue
        head = re.split(r"\r?\n\r?\n", text, maxsplit=1)[0]
        pairs = (line.split(":", 1) for line in head.splitlines() if ":" in line[1:])
        return {key.strip().lower(): value.strip() for key, value in pairs
                if key.strip().lower() in ("name", "version")}
    return {}


def parse_record(text: str) -> dict[str, RecordEntry]:
    """RECORD's lines by path. Absolute paths and paths that leave the root are dropped."""
    entries = {}
    for row in _rows(text):
        if not row or row[0].startswith(("/", "../")) or "/../" in row[0]:
            continue
        algorithm, _, digest = (row[1] if len(row) > 1 else "").partition("=")
        size = int(row[2]) if len(row) > 2 and row[2].isdecimal() else None
        entries[row[0]] = RecordEntry(row[0], algorithm, _hex(algorithm, digest), size)
    return entries


def _rows(text: str) -> Iterator[list[str]]:
    """The rows that can be read; a hostile one must not hide the others."""
    reader = csv.reader(text.splitlines())
    while True:
        try:
            yield next(reader)
        except StopIteration:
            return
        except csv.Error:
            continue


def _hex(algorithm: str, digest: str) -> str:
    """A RECORD hash (urlsafe base64 without padding) in hex; empty for one we do not know."""
    try:
        raw = base64.urlsafe_b64decode(digest + "=" * (-len(digest) % 4))
    except (binascii.Error, ValueError):
        return ""
    return raw.hex() if len(raw) == _HASHES.get(algorithm) else ""


def source_metadata(tree: Tree) -> tuple[str | None, str | None]:
    """(name, version) of a source tree, from files read as text; None where it is not said."""
    header = _header(tree, "")
    name, version = header.get("name"), header.get("version")
    for file in ("pyproject.toml", "setup.cfg", "setup.py"):
        text = _read(tree, file)
        section = _project_section(text) if file == "pyproject.toml" else text
        bare = file == "setup.cfg"  # in the others a word without quotes is a variable
        name = name or _quoted("name", section, bare)
        version = version or _quoted("version", section, bare)
    if version is None and (text := _read(tree, "version.txt").strip()):
        version = text.split()[0]
    return (normalise(name) if name else None), version


def package_version(tree: Tree, import_name: str) -> str | None:
    """``__version__`` written as a literal in a version module of the package."""
    for file in ("_build_meta.py", "version.py", "_version.py", "__init__.py"):
        if match := _VERSION_LINE.search(_read(tree, f"{import_name}/{file}")):
            return match[1]
    return None


def _read(tree: Tree, path: str) -> str:
    return tree.read(path).decode("utf-8", "replace") if exists(tree, path) else ""


def _project_section(text: str) -> str:
    match = re.search(r"^\[project\]\s*$(.*?)(?=^\[|\Z)", text, re.MULTILINE | re.DOTALL)
    return match[1] if match else ""


def _quoted(key: str, text: str, bare: bool) -> str | None:
    quote = "[\"']?" if bare else "[\"']"
    match = re.search(rf"^\s*{key}\s*=\s*{quote}([\w.+!-]+){quote}\s*,?\s*$", text, re.MULTILINE)
    return match[1] if match else None
