"""How one place spells an architecture: 12, 120, 1200, "12.0", "sm_120a", (12, 0), Arch.sm_120a."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from patcher.arch import EMPTY, ArchSet, Target, known_targets
from patcher.python.values import ArchName, DeviceArch, Value

_DIGITS = re.compile(r"(\d{1,2}\.\d|\d{2,3})([af]?)$")


@dataclass(frozen=True)
class Axis:
    """What one place can tell apart: a key per target (None where there is none)."""

    keys: tuple[Value, ...]

    @property
    def resolution(self) -> tuple[ArchSet, ...]:
        """Targets with the same key are one cell."""
        cells: dict[Value, ArchSet] = {}
        for target in known_targets():
            key = self.keys[target.index]
            cells[key] = cells.get(key, EMPTY) | ArchSet.of(target)
        return tuple(cells.values())

    def worlds(self, elements: Iterable[Value]) -> ArchSet:
        """The targets that one of the elements names."""
        wanted = list(elements)
        return ArchSet.of(*(t for t in known_targets() if self.keys[t.index] in wanted))

    def elements(self, worlds: ArchSet) -> list[Value]:
        """The keys of some targets, in table order."""
        found: list[Value] = []
        for target in worlds.device:
            if self.keys[target.index] is not None and self.keys[target.index] not in found:
                found.append(self.keys[target.index])
        return found


def axis(key: Callable[[Target], Value]) -> Axis:
    return Axis(tuple(key(target) for target in known_targets()))


def axis_like(samples: Sequence[Value]) -> Axis | None:
    """The axis of a list or of a dict's keys, from how its members are spelled.

    A suffixed string counts as its capability: a running device has no suffix.
    None when the members are not architectures.
    """
    kinds = {_kind(sample) for sample in samples}
    if len(kinds) != 1 or "" in kinds:
        return None
    kind, sample = kinds.pop(), samples[0]
    if kind == "major":
        return axis(lambda t: t.capability.major)
    if kind == "number":
        return axis(lambda t: t.number)
    if kind == "thousand":
        return axis(lambda t: t.number * 10)
    if kind == "tuple":
        return axis(lambda t: (t.capability.major, t.capability.minor))
    if kind == "name":
        return axis(lambda t: ArchName((t.capability.major, t.capability.minor, t.suffix)))
    suffixes = {_suffix(s) for s in samples}
    suffix = "a" if "a" in suffixes else "f" if "f" in suffixes else ""
    return axis(lambda t: respell(sample, t, suffix if t.number >= 90 else ""))


def _kind(sample: Value) -> str:
    if isinstance(sample, ArchName):
        return "name"
    if isinstance(sample, tuple):
        numbers = len(sample) == 2 and all(type(p) is int for p in sample)
        return "tuple" if numbers and 5 <= sample[0] < 20 else ""
    if isinstance(sample, str):
        return "text" if _DIGITS.search(sample) else ""
    if not isinstance(sample, int) or isinstance(sample, bool):
        return ""
    if 5 <= sample < 20:
        return "major"
    return "number" if 50 <= sample < 200 else "thousand" if 500 <= sample < 2000 else ""


def _suffix(sample: Value) -> str:
    match = _DIGITS.search(sample) if isinstance(sample, str) else None
    return match[2] if match else ""


def respell(sample: str, target: Target, suffix: str) -> str:
    """``sample`` with another target's number: ``sm_100a`` for sm_120 is ``sm_120a``."""
    match = _DIGITS.search(sample)
    assert match
    number = str(target.capability) if "." in match[1] else str(target.number)
    return f"{sample[:match.start()]}{number}{suffix}"


def axis_of(cells: tuple[Value, ...], samples: Sequence[Value]) -> Axis | None:
    """The axis of a compared expression from its value per target."""
    sample = samples[0] if samples else None
    keys: list[Value] = []
    for target in known_targets():
        cell = cells[target.index]
        if isinstance(cell, DeviceArch):
            if isinstance(sample, str) and _DIGITS.search(sample):
                cell = respell(sample, target, _suffix(sample) if target.number >= 90 else "")
            elif sample is not None:
                cell = cell.like(sample)
        keys.append(cell if isinstance(cell, int | str | tuple) else None)
    return Axis(tuple(keys)) if any(key is not None for key in keys) else None


def written(key: Value, sample: Value, sample_text: str) -> str:
    """Source text for a key, in the quoting and qualification of an existing element."""
    if isinstance(key, ArchName):
        owner = sample_text.rpartition(".")[0]
        name = f"sm_{key[0] * 10 + key[1]}{key[2]}"
        return f"{owner}.{name}" if owner else name
    if isinstance(key, str):
        if isinstance(sample, str) and sample_text.count(sample) == 1:
            return sample_text.replace(sample, key)
        return f'"{key}"'
    return repr(tuple(key)) if isinstance(key, tuple) else repr(key)
