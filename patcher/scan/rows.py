"""How the gates of a report are named and ordered, and the configurations it lists."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

from patcher.cuda.model import TranslationUnit
from patcher.gates import Gate, Layer, Severity
from patcher.scan.model import ConfigurationRow

_SEVERITIES = [Severity.CRITICAL, Severity.WARNING, Severity.INFO]


def rank(gate: Gate) -> tuple[object, ...]:
    """The place of a gate in a report: findings first, the gravest first."""
    finding = gate.excludes_target or gate.over_open
    return (not finding, _SEVERITIES.index(gate.severity), gate.opened_by is None,
            list(Layer).index(gate.layer), gate.location.path, gate.location.line)


def identity(gate: Gate) -> str:
    """An id that stays when lines move and units are added."""
    key = "\0".join([gate.layer.value, gate.location.path, gate.condition, gate.effect.value,
                     gate.cause.value, *sorted(gate.names)])
    return f"{gate.layer.value[:2].upper()}-{hashlib.sha256(key.encode()).hexdigest()[:12]}"


def numbered(ids: Iterable[str]) -> list[str]:
    """The ids in order, made distinct: an equal one gets a number behind it."""
    seen: dict[str, int] = {}
    result = []
    for name in ids:
        seen[name] = seen.get(name, 0) + 1
        result.append(name if seen[name] == 1 else f"{name}-{seen[name]}")
    return result


def configurations(units: Sequence[TranslationUnit]) -> tuple[ConfigurationRow, ...]:
    """Every configuration once, by its id."""
    rows: dict[str, ConfigurationRow] = {}
    for unit in units:
        configuration = unit.configuration
        flags = tuple(f"-D{n}={v}" if v else f"-D{n}" for n, v in configuration.defines)
        rows.setdefault(configuration.id, ConfigurationRow(
            configuration.id, unit.path, ", ".join(unit.modules), flags, configuration.guessed))
    return tuple(rows[name] for name in sorted(rows))
