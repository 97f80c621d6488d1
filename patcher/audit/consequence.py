"""What a group does that is only half there, asked of the scan."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from patcher.arch import Target
from patcher.audit.groups import GroupMatch
from patcher.changes import Modify
from patcher.package.model import Package
from patcher.patchset.schema import PythonGate
from patcher.profiles.base import Profile
from patcher.scan.model import Opening, Options
from patcher.scan.run import scan
from patcher.toolchain.model import Toolkit
from patcher.tree import ChangedTree, Tree


@dataclass(frozen=True, slots=True)
class Consequence:
    """What became of some public functions of a module: hollow, an error, worse than a refusal."""

    result: Opening
    functions: tuple[str, ...]
    why: str


def consequences(match: GroupMatch, package: Package, pristine: Tree, profile: Profile,
                 toolkit: Toolkit, targets: Sequence[Target], references: Sequence[Target]
                 ) -> list[Consequence]:
    """What the opened gates of ``match`` let in while the rest of it is missing.

    With the file of a gate put back as it was, the scan tells what happens when
    that gate alone opens: which is what was done. Empty when nothing is amiss.
    """
    gates = match.open_gates
    modules = _modules(gates, package, profile, toolkit)
    if not modules:
        return []
    closed = [Modify(path, package.tree.read(path), pristine.read(path))
              for path in sorted({gate.file for gate in gates})]
    before = replace(package, tree=ChangedTree(package.tree, closed))
    report = scan(before, profile, targets, references, toolkit,
                  Options(modules=modules, follow_all=True))
    shut = {gate.id for gate in report.gates
            if any(gate.location.path == g.file and g.within in gate.within for g in gates)}
    found = [Consequence(row.result, row.functions, row.why) for module in report.modules
             for row in module.opens_alone if row.gate in shut and row.result is not Opening.OK]
    return list(dict.fromkeys(found))


def _modules(gates: Iterable[PythonGate], package: Package, profile: Profile,
             toolkit: Toolkit) -> tuple[str, ...]:
    """The JIT modules whose generator holds one of the gates."""
    places = {(gate.file, gate.within) for gate in gates}
    return tuple(module.name for module in profile.modules(package, toolkit)
                 if (module.generator.path, module.generator.function) in places)
