"""What is known about the names that Python code uses for architectures (data, not code)."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from patcher.arch import Capability, Target
from patcher.python.sieve import Word
from patcher.python.values import DeviceArch, DeviceName, Value, per_target

_DATA = Path(__file__).parent.parent / "data" / "python_gates.json"


@dataclass(frozen=True)
class Vocabulary:
    """The lists of ``data/python_gates.json``, by their names there."""

    capability_calls: frozenset[str]
    properties_calls: frozenset[str]
    at_least_calls: frozenset[str]
    exact_calls: frozenset[str]
    family_calls: frozenset[str]
    number_calls: frozenset[str]
    pdl_calls: frozenset[str]
    name_calls: frozenset[str]
    true_calls: frozenset[str]
    false_calls: frozenset[str]
    wrappers: frozenset[str]
    filter_calls: frozenset[str]
    decorators: frozenset[str]
    backend_decorators: frozenset[str]
    arch_lists: frozenset[str]
    maximum_attributes: frozenset[str]
    minimum_attributes: frozenset[str]
    skipped_folders: frozenset[str]
    skipped_paths: tuple[str, ...]
    constants: dict[str, Any]
    keywords: dict[str, str]
    parameters: dict[str, str]
    device_names: dict[str, list[str]]
    not_nvidia: frozenset[Any]
    words: tuple[Word, ...]
    hint: re.Pattern[str]
    generated_paths: re.Pattern[str]
    generated_heads: re.Pattern[str]
    arch_in_name: re.Pattern[str]
    one_arch: re.Pattern[str]  # the name of a predicate, which is no gate of its own
    intended: re.Pattern[str]
    names_an_architecture: re.Pattern[str]
    hardware_markers: tuple[Marker, ...]


@dataclass(frozen=True)
class Marker:
    """A word that tells which hardware the guarded code needs."""

    word: re.Pattern[str]
    has: frozenset[Capability]
    why: str


@cache
def vocabulary() -> Vocabulary:
    raw = json.loads(_DATA.read_text("utf-8"))
    ready: dict[str, Any] = {key: frozenset(raw[key]) for key, kind in
                             Vocabulary.__annotations__.items() if kind == "frozenset[str]"}
    for key, kind in Vocabulary.__annotations__.items():
        if kind == "re.Pattern[str]" and key in raw:
            ready[key] = re.compile(raw[key])
    hints = [_joined(text, forms["hint"]) for text, forms in raw["words"].items()
             if "hint" in forms]
    return Vocabulary(
        **ready,
        words=tuple(_word(text, forms, raw["tested"]) for text, forms in raw["words"].items()),
        hint=re.compile("|".join(hints)),
        hardware_markers=tuple(_marker(marker) for marker in raw["hardware_markers"]),
        skipped_paths=tuple(raw["skipped_paths"]),
        constants=raw["constants"], device_names=raw["device_names"], keywords=raw["keywords"],
        parameters={name: kind for kind, names in raw["parameters"].items() for name in names},
        not_nvidia=frozenset(tuple(n) if isinstance(n, list) else n for n in raw["not_nvidia"]))


def _joined(text: str, forms: str) -> str:
    """A literal and what must be around it."""
    return f"{text}(?:{forms})" if forms else text


def _word(text: str, forms: dict[str, str], tested: str) -> Word:
    """A reason to look into a file is one to look into the block, where nothing else is said."""
    file = forms.get("file", "")
    said = {use: form.replace("{file}", file).replace("{tested}", tested) for use, form in
            {**({"block": file} if "file" in forms else {}), **forms}.items()}
    either = "|".join(dict.fromkeys(said[use] for use in ("hint", "block") if use in said))
    patterns = {use: re.compile(_joined(text, form).encode()) for use, form in said.items()}
    return Word(text.encode(), re.compile(_joined(text, either).encode()),
                patterns.get("hint"), patterns.get("file"), patterns.get("block"))


def _marker(raw: dict[str, Any]) -> Marker:
    return Marker(re.compile(raw["word"]), frozenset(map(Capability.parse, raw["has"])), raw["why"])


@cache
def hints(name: str) -> bool:
    """True when a name may stand for an architecture or for a test of one."""
    words = vocabulary()
    return bool(words.hint.search(name) or words.arch_in_name.search(name))


@cache
def device_arch() -> Value:
    """The running device, whatever the spelling."""
    return per_target(lambda t: DeviceArch(t.capability.major, t.capability.minor, t.suffix))


@cache
def device_name() -> Value:
    """The name that the driver gives the running device; unknown where none is listed."""
    names = vocabulary().device_names
    decided = frozenset({"get_device_name()"})
    return per_target(lambda t: DeviceName(decided, tuple(names.get(str(t.capability), ()))))


@cache
def device_major() -> Value:
    return per_target(lambda t: t.capability.major)


@cache
def device_minor() -> Value:
    return per_target(lambda t: t.capability.minor)


def number_test(kind: str, asked: Value) -> Value:
    """``has/is_device_capability(100)`` and ``(10, 0)``, or the family test; None if not one."""
    if asked in vocabulary().not_nvidia:
        return None
    if isinstance(asked, tuple) and len(asked) == 2:
        asked = asked[0] * 10 + asked[1]
    if not isinstance(asked, int) or isinstance(asked, bool):
        return None

    def holds(target: Target) -> bool:
        if kind == "at_least":
            return target.number >= asked
        return target.number == asked if kind == "exact" else target.number // 10 == asked // 10

    return per_target(holds)
