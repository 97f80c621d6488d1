"""Checks of a planned group before anything may be written: the law, and our own output.

Both take and give a GroupPlan; what they refuse says which patch, where and why.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from patcher.arch import DEVICE, EMPTY, ArchSet
from patcher.changes import Modify
from patcher.cuda.directives import SourceFile, parse
from patcher.cuda.model import TranslationUnit
from patcher.cuda.predefined import ToolkitMacros
from patcher.cuda.store import Store
from patcher.cuda.walk import Walker
from patcher.edits import Edit, EditClash, Span, apply_edits, merge_edits
from patcher.law import EditedFile, Rule, breaches
from patcher.operations.base import Outcome
from patcher.operations.opening import cells
from patcher.operations.region import is_python
from patcher.operations.registry import find
from patcher.patchset.schema import Affects, CudaGuard, Flag, Patchset, Text, Unreached
from patcher.plan import GroupPlan, PatchPlan, Subject, Subjects, edits_by_path
from patcher.python import index as python
from patcher.tree import ChangedTree, Tree
from patcher.units import affected, is_source

_SHOWN = 3  # breaches in a refusal; the rest are counted


def obeys_law(patchset: Patchset, group: GroupPlan, earlier: Sequence[GroupPlan],
              subjects: Subjects) -> GroupPlan:
    """Refuse a group whose asked edits would change a world that was not asked for."""
    asked = cells(patchset.archs) or _asked(group)
    for patch in group.patches:
        wrong = _beyond(patch) or _whole(patch, asked, subjects(patch.package))
        if wrong:
            return group.refuse(Outcome.CONFLICT, f"{patch.id}: {wrong}")
    for name in dict.fromkeys(patch.package for patch in group.patches):
        subject = subjects(name)
        if subject.profile is None or subject.toolkit is None:
            continue
        done = [patch for other in earlier for patch in other.patches]
        outcome, reason = _Walks(subject, name, group, done, asked).verdict()
        if outcome.refused:
            return group.refuse(outcome, reason)
    return group


def _asked(group: GroupPlan) -> ArchSet:
    worlds = EMPTY
    for patch in group.patches:
        worlds |= patch.effective
    return worlds


def _beyond(patch: PatchPlan) -> str:
    """The gate is coarser than what was asked."""
    surplus = patch.effective - patch.asked
    if not surplus or patch.patch.coarse or patch.affects is Affects.ALL:
        return ""
    return (f"this gate cannot tell {surplus} from {patch.asked}: it would change for both; "
            "ask for them too, or accept it with 'coarse: true'")


def _whole(patch: PatchPlan, asked: ArchSet, subject: Subject) -> str:
    """Edits of files that no walk can follow must own up to changing every architecture."""
    if patch.affects is Affects.ALL or not patch.edits:
        return ""
    operation = patch.patch.operation
    if isinstance(operation, Text) and not is_source(operation.file):
        return f"a text in {operation.file} changes every architecture; say 'affects: all' and why"
    if isinstance(operation, Flag):
        built = _built_for(operation, subject)
        if built is None or not built <= asked:
            shown = "every architecture" if built is None else str(built)
            return (f"the flag reaches what {operation.within or operation.file} builds for: "
                    f"{shown}; say 'affects: all' and why")
    return ""


def _built_for(operation: Flag, subject: Subject) -> ArchSet | None:
    """The targets of the module whose generator holds the flag; None when that is unknown."""
    if subject.profile is None or subject.toolkit is None:
        return None
    for module in subject.profile.modules(subject.package, subject.toolkit):
        site = module.generator
        if (site.path, site.function) == (operation.file, operation.within):
            if module.targets:
                return ArchSet.of(*module.targets)
            majors = [gate.majors for gate in module.gates if gate.majors is not None]
            if majors and len(majors) == len(module.gates):
                chosen = set(majors[0]).intersection(*majors)
                return ArchSet.of(*(t for t in DEVICE if t.capability.major in chosen))
    return None


@dataclass
class _Walks:
    """The units that hold a group's files, before and after."""

    subject: Subject
    package: str
    group: GroupPlan
    earlier: Sequence[PatchPlan]
    asked: ArchSet

    def verdict(self) -> tuple[Outcome, str]:
        """APPLICABLE, or why the group is refused."""
        mine = edits_by_path(self.group.patches, self.package)
        sources = sorted(path for path in mine if is_source(path))
        if not sources:
            return Outcome.APPLICABLE, ""
        assert self.subject.profile is not None
        assert self.subject.toolkit is not None
        package, toolkit = self.subject.package, self.subject.toolkit
        whole = self.subject.profile.tree(package, toolkit)
        base = self.subject.base
        done = edits_by_path(self.earlier, self.package)
        old = {path: apply_edits(base.read(path), done.get(path, ())) for path in sources}
        before = ChangedTree(whole, [Modify(path, whole.read(path), data)
                                     for path, data in old.items()])
        files = {path: EditedFile(path, old[path], self._rules(path, done.get(path, ())))
                 for path in sources}
        new = {path: apply_edits(old[path], files[path].edits) for path in sources}
        after = ChangedTree(before, [Modify(path, old[path], new[path]) for path in sources
                                     if new[path] != old[path]])
        units = affected(before, package.top,
                         self.subject.profile.translation_units(package, toolkit), sources)
        macros = ToolkitMacros(toolkit.version, toolkit.platform, toolkit.host.macros or None)
        walker = Walker(before, toolkit=macros, store=Store.default())
        return self._compare(units, walker, walker.on(after), files,
                             lambda path: parse(before.read(path)))

    def _compare(self, units: Sequence[TranslationUnit], before: Walker, after: Walker,
                 files: dict[str, EditedFile],
                 parsed: Callable[[str], SourceFile]) -> tuple[Outcome, str]:
        found: list[str] = []
        left = set(files)
        asked = any(file.edits for file in files.values())
        for unit in units:
            if not left and not asked:
                break
            report = before.walk(unit, every=True)
            here = {path: file for path, file in files.items() if path in report.files}
            left -= set(here)
            if any(file.edits for file in here.values()):
                found += map(str, breaches(report, after.walk(unit, every=True), here, parsed))
        for patch in self.group.patches:
            lost = sorted(left & set(patch.edits))
            if lost and patch.patch.unreached is Unreached.REFUSE:
                return Outcome.UNREACHED, (
                    f"{patch.id}: no translation unit of this package includes {', '.join(lost)}: "
                    "an edit there has no effect; allow it with 'unreached: allow'")
        if not found:
            return Outcome.APPLICABLE, ""
        more = f"; and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
        return Outcome.CONFLICT, "the law does not hold: " + "; ".join(found[:_SHOWN]) + more

    def _rules(self, path: str, done: Iterable[Edit]) -> Iterator[Rule]:
        """This group's asked edits of one file, in the coordinates of what precedes it."""
        for patch in self.group.patches:
            if patch.package != self.package or patch.affects is Affects.ALL:
                continue
            edits = tuple(_moved(edit, done) for edit in patch.edits.get(path, ()))
            operation = patch.patch.operation
            opens = bool(operation.open) if isinstance(operation, CudaGuard) else None
            if edits:
                yield Rule(path, edits, patch.effective or self.asked, opens)


def _moved(edit: Edit, done: Iterable[Edit]) -> Edit:
    shift = sum(len(other.new) - (other.span.end - other.span.start)
                for other in done if other.span.end <= edit.span.start)
    return Edit(Span(edit.span.start + shift, edit.span.end + shift), edit.new)


def leaves_nothing(patchset: Patchset, group: GroupPlan, earlier: Sequence[GroupPlan],
                   subjects: Subjects) -> GroupPlan:
    """Our own output: new Python parses, directives balance, planning again finds nothing to do."""
    for name in dict.fromkeys(patch.package for patch in group.patches):
        base = subjects(name).base
        done = edits_by_path((p for other in earlier for p in other.patches), name)
        changes = []
        for path, edits in edits_by_path(group.patches, name).items():
            old = base.read(path)
            try:
                new = apply_edits(old, merge_edits([*edits, *done.get(path, ())]))
            except EditClash:
                continue  # said by the one who composes, with both names
            wrong = _malformed(path, old, new)
            if wrong:
                return group.refuse(Outcome.CONFLICT, f"{path}: {wrong}; not applied")
            changes.append(Modify(path, old, new))
        wrong = _undone(group, name, ChangedTree(base, changes))
        if wrong:
            return group.refuse(Outcome.CONFLICT, wrong)
    return group


def _malformed(path: str, old: bytes, new: bytes) -> str:
    if is_python(path):
        return "the result would not be Python" if python.parse(new) is None else ""
    if is_source(path) and len(parse(new).warnings) > len(parse(old).warnings):
        return f"the result's #if directives do not balance: {parse(new).warnings[-1]}"
    return ""


def _undone(group: GroupPlan, package: str, tree: Tree) -> str:
    """The first gate that would still ask for its change afterwards."""
    for patch in group.patches:
        if patch.package == package and patch.edits and not isinstance(patch.patch.operation, Text):
            again = find(patch.patch.operation, tree)
            if again.outcome is not Outcome.NOT_NEEDED:
                return f"{patch.id}: still {again.outcome.value} after the edit: {again.reason}"
    return ""
