"""Which Python environment is meant, and where it looks for packages.

An interpreter is asked only with ``-I -S``: without the site module no .pth
file is executed. What site would have added is computed here, as text.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TypedDict

from patcher.errors import InputError
from patcher.package.model import Environment
from patcher.tree import matching, plain_text

_TIMEOUT = 20
_MAX_PTH_BYTES = 1 << 20
# argv[1] is the environment's prefix, empty for an interpreter outside a venv. Importing site
# under -S runs nothing; its functions only compute paths.
_QUESTION = """
import json, site, sys, sysconfig
prefix = sys.argv[1]
outside = not prefix
if prefix:
    sys.prefix = sys.exec_prefix = prefix
print(json.dumps({
    "prefix": sys.prefix, "version": list(sys.version_info[:2]),
    "sites": site.getsitepackages(None if outside else [prefix]),
    "user": site.getusersitepackages() if outside else "",
    "base_sites": site.getsitepackages([sys.base_prefix]),
    "include": sysconfig.get_path("include"),
}))
"""


class _Answer(TypedDict):
    prefix: str
    version: tuple[int, int]
    sites: list[str]
    user: str
    base_sites: list[str]
    include: str


def find_environment(python: str | None = None, root: str | None = None) -> Environment:
    """The environment that a command works on, and why that one.

    ``python`` is an interpreter or a venv folder, ``root`` a folder that takes
    the place of site-packages. Raises InputError when what was named is not there.
    """
    if root is not None:
        folder = Path(root)
        if not os.path.isdir(folder):
            raise InputError("not a folder", where=root,
                             next_step="--root takes the folder that stands for site-packages")
        place = Path(os.path.abspath(folder))
        return Environment(None, (place,), None, f"--root {root}", root=place)
    if python is not None:
        return _with_pythonpath(_environment(Path(python), f"--python {python}"))
    notes: list[str] = []
    for path, reason in _candidates():
        try:
            found = _environment(path, reason)
        except InputError as error:
            notes.append(f"{reason}: {error}")
            continue
        return _with_pythonpath(replace(found, notes=(*notes, *found.notes)))
    raise InputError("no Python environment found", next_step="name one with --python or --root")


def other_environments(than: Environment) -> Iterator[Environment]:
    """The further environments one might have meant, each once."""
    seen = {than.prefix}
    for path, reason in _candidates():
        try:
            found = _environment(path, reason)
        except InputError:
            continue
        if found.prefix not in seen:
            seen.add(found.prefix)
            yield found


def _candidates() -> Iterator[tuple[Path, str]]:
    for variable in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        if value := os.environ.get(variable):
            yield Path(value), f"{variable}={value}"
    here = Path.cwd()
    for folder in (here, *here.parents):
        if os.path.isfile(folder / ".venv" / "pyvenv.cfg"):
            yield folder / ".venv", f"{folder / '.venv'} is the nearest .venv"
            break
    if found := shutil.which("python3"):
        yield Path(found), f"python3 on PATH ({found})"
    yield Path(sys.executable), "the interpreter that runs sm-patch"


def _with_pythonpath(environment: Environment) -> Environment:
    """PYTHONPATH comes before site-packages; a server started from here would see it too."""
    listed = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    folders = [Path(os.path.abspath(entry)) for entry in listed if entry and os.path.isdir(entry)]
    if not folders:
        return environment
    path = tuple(dict.fromkeys([*folders, *environment.site_packages]))
    note = f"PYTHONPATH puts {', '.join(map(str, folders))} first"
    return replace(environment, site_packages=path, notes=(*environment.notes, note))


def _environment(path: Path, reason: str) -> Environment:
    """The environment of an interpreter or of an environment's folder."""
    if os.path.isdir(path):
        prefix, python = Path(os.path.abspath(path)), _interpreter_in(path)
        if python is None:
            return _without_interpreter(prefix, reason)
    elif os.path.isfile(path):
        # not resolved: a venv's interpreter is a link, and the link's place tells the venv
        python = Path(os.path.abspath(path))
        prefix = python.parent.parent
    else:
        raise InputError("no such interpreter or environment", where=str(path),
                         next_step="name a venv's folder or its bin/python")
    config = _config(prefix)
    answer = _ask(python, str(prefix) if config else "")
    sites = [Path(s) for s in answer["sites"]]
    if config.get("include-system-site-packages", "").lower() == "true":
        sites += [Path(s) for s in answer["base_sites"]]
    if answer["user"]:
        sites.insert(0, Path(answer["user"]))
    major, minor = answer["version"]
    return Environment(Path(answer["prefix"]), _search_path(sites), str(python), reason,
                       version=(major, minor), include=Path(answer["include"]))


def _interpreter_in(folder: Path) -> Path | None:
    candidates = (folder / "bin" / "python", folder / "bin" / "python3")
    return next((Path(os.path.abspath(p)) for p in candidates if os.path.isfile(p)), None)


def _config(prefix: Path) -> dict[str, str]:
    """pyvenv.cfg as pairs; empty outside a venv."""
    lines = plain_text(prefix / "pyvenv.cfg").splitlines()
    pairs = (line.split("=", 1) for line in lines if "=" in line)
    return {key.strip().lower(): value.strip() for key, value in pairs}


def _without_interpreter(prefix: Path, reason: str) -> Environment:
    """An environment whose interpreter is gone (a copied image): its folders tell enough."""
    sites = matching(prefix, "lib/python3.*/site-packages")
    if not sites:
        raise InputError("neither an interpreter nor lib/python3.*/site-packages here",
                         where=str(prefix))
    note = f"{prefix} has no working interpreter; its folders were read"
    return Environment(prefix, _search_path(sites), None, reason, (note,))


def _ask(python: Path, prefix: str) -> _Answer:
    command = [str(python), "-I", "-S", "-B", "-c", _QUESTION, prefix]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT, check=True)
        answer: _Answer = json.loads(done.stdout)
        if not (isinstance(answer, dict) and answer.keys() >= _Answer.__annotations__.keys()):
            raise ValueError("it prints something else")
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        raise InputError(f"not a Python interpreter that answers: {_cause(error)}",
                         where=str(python), next_step="name a working one with --python, "
                         "or the folder with --root") from error
    return answer


def _cause(error: Exception) -> str:
    if isinstance(error, OSError):
        return str(error.strerror)
    if isinstance(error, subprocess.CalledProcessError):
        return f"exit code {error.returncode}"
    if isinstance(error, subprocess.TimeoutExpired):
        return f"nothing within {_TIMEOUT} seconds"
    return "it prints something else"


def _search_path(sites: list[Path]) -> tuple[Path, ...]:
    """Existing folders in order, each followed by the folders its .pth files name."""
    found: dict[Path, None] = {}
    for site in sites:
        if os.path.isdir(site):
            found.setdefault(Path(os.path.abspath(site)))
            for extra in path_lines(site):
                found.setdefault(extra)
    return tuple(found)


def path_lines(site: Path) -> Iterator[Path]:
    """Folders that .pth files add; their ``import`` lines are code and are not looked at."""
    for file in matching(site, "*.pth"):
        try:
            if file.stat().st_size > _MAX_PTH_BYTES:
                continue
            text = plain_text(file)
        except OSError:
            continue
        for line in text.splitlines():
            entry = line.strip()
            if not entry or entry.startswith(("#", "import ", "import\t")):
                continue
            folder = Path(os.path.abspath(site / entry))
            if os.path.isdir(folder):
                yield folder
