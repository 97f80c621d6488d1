"""What a command costs: CPU time of its whole process tree, wall time, peak memory."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]


@dataclass(frozen=True, slots=True)
class Cost:
    """Seconds of CPU (user and system, descendants included) and of wall; MB of the largest
    process of the tree."""

    cpu: float
    wall: float
    memory: float


class CommandFailed(Exception):
    """A measured command did not do its work."""


def cost(command: Sequence[str | Path], *, runs: int = 3,
         environment: Mapping[str, str] | None = None, accept: Sequence[int] = (0,)) -> Cost:
    """The cheapest (by CPU) of ``runs`` fresh processes. Raises CommandFailed."""
    return min((_once(command, environment or {}, accept) for _ in range(runs)),
               key=lambda one: one.cpu)


def _once(command: Sequence[str | Path], environment: Mapping[str, str],
          accept: Sequence[int]) -> Cost:
    start = time.perf_counter()
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                             cwd=REPOSITORY, env={**os.environ, **environment})
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    wall = time.perf_counter() - start
    if child.returncode not in accept:
        raise CommandFailed(f"exit {child.returncode}: {' '.join(map(str, command[:6]))} ...")
    return Cost(usage.ru_utime + usage.ru_stime, wall, usage.ru_maxrss / 1024)
