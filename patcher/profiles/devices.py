"""What a user calls a GPU, and which GPUs this machine has."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from patcher.arch import Capability, Target, target
from patcher.errors import UsageError

AUTO = "auto"
ASSUMED = "sm_120a"
_DATA = Path(__file__).parent.parent / "data" / "devices.json"
_DRIVER = Path("/proc/driver/nvidia/gpus")
_TIMEOUT = 10
_MARKS = re.compile(r"\b(nvidia|geforce|graphics|laptop|gpu|generation|blackwell|workstation|"
                    r"server|max-q|edition)\b")


@cache
def _names() -> dict[str, Capability]:
    devices = json.loads(_DATA.read_text("utf-8"))["devices"]
    return {name: Capability.parse(capability)
            for capability, names in devices.items() for name in names}


def parse_device(text: str) -> Capability | Target:
    """A device name, a capability (``12.0``) or a target (``sm_120a``, ``12.0a``).

    A bare capability stays one: which target it means depends on who builds for
    it. Raises UsageError for anything unknown.
    """
    if re.fullmatch(r"\d{1,2}\.\d", text):
        return Capability.parse(text)
    found = by_name(text)
    if found is not None:
        return found
    try:
        return target(text)
    except UsageError as error:
        raise UsageError(f"unknown device or target {text!r}",
                         next_step="name a GPU (5090, gb10), a capability (12.0) "
                                   "or a target (sm_120a)") from error


def device_names() -> tuple[str, ...]:
    """Every name that is known, as people type them."""
    return tuple(_names())


def by_name(text: str) -> Capability | None:
    """The capability of a marketing name, as people type it or as the driver prints it."""
    words = re.sub(r"(?<=\brtx)(?=\d)", " ", _MARKS.sub(" ", text.lower()))
    plain = re.sub(r"[\s_-]+", "-", words.strip()).strip("-")
    return _names().get(plain)


def detect() -> Iterator[tuple[Capability, str]]:
    """The GPUs of this machine with what told of them: nvidia-smi, else the driver's files."""
    found = list(_from_tool())
    yield from found or _from_driver()


def _from_tool() -> Iterator[tuple[Capability, str]]:
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return
    command = [tool, "--query-gpu=compute_cap,name", "--format=csv,noheader"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT, check=True)
    except (OSError, subprocess.SubprocessError):
        return
    for line in done.stdout.splitlines():
        capability, _, name = line.partition(",")
        if re.fullmatch(r"\d{1,2}\.\d", capability.strip()):
            yield Capability.parse(capability.strip()), f"nvidia-smi: {name.strip()}"


def _from_driver() -> Iterator[tuple[Capability, str]]:
    for file in sorted(_DRIVER.glob("*/information")):
        try:
            match = re.search(r"^Model:\s*(.+)$", file.read_text("utf-8", "replace"), re.MULTILINE)
        except OSError:
            continue
        capability = by_name(match[1]) if match else None
        if match and capability:
            yield capability, f"driver: {match[1].strip()}"
