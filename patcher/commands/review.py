"""``apply --commit``: a review branch in a git source tree, one commit per patch.

The branch starts at HEAD; neither the working tree, nor the index, nor HEAD is touched.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

from patcher.changes import Change, Create, Delete, Link, Modify, Move, Unlink
from patcher.commands.options import Settings
from patcher.commands.planning import Planner
from patcher.errors import Conflict, Exit, InputError, Refused
from patcher.package.environment import find_environment
from patcher.package.model import Package
from patcher.plan import Plan, Request, Untouched
from patcher.preview import PatchPreview, previews
from patcher.report.plan import lines

if TYPE_CHECKING:
    from git import Commit, Repo

_FILE, _EXECUTABLE, _LINK = 0o100644, 0o100755, 0o120000


def review(settings: Settings, wanted: Sequence[Request]) -> Exit:
    """Write the branches and say where they are. Raises Refused and its kin."""
    planner = Planner(settings, find_environment(settings.python, settings.root), Untouched)
    plan = planner.plan(wanted)
    for line in (*dict.fromkeys(planner.notes), *lines(plan, "apply")):
        settings.tell(line)
    if plan.refused:
        raise Conflict("some groups cannot go through: no branch was written",
                       next_step="name the others with --group")
    branches: dict[str, _Branch] = {}
    for preview in previews(plan, planner):
        package = planner(preview.patch.package).package
        branch = branches.setdefault(str(package.root), _Branch(package, _name(plan)))
        branch.add(preview)
    for branch in branches.values():
        branch.publish()
    settings.emit("\n".join(str(branch) for branch in branches.values())
                  or "nothing to do: no group changes anything")
    return Exit.DONE


def _name(plan: Plan) -> str:
    return "sm-patch/" + "+".join(item.patchset.name for item in plan.patchsets)


class _Branch:
    """Commits on top of HEAD that become a branch when all of them are made."""

    def __init__(self, package: Package, name: str) -> None:
        self._package = package
        self._name = name
        self._repository = _open(package)
        if name in (head.name for head in self._repository.heads):
            raise Refused("the review branch is there already", where=name,
                          next_step=f"git branch -D {name}")
        self._tip: Commit = self._repository.head.commit
        self._seen: set[str] = set()
        self._count = 0

    def add(self, preview: PatchPreview) -> None:
        """One commit. Raises Conflict for a file that differs from HEAD."""
        from git import IndexFile

        index = IndexFile.from_tree(self._repository, self._tip)
        for change in preview.changes:
            self._enter(index, change)
        self._tip = index.commit(_message(preview), parent_commits=[self._tip], head=False,
                                 skip_hooks=True)
        self._count += 1

    def _enter(self, index: object, change: Change) -> None:
        from git import IndexFile
        from git.index.typ import BaseIndexEntry
        from gitdb.base import IStream  # type: ignore[import-untyped]

        assert isinstance(index, IndexFile)
        path = self._place(change.path)
        if isinstance(change, Move):
            raise Refused("prebuilt modules do not belong into a review branch",
                          where=change.path)
        if isinstance(change, Delete | Unlink):
            index.remove([path])
            return
        mode = _LINK if isinstance(change, Link) else _FILE
        data = change.target.encode() if isinstance(change, Link) else change.new
        if isinstance(change, Create) and change.mode & 0o100:
            mode = _EXECUTABLE
        if isinstance(change, Modify):
            mode = self._check_clean(path, change)
        stream = self._repository.odb.store(IStream(b"blob", len(data), BytesIO(data)))
        index.add([BaseIndexEntry((mode, stream.binsha, 0, path))])

    def _check_clean(self, path: str, change: Modify) -> int:
        """The mode of a tracked file whose content is that of the commit below."""
        try:
            blob = self._tip.tree / path
        except KeyError:
            raise Conflict("not tracked by git", where=path, next_step="git add it") from None
        if path not in self._seen and blob.data_stream.read() != change.old:
            raise Conflict("differs from HEAD", where=path, next_step="commit or stash it first")
        self._seen.add(path)
        return int(blob.mode)

    def _place(self, path: str) -> str:
        """Where a package path is in the repository, links to folders followed."""
        place = self._package.locate(path)
        real = os.path.join(os.path.realpath(place.parent), place.name)
        top = os.path.realpath(str(self._repository.working_tree_dir))
        if not real.startswith(top + os.sep):
            raise InputError("lies outside of the repository", where=path)
        return os.path.relpath(real, top)

    def publish(self) -> None:
        self._repository.create_head(self._name, self._tip)

    def __str__(self) -> str:
        return (f"{self._count} commit{'' if self._count == 1 else 's'} on {self._name} "
                f"in {self._package.root}\nnext: git diff HEAD...{self._name}")


def _open(package: Package) -> Repo:
    from git import GitCommandError, InvalidGitRepositoryError, Repo

    if not (package.source_tree or package.editable) or package.read_only:
        raise Refused("--commit is for git source trees", where=str(package.root),
                      next_step="leave out --commit")
    try:
        repository = Repo(Path(package.root), search_parent_directories=True)
        repository.head.commit.hexsha  # noqa: B018 - raises for a repository without a commit
    except (InvalidGitRepositoryError, ValueError, GitCommandError) as error:
        raise Refused("not a git repository with a commit", where=str(package.root),
                      next_step="leave out --commit") from error
    return repository


def _message(preview: PatchPreview) -> str:
    patch, group = preview.patch.patch, preview.group.group
    subject = patch.summary or patch.id
    body = [patch.reason or group.why or group.summary,
            f"Group {preview.patchset.name}/{group.id}, patch {patch.id}.",
            " ".join(group.references)]
    return "\n\n".join([subject[:1].upper() + subject[1:], *(text for text in body if text)])
