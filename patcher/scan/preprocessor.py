"""Preprocessor gates: the arms that matter for the target, with effect, cause and severity."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

from patcher import cause as causes
from patcher.arch import DEVICE, ArchSet, Target
from patcher.cuda.directives import Arm, Ladder, normalise
from patcher.cuda.directives import SourceFile as Directives
from patcher.cuda.effects.classify import ArmEffect, Live, effect_of
from patcher.cuda.effects.live import condition_text, extent, later_states, nested
from patcher.cuda.model import ArmState, Context, UnitReport
from patcher.gates import Cause, Effect, Evidence, Gate, Layer, Location, Severity, Worlds
from patcher.scan.arms import Seen, may_exclude
from patcher.scan.files import Files, SourceFile
from patcher.scan.stages import Table


@dataclass(frozen=True, slots=True)
class Found:
    """A gate with the units that have it (bits by number), before rows are made."""

    gate: Gate
    units: int
    hidden: tuple[Gate, ...] = ()  # the arms that it hides from the target


@dataclass
class Judge:
    """Decides about arms. ``toolkit`` is the release whose ptxas is meant.

    ``built`` are the units (bits by number) that may be compiled for a target:
    what is open elsewhere never meets its assembler.
    """

    files: Files
    targets: Sequence[Target]
    references: Sequence[Target]
    toolkit: str | None
    built: int = -1
    rejecting: Table[bool] = field(default_factory=lambda: Table(None, "", bool))
    digest: Callable[[str], str] = field(default=lambda path: "")

    def question(self, seen: Seen) -> tuple[object, ...]:
        """All that a judgement depends on besides the files of the unit."""
        return (seen, bool(seen.units & self.built), [t.name for t in self.targets],
                [r.name for r in self.references], self.toolkit)

    def worth_a_look(self, seen: Seen) -> bool:
        """False for arms that can neither exclude a target nor be over-open."""
        if may_exclude(seen.state, self.targets, self.references):
            return True
        return any(self._rejects(seen, target) for target in self.targets)

    def _rejects(self, seen: Seen, target: Target) -> bool:
        """True when the arm is open and its text holds what the target rejects."""
        if not seen.state.open >> target.index & 1 or not seen.units & self.built:
            return False
        return self.rejecting.of(f"{seen.path}:{seen.line}:{target.name}", self.digest(seen.path),
                                 lambda: self._holds_rejected(seen, target))

    def _holds_rejected(self, seen: Seen, target: Target) -> bool:
        file = self.files.get(seen.path)
        entry = file.directives.arms.get(seen.line)
        if entry is None:
            return False
        arm = entry[1]
        if not file.may_reject(arm, target):
            return False
        lines = file.rejected_lines(target)
        first = bisect_right(lines, arm.line)
        return first < len(lines) and lines[first] < arm.end_line

    def judge(self, seen: Seen, report: UnitReport) -> Iterator[Found]:
        """The gate of an arm in a unit that was walked with ``every``, if it is one."""
        file = self.files.get(seen.path)
        entry = file.directives.arms.get(seen.line)
        context = next(
            (c for c in report.contexts.get(seen.path, ()) if c.arms.get(seen.line) == seen.state),
            None,
        )
        if entry is None or context is None:
            return
        view = _View(file, context, *entry)
        for target in self.targets:
            found = self._excluding(view, seen, target) or self._over_open(view, seen, target)
            if found is not None:
                via = report.chain(seen.path)
                yield replace(found, gate=replace(found.gate, via=via))
                return

    def _excluding(self, view: _View, seen: Seen, target: Target) -> Found | None:
        state = seen.state
        if not state.closed >> target.index & 1:
            return None
        if any(later.live >> target.index & 1
               for later in later_states(view.context, view.ladder, view.arm)):
            return None
        reference = next((r for r in self.references if state.live >> r.index & 1), None)
        if reference is None:
            return None
        effect = effect_of(view.file.source, extent(view.ladder, view.arm),
                           view.live(reference), view.live(target))
        cause, evidence = self._cause(view, effect, target)
        if cause is Cause.UNKNOWN and effect.effect is Effect.SYNC:
            evidence = self._measure(view, state, target)
            cause = Cause.INTENDED if evidence else cause
        hidden = tuple(
            self._gate(_View(view.file, view.context, *view.directives.arms[arm.line]), inner,
                       ArmEffect(Effect.UNKNOWN, effect.within))
            for arm, inner in nested(view.context, view.directives, view.arm)
            if inner.unreached >> target.index & 1 and inner.live != state.live
            and any(inner.live >> r.index & 1 for r in self.references)
        )
        gate = self._gate(view, state, effect)
        gate = replace(
            gate, excludes_target=True, cause=cause, evidence=evidence,
            severity=causes.severity(effect.effect, cause) if effect.lines else Severity.INFO,
        )
        return Found(gate, seen.units, hidden)

    def _over_open(self, view: _View, seen: Seen, target: Target) -> Found | None:
        if not seen.state.open >> target.index & 1 or not seen.units & self.built:
            return None
        live = view.live(target)
        lines = [n for n in range(view.arm.body_line, view.arm.end_line) if live[n]]
        file = view.file
        evidence = self._rejected(file, lines, target)
        if not evidence:
            return None
        inner = [line for arm, state in nested(view.context, view.directives, view.arm)
                 if state.open >> target.index & 1 and state.closed | state.unreached
                 for line in range(arm.body_line, arm.end_line)]
        if all(item.line in inner for item in evidence):
            return None  # a nested gate is the one that lets them in
        function = file.source.function_at(view.arm.line, live)
        effect = ArmEffect(Effect.FEATURE, function.name if function else "",
                           bool(function and function.kernel), tuple(lines))
        gate = replace(self._gate(view, seen.state, effect), over_open=True,
                       cause=Cause.HARDWARE, evidence=evidence, severity=Severity.INFO)
        return Found(gate, seen.units)

    @staticmethod
    def _rejected(file: SourceFile, lines: Sequence[int], target: Target) -> tuple[Evidence, ...]:
        """The lines that show what the target lacks; most pieces of code have none."""
        lines = file.suspects(lines, target)
        if not lines:
            return ()
        return causes.rejected(file.path, lines, file.hits, file.code_lines, target)

    def _cause(
        self, view: _View, effect: ArmEffect, target: Target
    ) -> tuple[Cause, tuple[Evidence, ...]]:
        file = view.file
        evidence = self._rejected(file, effect.lines, target)
        if evidence:
            return Cause.HARDWARE, evidence
        evidence = causes.intended(
            file.path, view.arm.line, view.arm.body_line, file.comments_above(view.arm.body_line)
        )
        if evidence:
            return Cause.INTENDED, evidence
        if effect.known:
            evidence = causes.accepted(file.path, effect.lines, file.hits, file.code_lines, target,
                                       self.toolkit)
            if evidence:
                return Cause.SOFTWARE, evidence
        return Cause.UNKNOWN, ()

    @staticmethod
    def _measure(view: _View, state: ArmState, target: Target) -> tuple[Evidence, ...]:
        """What a comment says of a fence that one other device alone has, and needs."""
        devices = (ArchSet(state.live) & DEVICE).capabilities
        if len(devices) != 1 or devices[0] == target.capability:
            return ()
        last = min(view.arm.body_line + _BESIDE, view.arm.end_line)
        near = [(line, text) for line, text in view.file.comments_above(last)
                if line >= view.arm.line - 1]
        return causes.measure(view.file.path, near, devices[0])

    def _gate(self, view: _View, state: ArmState, effect: ArmEffect) -> Gate:
        arm = view.arm
        return Gate(
            Layer.PREPROCESSOR,
            "arm",
            Location(view.file.path, arm.line, arm.end_line),
            condition_text(view.ladder, arm),
            Worlds(ArchSet(state.open), ArchSet(state.closed), ArchSet(state.unreached),
                   ArchSet(state.unknown)),
            effect=effect.effect,
            within=effect.within,
            names=(effect.within,) if effect.within else effect.names[:8],
            lines=(arm.line,),
            decided_by=state.decided_by,
        )


_BESIDE = 5  # lines below a directive in which a comment speaks of the arm


@dataclass
class _View:
    """One arm in one inclusion of its file."""

    file: SourceFile
    context: Context
    ladder: Ladder
    arm: Arm

    @property
    def directives(self) -> Directives:
        return self.file.directives

    def live(self, target: Target) -> Live:
        return self.file.live(self.context, target)


_normalised = lru_cache(4096)(normalise)


@dataclass(frozen=True, slots=True)
class Row:
    """Equal gates of one file: the gate that stands for them, their units, and each of them."""

    gate: Gate
    units: int
    hidden: tuple[Gate, ...]
    inner: tuple[Gate, ...]


def merge(found: Iterable[Found]) -> list[Row]:
    """One row for the gates of a file that say and do the same in the same units."""
    groups: dict[tuple[object, ...], list[Found]] = {}
    for item in found:
        gate = item.gate
        key = (gate.location.path, _normalised(gate.condition), gate.worlds, gate.effect,
               gate.cause, gate.excludes_target, gate.over_open, item.units)
        groups.setdefault(key, []).append(item)
    rows = []
    for items in groups.values():
        items.sort(key=lambda item: item.gate.location.line)
        gates = tuple(item.gate for item in items)
        names = tuple(dict.fromkeys(name for gate in gates for name in gate.names))
        evidence = tuple(dict.fromkeys(e for gate in gates for e in gate.evidence))
        row = replace(
            gates[0],
            lines=tuple(gate.location.line for gate in gates),
            names=names,
            evidence=evidence[:12],
            within=gates[0].within if len({g.within for g in gates}) == 1 else "",
            id="",
        )
        hidden = tuple(gate for item in items for gate in item.hidden)
        rows.append(Row(row, items[0].units, hidden, gates))
    return sorted(rows, key=lambda r: (r.gate.location.path, r.gate.location.line))
