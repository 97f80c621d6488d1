"""Becomes ``__main__.py`` of sm-patch.pyz: unpack what this interpreter needs, once, and run it.

Compiled modules cannot be imported from a zip, so the files go to a folder of the user's cache,
named by their digest; where there is no such folder of the user's own, to a temporary one.
"""

import atexit
import os
import platform
import shutil
import stat
import sys
import tempfile
import zipfile
from collections.abc import Sequence

ANY = "any"
OLDEST = (3, 10)


def target() -> str:
    """The folder of the zip with what is compiled for this interpreter and machine."""
    major, minor = sys.version_info[:2]
    return f"cp{major}{minor}-{platform.machine()}"


def own(folder: str) -> bool:
    """Make the folder; whether it is ours alone. Nobody else may write what we will run."""
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        status = os.lstat(folder)
    except OSError:
        return False
    return (stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid()
            and not status.st_mode & 0o022 and os.access(folder, os.W_OK))


def unpack(archive: zipfile.ZipFile, parts: Sequence[str], folder: str) -> None:
    """Unpack the parts beside the folder, then put them there in one step."""
    partial = tempfile.mkdtemp(dir=os.path.dirname(folder))
    for name in archive.namelist():
        part, _, rest = name.partition("/")
        if part in parts and rest and not rest.endswith("/"):
            path = os.path.join(partial, *rest.split("/"))
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with archive.open(name) as source, open(path, "wb") as to:
                shutil.copyfileobj(source, to)
    try:
        os.rename(partial, folder)
    except OSError:  # another run was first: its files are the same
        shutil.rmtree(partial)


def prepare(path: str) -> str:
    """The folder with everything that this interpreter needs."""
    with zipfile.ZipFile(path) as archive:
        digest = archive.read("digest").decode()
        targets = archive.read("targets").decode().split()
        if target() not in targets:
            sys.exit(f"sm-patch: this file is for {', '.join(targets)}, and here is {target()}; "
                     "install the package instead")
        cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
        home = os.path.join(cache, "sm-patch", "zipapp")
        if not (os.path.isabs(home) and own(home)):
            home = tempfile.mkdtemp(prefix="sm-patch-")
            atexit.register(shutil.rmtree, home, ignore_errors=True)
        folder = os.path.join(home, f"{digest[:16]}-{target()}")
        if not os.path.isdir(folder):
            unpack(archive, (ANY, target()), folder)
        return folder


if __name__ == "__main__":
    if sys.version_info < OLDEST:
        sys.exit(f"sm-patch needs Python {OLDEST[0]}.{OLDEST[1]} or newer; "
                 f"this is {platform.python_version()}")
    sys.path.insert(0, prepare(sys.path[0]))
    from patcher.cli import main

    sys.argv[0] = "sm-patch"
    sys.exit(main())
