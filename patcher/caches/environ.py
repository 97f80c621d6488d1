"""The variables that decide where a server's caches are: ours, or those of that server.

Only HOME, the variables named in the atlas and those a caller names are ever taken; the
rest of a process's environment holds secrets and is dropped while it is read.
"""

from __future__ import annotations

import os
import pwd
import shlex
from collections.abc import Iterable, Mapping, Set
from pathlib import Path

from patcher.caches.registry import variables
from patcher.errors import InputError, UsageError

_UNIT_FOLDERS = ("/etc/systemd/system", "/run/systemd/system", "/usr/local/lib/systemd/system",
                 "/usr/lib/systemd/system", "/lib/systemd/system")
_MAX_BYTES = 4 << 20


def own(environ: Mapping[str, str] | None = None, also: Set[str] = frozenset()) -> dict[str, str]:
    """Our own variables; HOME and USER come from the user database when unset."""
    chosen = _chosen((os.environ if environ is None else environ).items(), variables() | also)
    return _completed(chosen, os.getuid())


def read_environ(origin: str | None, also: Set[str] = frozenset()) -> dict[str, str]:
    """The variables named by ``--env-from pid:N|unit:NAME|file:PATH``, or our own for None.

    ``also`` are names beside those of the atlas that the caller has a use for.
    Raises UsageError for another spelling, InputError when it cannot be read.
    """
    if origin is None:
        return own(also=also)
    kind, _, name = origin.partition(":")
    if not name or kind not in _READERS:
        raise UsageError(f"not an origin of variables: {origin!r}",
                         next_step="write pid:N, unit:NAME or file:PATH")
    return _READERS[kind](name, variables() | also)


def _of_process(pid: str, names: Set[str]) -> dict[str, str]:
    if not pid.isdecimal():
        raise UsageError(f"not a process id: {pid!r}", next_step="write pid:1234")
    place = f"/proc/{pid}/environ"
    if not os.path.isdir(f"/proc/{pid}"):
        raise InputError("no such process", where=f"pid:{pid}",
                         next_step="ps -e -o pid,args lists those that run")
    pairs = (item.partition(b"=") for item in _read(place).split(b"\0"))
    # names are compared before anything is decoded or kept
    wanted = {name.encode() for name in names}
    chosen = {os.fsdecode(k): os.fsdecode(v) for k, _, v in pairs if k in wanted}
    return _completed(chosen, os.stat(f"/proc/{pid}").st_uid)


def _of_file(path: str, names: Set[str]) -> dict[str, str]:
    return _completed(_chosen(_assignments(_text(path)), names), os.getuid())


def _of_unit(name: str, names: Set[str]) -> dict[str, str]:
    if "/" in name:
        raise UsageError(f"not a unit name: {name!r}", next_step="write unit:NAME or file:PATH")
    unit = name if "." in name else f"{name}.service"
    chosen: dict[str, str] = {}
    user = "root"
    for path in _unit_files(unit):
        for key, value in _settings(_text(path)):
            if key == "Environment":
                # an empty assignment resets the list, as in systemd
                chosen = chosen | _chosen(_words(value), names) if value else {}
            elif key == "EnvironmentFile" and value:
                source = value.removeprefix("-")
                if not value.startswith("-") or os.path.exists(source):
                    chosen |= _chosen(_assignments(_text(source)), names)
            elif key == "User" and value:
                user = value
    try:
        return _completed(chosen, int(user) if user.isdecimal() else pwd.getpwnam(user).pw_uid)
    except KeyError:
        raise InputError(f"the unit runs as {user!r}, who is not known here", where=unit) from None


def _unit_files(unit: str) -> list[str]:
    """The unit file that counts (the first found), then its drop-ins in systemd's order."""
    files = [f"{folder}/{unit}" for folder in _UNIT_FOLDERS if os.path.isfile(f"{folder}/{unit}")]
    if not files:
        raise InputError("no such unit", where=f"unit:{unit}",
                         next_step="use --env-from pid:N or file:PATH")
    drop_ins = {p.name: str(p) for folder in reversed(_UNIT_FOLDERS)
                for p in Path(folder, f"{unit}.d").glob("*.conf")}
    return [files[0], *(drop_ins[name] for name in sorted(drop_ins))]


def _settings(text: str) -> Iterable[tuple[str, str]]:
    section = ""
    for line in text.replace("\\\n", " ").splitlines():
        line = line.strip()
        if line.startswith("["):
            section = line
        elif section == "[Service]" and "=" in line and line[0] not in "#;":
            key, _, value = line.partition("=")
            yield key.strip(), value.strip()


def _words(value: str) -> Iterable[tuple[str, str]]:
    for word in _split(value):
        key, _, text = word.partition("=")
        yield key, text


def _assignments(text: str) -> Iterable[tuple[str, str]]:
    for line in text.splitlines():
        line = line.strip().removeprefix("export ").lstrip()
        key, equals, value = line.partition("=")
        if equals and not line.startswith("#"):
            yield key.strip(), " ".join(_split(value))


def _split(value: str) -> list[str]:
    try:
        return shlex.split(value, comments=True)
    except ValueError:
        return [value]  # an unbalanced quote: the shell would refuse the line, systemd keeps it


def _chosen(pairs: Iterable[tuple[str, str]], names: Set[str]) -> dict[str, str]:
    return {key: value for key, value in pairs if key in names}


def _completed(chosen: dict[str, str], uid: int) -> dict[str, str]:
    try:
        entry = pwd.getpwuid(uid)
    except KeyError:  # a container's user without an entry
        return chosen
    return {"HOME": entry.pw_dir, "USER": entry.pw_name, **chosen}


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as handle:
            return handle.read(_MAX_BYTES)
    except OSError as error:
        raise InputError(f"cannot read: {error.strerror}", where=path,
                         next_step="run as the server's user, or use --env-from file:PATH"
                         ) from error


def _text(path: str) -> str:
    return _read(path).decode("utf-8", "surrogateescape")


_READERS = {"pid": _of_process, "unit": _of_unit, "file": _of_file}
