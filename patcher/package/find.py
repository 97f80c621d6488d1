"""From what the user typed to a package: installed, unpacked, archived, or a source tree."""

from __future__ import annotations

import json
import os
import re
import zipfile
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from patcher.errors import InputError, PackageNotFound, PatcherError, UsageError, did_you_mean
from patcher.package.environment import other_environments
from patcher.package.metadata import (
    Distribution,
    distributions,
    normalise,
    package_version,
    source_metadata,
)
from patcher.package.model import Environment, Package
from patcher.package.trees import ArchiveTree, InstalledTree, MappedTree, SiteTree
from patcher.tree import FolderTree, Tree, WheelTree, exists

_REPOSITORIES = Path(__file__).parent.parent / "data" / "repositories.json"
_SOURCE_FOLDERS = ("src", "python")
_PROJECT_FILES = ("pyproject.toml", "setup.py", "setup.cfg", "PKG-INFO")


def find_package(name: str, environment: Environment, *,
                 assume_version: str | None = None) -> Package:
    """The package called ``name``: an import or distribution name, a folder, or an archive.

    A bare name is looked up in the environment; write ``./name`` for a folder.
    Raises PackageNotFound, UsageError for an ambiguous folder, and InputError
    for what cannot be read as a package (a zip or egg import, .pyc only).
    """
    package = _find(name, environment)
    if assume_version is not None:
        package = replace(package, version=assume_version)
    _refuse_unreadable(package)
    return package


def _find(name: str, environment: Environment) -> Package:
    path = Path(name)
    if name.endswith(".whl"):
        return _from_wheel(_file(path), environment)
    if name.endswith((".tar.gz", ".tgz")):
        return _source_tree(ArchiveTree(_file(path)), environment, read_only=True)
    if "/" in name or name in (".", ".."):
        if not os.path.isdir(path):
            raise PackageNotFound("no such folder, wheel or source archive", where=name)
        return _from_folder(Path(os.path.abspath(path)), environment)
    return _installed(name, environment)


def _file(path: Path) -> Path:
    if not os.path.isfile(path):
        raise PackageNotFound("no such file", where=str(path))
    return Path(os.path.abspath(path))


def _from_wheel(path: Path, environment: Environment) -> Package:
    tree = WheelTree(path)
    found = list(distributions(tree))
    if len(found) != 1:
        raise InputError(f"a wheel holds one .dist-info folder, this has {len(found)}",
                         where=str(path))
    return replace(_of(found[0], path, environment), read_only=True)


def _is_source(tree: Tree) -> bool:
    """Project files and nothing installed; an .egg-info is made beside them by builds."""
    return (any(exists(tree, file) for file in _PROJECT_FILES)
            and all(found.folder.endswith(".egg-info") for found in distributions(tree)))


def _from_folder(folder: Path, environment: Environment) -> Package:
    """An unpacked wheel, a source tree, or the folder of one import package."""
    tree = FolderTree(folder, (folder,))
    found = list(distributions(tree))
    if _is_source(tree):
        return _source_tree(tree, environment)
    if len(found) == 1:
        return _of(found[0], folder, environment)
    if len(found) > 1:
        some = ", ".join(d.name for d in found[:5])
        raise UsageError(f"{len(found)} distributions here ({some}, ...)", where=str(folder),
                         next_step=f"name one, with --root {folder}")
    if exists(tree, "__init__.py"):
        owner = _owner(FolderTree(folder.parent), folder.name)
        return _of(owner, folder.parent, environment, folder.name) if owner else _bare(
            folder.parent, folder.name, environment)
    raise PackageNotFound("neither an unpacked wheel nor a source tree nor a package",
                          where=str(folder), next_step="a source tree has a pyproject.toml")


def _source_tree(tree: FolderTree | ArchiveTree, environment: Environment, *,
                 read_only: bool = False) -> Package:
    """A repository under its wheel's paths: a known map, else ``src`` or ``python`` folders."""
    name, version = source_metadata(tree)
    known = _repositories().get(name or "")
    if known is not None:
        import_name = known["import"]
        mapping = {wheel: place for wheel, place in known["map"].items()
                   if not tree.names(wheel) and not tree.folders(wheel)}
    else:
        home, import_name = _source_home(tree, name or tree.root.name)
        mapping = {import_name: f"{home}/{import_name}"} if home else {}
    view: Tree = MappedTree(tree, mapping) if mapping else tree
    return Package(
        name=name or normalise(import_name), import_name=import_name,
        version=version or package_version(view, import_name), root=tree.root, tree=view,
        environment=environment, source_tree=True, read_only=read_only)


@cache
def _repositories() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(_REPOSITORIES.read_text("utf-8"))
    return found


def _source_home(tree: Tree, name: str) -> tuple[str, str]:
    """(folder, import name) of a source tree's package; the folder is "" for the top."""
    for home in ("", *_SOURCE_FOLDERS):
        prefix = f"{home}/" if home else ""
        names = [n for n in sorted(tree.folders(home)) if exists(tree, f"{prefix}{n}/__init__.py")]
        if names and (home or _closest(names, name)[1]):
            return home, _closest(names, name)[0]
    raise InputError("no Python package in this source tree", where=str(tree.root))


def _closest(names: list[str], wanted: str) -> tuple[str, bool]:
    """The import name nearest to a distribution's name, and whether it is alike at all."""
    plain = normalise(wanted).replace("-", "_")
    for name in names:
        if name.lower() == plain:
            return name, True
    for name in names:
        if name.lower() in plain:
            return name, True
    return names[0], False


def _installed(name: str, environment: Environment) -> Package:
    """The copy that Python would import; further copies on the search path are warned about."""
    if (source := _root_as_source(name, environment)) is not None:
        return source
    found = (_in_site(name, site, environment) for site in environment.site_packages)
    copies = [copy for copy in found if copy]
    if not copies:
        _refuse_zipped(name, environment)
        raise _not_found(name, environment)
    winner = copies[0]
    others = [c.root for c in copies[1:] if c.root != winner.root]
    warnings = [f"{winner.import_name} is on the search path more than once: {winner.root} wins "
                f"over {root}" for root in dict.fromkeys(others)]
    return replace(winner, warnings=(*winner.warnings, *warnings))


def _root_as_source(name: str, environment: Environment) -> Package | None:
    """The source tree that ``--root`` names, if it is one and holds the package."""
    if environment.root is None:
        return None
    tree = FolderTree(environment.root, (environment.root,))
    if not _is_source(tree):
        return None
    package = _source_tree(tree, environment)
    return package if normalise(name) in (package.name, normalise(package.import_name)) else None


def _in_site(name: str, site: Path, environment: Environment) -> Package | None:
    tree = SiteTree(site)
    same = [d for d in distributions(tree) if d.name == normalise(name)]
    if same:
        found = _of(same[0], site, environment)
        if len(same) > 1:
            extra = ", ".join(d.folder for d in same)
            found = replace(found, warnings=(*found.warnings, f"metadata twice: {extra}"))
        return found
    if not name.isidentifier():
        return None
    if owner := _owner(tree, name):
        return _of(owner, site, environment, name)
    if any(n.endswith((".py", ".pyc")) for n in tree.names(name)):
        return _bare(site, name, environment)
    return None


def _owner(tree: Tree, import_name: str) -> Distribution | None:
    """The distribution that installed an import package, directly or as an editable project."""
    for found in distributions(tree):
        project = found.project_folder()
        if project is not None:
            if any(os.path.isdir(project / home / import_name) for home in ("", *_SOURCE_FOLDERS)):
                return found
        elif import_name in found.import_names():
            return found
    return None


def _of(found: Distribution, root: Path, environment: Environment,
        import_name: str | None = None) -> Package:
    project = found.project_folder()
    if project is not None:
        return _editable(found, project, environment)
    names = found.import_names()
    chosen = import_name or (_closest(names, found.name)[0] if names
                             else found.name.replace("-", "_"))
    record = found.record()
    tree = InstalledTree(root, record) if isinstance(found.tree, FolderTree) else found.tree
    return Package(name=found.name, import_name=chosen, version=found.version, root=root,
                   tree=tree, environment=environment, record=record, dist_info=found.folder)


def _editable(found: Distribution, project: Path, environment: Environment) -> Package:
    """An editable install: the project's own folder, whose links may lead around inside it."""
    if not os.path.isdir(project):
        raise InputError("an editable install whose project folder is gone", where=str(project),
                         next_step=f"reinstall {found.name}")
    package = _source_tree(FolderTree(project, (project,)), environment)
    return replace(package, name=found.name, version=found.version, editable=True)


def _bare(root: Path, import_name: str, environment: Environment) -> Package:
    tree = FolderTree(root)
    return Package(name=normalise(import_name), import_name=import_name,
                   version=package_version(tree, import_name), root=root, tree=tree,
                   environment=environment, warnings=(f"{import_name} has no metadata here",))


def _refuse_zipped(name: str, environment: Environment) -> None:
    """Zip and egg imports work in Python and cannot be patched."""
    stem = name.replace("-", "_")
    for site in environment.site_packages:
        for file in site.glob("*.egg"):
            if os.path.isfile(file) and zipfile.is_zipfile(file) and normalise(
                    file.name.split("-")[0]).replace("-", "_") in (stem, normalise(stem)):
                raise InputError(f"{name} is imported from a zip file and cannot be patched",
                                 where=str(file), next_step="reinstall it with pip or uv")


def _refuse_unreadable(package: Package) -> None:
    names = package.tree.names(package.import_name)
    cached = package.tree.names(f"{package.import_name}/__pycache__")
    compiled = [n for n in (*names, *cached) if n.endswith(".pyc")]
    if compiled and not any(n.endswith(".py") for n in names):
        raise InputError(f"{package.import_name} has only compiled Python files",
                         where=str(package.root), next_step="install it from a wheel with sources")


def _is_in(name: str, environment: Environment) -> bool:
    """A hint is not worth an error: what cannot be read over there is not there."""
    with suppress(PatcherError):
        return any(_in_site(name, site, environment) for site in environment.site_packages)
    return False


def _not_found(name: str, environment: Environment) -> PackageNotFound:
    """Says where else the package is: another environment, or a folder of that name."""
    near = _alike(name, environment)
    hints = [near] if near else []
    if environment.root is not None:
        other = "--root takes the folder that stands for site-packages"
        hints += [f"it is in {site}: --root {site}" for site in _sites_below(environment.root)
                  if _is_in(name, replace(environment, site_packages=(site,)))]
    else:
        other = ("a module is named PACKAGE:MODULE" if environment.reason.startswith("--python")
                 else "add --python VENV, the environment that starts your server")
        hints += [f"it is in {found.prefix}: --python {found.python or found.prefix}"
                  for found in other_environments(environment) if _is_in(name, found)]
    if os.path.isdir(Path(name)):
        hints.append(f"for the folder write ./{name}")
    place = environment.root or environment.prefix
    return PackageNotFound(f"{name} is not in {place} (chosen because: {environment.reason})",
                           next_step="; ".join(hints) or other)


def _alike(name: str, environment: Environment) -> str:
    """A hint at the name nearest to what was typed, of what is installed here."""
    here: set[str] = set()
    for site in environment.site_packages:
        with suppress(PatcherError, OSError):
            tree = SiteTree(site)
            here.update(folder for folder in tree.folders("") if folder.isidentifier())
            here.update(found.name for found in distributions(tree))
    bare = re.split(r"[=<>~!\[ ]", name)[0].lower()
    return did_you_mean(bare, here, most=1, cutoff=0.75)


def _sites_below(root: Path) -> list[Path]:
    """The site-packages of an environment or an image whose top was named as the root."""
    return [site for pattern in ("lib/python3*/*-packages", "usr/lib/python3*/*-packages",
                                 "usr/local/lib/python3*/*-packages")
            for site in sorted(root.glob(pattern)) if site.is_dir()]
