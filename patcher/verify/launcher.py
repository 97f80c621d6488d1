"""sccache in front of cicc and ptxas: what another user or machine compiled is only fetched.

Our own store is asked first, so on one machine nothing is gained. ccache is not used: it knows
neither program, takes each for a call of the linker and never keeps a result.

The server of sccache runs the compilers, out of reach of our limits and of an interrupt. So every
verification has a server of its own, a child that has the limits and ends with it.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from patcher.errors import ToolFailed
from patcher.scratch import scratch
from patcher.verify.execute import bounded, kill_group, run_tool

_FIRST = (0, 9)  # older releases do not know cicc and ptxas
_RELEASE = re.compile(r"sccache (\d+)\.(\d+)")
_SECONDS = 5  # it answers after 0.1


def find_launcher() -> str | None:
    """An sccache on PATH that knows the compilers of CUDA."""
    found = shutil.which("sccache")
    return found if found and _release(found) >= _FIRST else None


def _release(program: str) -> tuple[int, int]:
    with scratch() as folder:
        run = run_tool([program, "--version"], folder, _SECONDS)
    said = _RELEASE.match(run.output.decode("utf-8", "replace"))
    return (int(said[1]), int(said[2])) if said else (0, 0)


@contextmanager
def open_launcher(program: str | None) -> Iterator[tuple[str, ...]]:
    """The words to put before a compiler's command; none when it is None or does not answer."""
    if program is None:
        yield ()
        return
    with scratch() as folder, _server(program, folder) as socket:
        yield ("env", f"SCCACHE_SERVER_UDS={socket}", program) if socket else ()


@contextmanager
def _server(program: str, folder: Path) -> Iterator[Path | None]:
    """The socket of a server that ends with the block; None when it does not come up."""
    socket = folder / "server"
    environment = {**os.environ, "SCCACHE_START_SERVER": "1", "SCCACHE_NO_DAEMON": "1",
                   "SCCACHE_SERVER_UDS": str(socket), "TMPDIR": str(folder)}
    try:
        process = subprocess.Popen(
            bounded([program]), cwd=folder, env=environment, start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    except OSError as error:
        raise ToolFailed(f"cannot run it: {error.strerror}", where=program) from error
    try:
        yield socket if _answers(process, socket) else None
    finally:
        kill_group(process)
        process.wait()


def _answers(process: subprocess.Popen[bytes], socket: Path) -> bool:
    end = time.monotonic() + _SECONDS
    while process.poll() is None and time.monotonic() < end:
        if socket.exists():
            return True
        time.sleep(0.01)
    return False
