"""What the proofs beside a patchset say of the files as its groups would leave them."""

from __future__ import annotations

from collections.abc import Iterator

from patcher.errors import InputError
from patcher.patchset.schema import Patchset
from patcher.plan import GroupPlan, Plan, Subjects
from patcher.preview import package_changes
from patcher.tree import ChangedTree
from patcher.verify.shipped import beside, holding, in_words, read_proofs


def proven(patchset: Patchset, group: GroupPlan, plan: Plan, subjects: Subjects) -> str:
    """One line for a group of a plan, empty when no proof holds for these very bytes.

    Raises InputError when the file of proofs is damaged.
    """
    proofs = read_proofs(beside(patchset.source)) if patchset.source and group.writes else []
    if not proofs or not group.patches:
        return ""
    package = subjects(group.patches[0].package).package
    changes = package_changes(plan, subjects).get(package.name, ())
    name = f"{package.name} {package.version}"
    tree = ChangedTree(package.tree, changes)
    return in_words(holding(proofs, (group.id,), name, tree))


def notes(plan: Plan, subjects: Subjects) -> Iterator[str]:
    """A line for each selected group that is proven."""
    for item in plan.patchsets:
        for group in item.groups:
            try:
                said = proven(item.patchset, group, plan, subjects) if group.selected else ""
            except InputError as error:  # a change does not need its proofs
                said = str(error)
            if said:
                yield f"{item.patchset.name}/{group.id}: {said}"
