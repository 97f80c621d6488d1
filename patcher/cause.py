"""Why a gate is closed, with evidence, and how grave that is.

No marker found is not evidence: then the cause is unknown. ``software`` needs
a reason of its own, such as lines that hold nothing but accepted instructions.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path

from patcher.arch import Capability, Target
from patcher.gates import Cause, Effect, Evidence, Severity
from patcher.instructions import Hit, Verdict, shared_memory_limit, shared_memory_size

_CRITICAL = frozenset({Effect.KERNEL_BODY, Effect.FUNCTION_BODY, Effect.SYNC})
_INTENT = re.compile(r"intentional|deliberate|on purpose|by design", re.IGNORECASE)
_ABOUT_ARCH = re.compile(
    r"\bSM_?\d|compute capabilit|\barchs?\b|architecture|exclude|not supported|unsupported",
    re.IGNORECASE,
)
_BESIDE = 3  # lines between a comment block and the gate it speaks of
_SHOWN = 3  # pieces of evidence that are worth showing
_PREBUILT = re.compile(rb"cubin|cuModuleLoad|cuLibraryLoad", re.IGNORECASE)


def severity(effect: Effect, cause: Cause) -> Severity:
    """How grave an excluding gate is: silent loss first, then loss, then what must be."""
    if cause in (Cause.HARDWARE, Cause.INTENDED) or effect is Effect.ALTERNATIVE:
        return Severity.INFO
    return Severity.CRITICAL if effect in _CRITICAL else Severity.WARNING


def rejected(
    path: str,
    lines: Iterable[int],
    hits: Mapping[int, Sequence[Hit]],
    code: Sequence[bytes],
    target: Target,
) -> tuple[Evidence, ...]:
    """Lines that hold what the target's hardware lacks, the first few.

    ``hits`` and ``code`` (a file's lines) are free of comments. Weak markers
    are never evidence.
    """
    found: list[Evidence] = []
    limit = shared_memory_limit(target)
    for line in lines:
        text = code[line - 1] if line <= len(code) else b""
        reasons = [h.marker.features[0] for h in hits.get(line, ()) if _lacks(h, target)]
        size = shared_memory_size(text)
        if limit is not None and size is not None and limit < size <= 1 << 20:
            reasons.append(f"{size} bytes of shared memory, {target} has {limit}")
        if reasons:
            shown = text.decode("utf-8", "replace").strip()
            found.append(Evidence(path, line, f"{shown} [{reasons[0]}]"))
            if len(found) == _SHOWN:
                break
    return tuple(found)


def _lacks(hit: Hit, target: Target) -> bool:
    return not hit.marker.weak and hit.marker.verdict(target) is Verdict.REJECTED


def accepted(
    path: str,
    lines: Iterable[int],
    hits: Mapping[int, Sequence[Hit]],
    code: Sequence[bytes],
    target: Target,
    toolkit: str | None,
) -> tuple[Evidence, ...]:
    """The lines, each with the instruction it stands for, when the target accepts them all."""
    found: list[Evidence] = []
    for line in lines:
        text = code[line - 1].decode("utf-8", "replace").strip()
        here = hits.get(line, ())
        if any(h.marker.verdict(target, toolkit) is not Verdict.ACCEPTED for h in here):
            return ()
        if here:
            feature = here[0].marker.features[0]
            found.append(Evidence(path, line, f"{text} [{feature}: accepted on {target}]"))
    return tuple(found[:_SHOWN])


def intended(
    path: str, line: int, end_line: int, comments: Sequence[tuple[int, str]]
) -> tuple[Evidence, ...]:
    """The comment beside a gate that says the exclusion is meant, quoted.

    Beside: on the gate's lines, or in the block of comments that ends just above.
    """
    block: list[tuple[int, str]] = []
    for start, text in comments:
        if start > end_line:
            break
        if block and start > block[-1][0] + block[-1][1].count("\n") + 1:
            block = []
        block.append((start, text))
        last = start + text.count("\n")
        whole = " ".join(_clean(part) for _, part in block)
        near = line - _BESIDE <= last
        if near and _INTENT.search(whole) and _ABOUT_ARCH.search(whole):
            return (Evidence(path, block[0][0], whole),)
    return ()


def measure(path: str, comments: Sequence[tuple[int, str]], device: Capability,
            ) -> tuple[Evidence, ...]:
    """The comment that names the one device for which an arm is, quoted."""
    pattern = _named(device)
    for line, text in comments:
        if pattern.search(text):
            return (Evidence(path, line, _clean(text)),)
    return ()


@lru_cache(64)
def _named(device: Capability) -> re.Pattern[str]:
    """Its number and the names of its products."""
    rows = json.loads((Path(__file__).parent / "data" / "devices.json").read_text("utf-8"))
    named = rows["devices"].get(str(device), ())
    names = [re.escape(name).replace(r"\-", "[- ]?") for name in named]
    number = rf"sm[ _]?{device.major}\.?{device.minor}[af]?"
    return re.compile(rf"\b(?:{'|'.join([number, *names])})\b", re.IGNORECASE)


def _clean(comment: str) -> str:
    text = re.sub(r"^(//+|/\*+|#+)|\*/$", "", comment.strip())
    return " ".join(part.strip(" *") for part in text.split("\n")).strip()


def prebuilt(path: str, data: bytes) -> tuple[Evidence, ...]:
    """The first line that loads prebuilt device code."""
    match = _PREBUILT.search(data)
    if match is None:
        return ()
    line = data.count(b"\n", 0, match.start()) + 1
    text = data.split(b"\n", line)[line - 1].decode("utf-8", "replace").strip()
    return (Evidence(path, line, text),)
