"""Which shipped group opens a gate: its anchors are matched by structure, not by text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from patcher.arch import ArchSet
from patcher.cuda.directives import normalise
from patcher.gates import Evidence, Gate, Layer
from patcher.patchset.label import Label, label_of
from patcher.patchset.schema import CudaGuard, Flag, Group, Patchset, PythonGate
from patcher.scan.files import Files
from patcher.tree import Tree

if TYPE_CHECKING:
    from patcher.python.index import Index


@dataclass(frozen=True, slots=True)
class Opener:
    """A shipped group, and the operation of it that changes the gate."""

    patchset: str
    group: Group
    operation: PythonGate | CudaGuard | Flag

    @property
    def name(self) -> str:
        return f"{self.patchset}/{self.group.id}"

    @property
    def evidence(self) -> tuple[Evidence, ...]:
        """The upstream changes that the group cites."""
        return tuple(
            Evidence(f"{self.patchset}.yaml", 0, f"upstream: {reference}")
            for reference in self.group.references
        )


class Openers:
    """The operations of the shipped groups that fit one package's version, by file.

    Only those that change it for one of ``targets``. ``folder`` is the package's own in
    ``tree``: names in its gates are looked up there.
    """

    def __init__(self, patchsets: Iterable[Patchset], package: str, version: str | None,
                 targets: ArchSet, tree: Tree | None = None, folder: str = "") -> None:
        self._where = (tree, folder)
        self._index: Index | None = None
        self._by_file: dict[str, list[Opener]] = {}
        self._matched: dict[tuple[PythonGate, str], tuple[int, ...]] = {}
        for patchset in patchsets:
            for group in patchset.groups:
                if label_of(version, group.versions, group.fixed_in) in (
                        Label.OUTSIDE, Label.FIXED):
                    continue  # apply refuses it there
                for opener in _operations(patchset, group, package):
                    if _changes(patchset, opener) & targets:
                        self._by_file.setdefault(opener.operation.file, []).append(opener)

    def of(self, gate: Gate, files: Files) -> Opener | None:
        """The first group that opens this gate."""
        for opener in self._by_file.get(gate.location.path, ()):
            if self._matches(opener.operation, gate, files):
                return opener
        return None

    def closing(self, gate: Gate, files: Files) -> Opener | None:
        """The first group that closes this Python gate for some devices."""
        for opener in self._by_file.get(gate.location.path, ()):
            operation = opener.operation
            if isinstance(operation, PythonGate) and operation.close and self._matches(
                    operation, gate, files):
                return opener
        return None

    def _matches(self, operation: PythonGate | CudaGuard | Flag, gate: Gate, files: Files) -> bool:
        if isinstance(operation, CudaGuard):
            return gate.layer is Layer.PREPROCESSOR and normalise(gate.condition) == normalise(
                operation.condition
            )
        if isinstance(operation, Flag):
            same = operation.flag.split("=")[0] == gate.condition.split("=")[0]
            return gate.layer is Layer.BUILD and same and operation.within == gate.within
        if gate.layer is not Layer.PYTHON:
            return False
        lines = self._lines(operation, gate.location.path, files)
        return any(gate.location.line <= line <= gate.location.end_line for line in lines)

    def _lines(self, operation: PythonGate, path: str, files: Files) -> tuple[int, ...]:
        """The lines of the gates that an operation's anchor names in a file."""
        from patcher.python.index import Index
        from patcher.python.match import match_gates
        from patcher.python.model import GateSpec

        lines = self._matched.get((operation, path))
        if lines is None:
            tree, folder = self._where
            self._index = self._index or (Index(tree, folder) if tree is not None else None)
            spec = GateSpec(operation.gate, operation.within, operation.open, operation.close,
                            operation.count)
            found = match_gates(files.get(path).data, path, spec, self._index)
            lines = self._matched[operation, path] = tuple(match.line for match in found)
        return lines


def _operations(patchset: Patchset, group: Group, package: str) -> Iterator[Opener]:
    patches = [*group.patches, *(p for variant in group.variants for p in variant.patches)]
    for patch in patches:
        operation = patch.operation
        if patchset.package_of(group, patch) == package and isinstance(
            operation, PythonGate | CudaGuard | Flag
        ):
            yield Opener(patchset.name, group, operation)


def _changes(patchset: Patchset, opener: Opener) -> ArchSet:
    """The worlds for which a group's operation is meant."""
    operation = opener.operation
    worlds = patchset.archs if isinstance(operation, Flag) else operation.open | operation.close
    return worlds & opener.group.for_ if opener.group.for_ else worlds


def shipped_for(package: str) -> list[Patchset]:
    """The shipped patchsets that edit this package."""
    from patcher.patchset.load import load_patchset
    from patcher.patchset.shipped import shipped

    loaded = [load_patchset(str(path)) for path in shipped().values()]
    return [p for p in loaded
            if package in {p.package, *(g.package for g in p.groups)}]
