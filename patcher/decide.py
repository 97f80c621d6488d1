"""From the findings of a group's patches to their outcomes: gates decide, versions label.

Pure. The rules, in order:

1. A patch without gates of its own (text) follows its group: when every gate of
   the group is open upstream it is not needed, else its anchor must match.
2. A gate that is simply not there is not needed only where the label supports
   it (the version is at or above ``fixed-in``); elsewhere it is a conflict.
3. A gate that still excludes at or above ``fixed-in`` is a conflict: either the
   label or the fix is not what it says.
4. A gate that excludes in a version outside ``versions`` is unsupported.
   Pre-releases and unknown versions carry no label: their gates decide alone.

Of a group's variants the one that is written for the version is taken where all of its gates are
there, open or not; where they are not, another one that can be applied. Nothing is called "not
needed" for want of a gate while the gates of another variant exclude.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from patcher.operations.base import Evidence, Finding, Outcome
from patcher.patchset.label import Label, label_of
from patcher.patchset.schema import Group, Patch, Text


@dataclass(frozen=True, slots=True)
class Decision:
    """A group's outcome, and one outcome and reason per patch in their order.

    ``seen`` is True when the gates of all its patches are there, open or not.
    """

    outcome: Outcome
    reason: str
    patches: tuple[tuple[Outcome, str], ...]
    seen: bool = False

    def rank(self, label: Label) -> int:
        """How well these patches fit, the best first; ``label`` is what their variant says."""
        fits = label in (Label.INSIDE, Label.NONE)
        if not self.outcome.refused and (self.seen or self.outcome is not Outcome.NOT_NEEDED):
            if fits:
                return 0
            if self.outcome is not Outcome.NOT_NEEDED:
                return 1
        if self.seen and self.outcome.refused:
            return 2
        return 3 if self.outcome is Outcome.NOT_NEEDED else 4


def decide(group: Group, patches: Sequence[Patch], findings: Sequence[Finding],
           version: str | None) -> Decision:
    """Outcomes by the rules above, before journal, law and other groups are asked."""
    label = label_of(version, group.versions, group.fixed_in)
    settled = [_settle_absence(finding, label) for finding in findings]
    seen = [f.evidence is Evidence.GATES and not f.outcome.refused
            for p, f in zip(patches, findings, strict=True) if not isinstance(p.operation, Text)]
    gates = [f for p, f in zip(patches, settled, strict=True) if not isinstance(p.operation, Text)]
    if gates and all(f.outcome is Outcome.NOT_NEEDED for f in gates):
        settled = [_follow(p, f) for p, f in zip(patches, settled, strict=True)]
    labelled = [_apply_label(f, group, label, version) for f in settled]
    outcome, reason = group_outcome(patches, labelled)
    return Decision(outcome, reason, tuple(labelled), bool(seen) and all(seen))


def _settle_absence(finding: Finding, label: Label) -> Finding:
    """Nothing there that decides: fixed if the label says so, else what the operation says."""
    gone = finding.evidence is Evidence.ABSENCE or finding.outcome is Outcome.MISSING
    if gone and finding.outcome.refused and label is Label.FIXED:
        return Finding(Outcome.NOT_NEEDED, f"{finding.reason}; this version has the fix",
                       evidence=Evidence.ABSENCE, files=finding.files)
    return finding


def _follow(patch: Patch, finding: Finding) -> Finding:
    if not isinstance(patch.operation, Text):
        return finding
    return Finding(Outcome.NOT_NEEDED, "every gate of the group is open upstream",
                   evidence=Evidence.NONE, files=finding.files)


def _apply_label(finding: Finding, group: Group, label: Label,
                 version: str | None) -> tuple[Outcome, str]:
    if finding.outcome is Outcome.NOT_NEEDED:
        return finding.outcome, finding.reason
    if label is Label.FIXED and finding.outcome is Outcome.APPLICABLE:
        cause = ("has the old text" if finding.evidence is Evidence.NONE
                 else "excludes the asked targets")
        return Outcome.CONFLICT, (
            f"{', '.join(finding.files)} still {cause}, but version {version} is at or above "
            f"{group.fixed_in}, which has the fix; reinstall the package")
    if label is Label.OUTSIDE:
        cause = f"; {finding.reason}" if finding.reason else ""
        return Outcome.UNSUPPORTED, f"version {version} is outside {group.versions}{cause}"
    return finding.outcome, finding.reason


_WORST = (Outcome.CONFLICT, Outcome.UNREACHED, Outcome.MISSING, Outcome.UNSUPPORTED)


def group_outcome(patches: Sequence[Patch],
                  outcomes: Sequence[tuple[Outcome, str]]) -> tuple[Outcome, str]:
    """All or nothing: the worst refusal, else applicable, already-applied or not-needed."""
    for bad in _WORST:
        for patch, (outcome, reason) in zip(patches, outcomes, strict=True):
            if outcome is bad:
                return bad, f"{patch.id}: {reason}"
    found = {outcome for outcome, _ in outcomes}
    for good in (Outcome.APPLICABLE, Outcome.ALREADY_APPLIED):
        if good in found:
            return good, ""
    return Outcome.NOT_NEEDED, outcomes[0][1] if outcomes else ""
