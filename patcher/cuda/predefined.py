"""The macros that exist before the first line: the host compiler's, nvcc's, the target's."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from patcher.arch import ALL_BITS, HOST_BIT, known_targets
from patcher.cuda.model import Configuration
from patcher.cuda.values import BUILTIN, Value, Values
from patcher.errors import UsageError

DATA = Path(__file__).parents[1] / "data"
# gcc's own: replaced by the preprocessor itself, and all of them count as defined
BUILTINS = (
    "__COUNTER__", "__LINE__", "__FILE__", "__BASE_FILE__", "__FILE_NAME__", "__DATE__", "__TIME__",
    "__TIMESTAMP__", "__INCLUDE_LEVEL__", "_Pragma", "__has_attribute", "__has_cpp_attribute",
    "__has_builtin", "__has_include", "__has_include_next",
)


class HostAnswers:
    """What a host compiler says to ``__has_builtin`` and its relatives."""

    def __init__(self, builtins: Iterable[str], attributes: dict[str, int]) -> None:
        self._builtins = frozenset(builtins)
        self._attributes = attributes

    def ask(self, question: str, argument: str) -> str:
        if question == "__has_builtin":
            return str(int(argument in self._builtins))
        name = argument.replace("__gnu__", "gnu")
        scope, colons, leaf = name.rpartition("::")
        if leaf.startswith("__") and leaf.endswith("__") and len(leaf) > 4:
            leaf = leaf[2:-2]
        return str(self._attributes.get(scope + colons + leaf, 0))


@cache
def _host_data(platform: str) -> dict[str, Any]:
    path = DATA / f"host_{platform}.json"
    if not path.is_file():
        raise UsageError(f"no predefined macros are known for {platform!r}",
                         next_step="known: x86_64 aarch64")
    data: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return data


@cache
def _nvcc_data() -> dict[str, Any]:
    data: dict[str, Any] = json.loads((DATA / "nvcc.json").read_text("utf-8"))
    return data


def flag_macros(flags: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """The macros that nvcc defines because of a flag such as ``--expt-relaxed-constexpr``."""
    table = _nvcc_data()["flags"]
    return tuple((name, value) for flag in flags for name, value in table.get(flag, {}).items())


@dataclass(frozen=True)
class ToolkitMacros:
    """A toolkit and a host compiler, as far as they define macros.

    ``version`` is CUDA's ("13.0"); ``host`` are the host compiler's predefined
    macros under ``-std=c++17`` (name, or name with parameters, and body), None
    for those shipped for gcc 12 on ``platform``.
    """

    version: str = "13.0"
    platform: str = "x86_64"
    host: tuple[tuple[str, str], ...] | None = None

    @property
    def answers(self) -> HostAnswers:
        data = _host_data(self.platform)
        return HostAnswers(data["has_builtin"], data["has_attribute"])

    def host_macros(self, std: str) -> dict[str, str]:
        data = _host_data(self.platform)
        macros = dict(self.host) if self.host is not None else dict(data["macros"])
        for name, body in data["standards"].get(std.replace("gnu++", "c++"), {}).items():
            if body is None:
                macros.pop(name, None)
            else:
                macros[name] = body
        if std.startswith("gnu"):
            macros.pop("__STRICT_ANSI__", None)
        return macros

    def nvcc_macros(self) -> dict[str, str]:
        """What nvcc passes in every pass; the build number is that of the last measured patch."""
        data = _nvcc_data()
        major, _, rest = self.version.partition(".")
        minor, _, build = (rest or "0").partition(".")
        build = build or data["builds"].get(f"{major}.{minor}", "0")
        macros = dict(data["always"])
        if int(major) >= 13:
            macros |= data["since_13"]
        for prefix in ("__CUDACC_VER_", "__CUDA_API_VER_"):
            macros |= {f"{prefix}MAJOR__": major, f"{prefix}MINOR__": minor}
        return macros | {"__CUDACC_VER_BUILD__": build}


def _split(name: str) -> tuple[str, str | None]:
    match = re.match(r"(\w+)\(([^)]*)\)\Z", name)
    return (match[1], match[2]) if match else (name, None)


def base_table(configuration: Configuration, toolkit: ToolkitMacros, values: Values,
               ) -> dict[str, Value]:
    """Every name defined before the first line, in all worlds."""
    table: dict[str, Value] = dict.fromkeys(BUILTINS, BUILTIN)
    plain = toolkit.host_macros(configuration.std) | toolkit.nvcc_macros()
    for full, body in plain.items():
        name, parameters = _split(full)
        table[name] = values.macro(parameters, body)
    per_world: dict[str, list[tuple[int, Value]]] = {}
    for target in known_targets():
        for name, body in target.macros.items():
            per_world.setdefault(name, []).append((1 << target.index, values.macro(None, body)))
        per_world.setdefault("CUDA_DOUBLE_MATH_FUNCTIONS", []).append(
            (1 << target.index, values.macro(None, "1")))
    archs = ",".join(sorted({str(t.number * 10) for t in known_targets()}, key=int))
    per_world["__CUDA_ARCH_LIST__"].append((HOST_BIT, values.macro(None, archs)))
    for name, parts in per_world.items():
        rest = ALL_BITS & ~sum(mask for mask, _ in parts)
        table[name] = values.mix([*parts, (rest, None)] if rest else parts)
    for name in configuration.open_macros:
        table[name] = values.open((name,))
    for full, body in configuration.defines:
        name, parameters = _split(full)
        table[name] = values.macro(parameters, body)
    return table
