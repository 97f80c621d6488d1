"""Scan one package: walk its units, judge every layer, group by feature, rank."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from patcher.arch import ArchSet, Target, relatives
from patcher.cuda.model import TranslationUnit, UnitReport
from patcher.cuda.predefined import ToolkitMacros
from patcher.cuda.store import Store
from patcher.cuda.walk import Walker
from patcher.gates import Cause, Evidence, Gate, Layer, Severity
from patcher.package.model import Package
from patcher.profiles.base import JitModule, Profile, PublicFunction
from patcher.room import collector_at_rest
from patcher.scan.features import (
    Feature,
    hardware_of,
    report_of,
    shuts,
    with_checks,
)
from patcher.scan.files import Files
from patcher.scan.known import Known
from patcher.scan.layers import (
    HostTables,
    Probed,
    build_layer,
    host_layer,
    python_layer,
    with_causes,
)
from patcher.scan.libraries import gates_of, libraries, row_of
from patcher.scan.model import (
    FeatureSite,
    LibraryRow,
    MissingRow,
    ModuleReport,
    Options,
    PackageRow,
    Report,
    ToolchainRow,
)
from patcher.scan.opened import Openers, shipped_for
from patcher.scan.prebuilt import binary_layer
from patcher.scan.preprocessor import Found, Judge, merge
from patcher.scan.rows import configurations, identity, numbered, rank
from patcher.scan.stack import Material, sites_of
from patcher.scan.stages import Stages, Table
from patcher.scan.subject import Subject, read_subject
from patcher.scan.tags import FOUND, Tags
from patcher.scan.users import with_users
from patcher.scan.walks import Facts, judged, walk_all
from patcher.scan.watch import digest_of
from patcher.toolchain.model import Toolkit
from patcher.tree import Tree

_PIECES = 16  # of what was judged: that is megabytes, and an edit changes little of it


def scan(
    package: Package,
    profile: Profile,
    targets: Sequence[Target],
    references: Sequence[Target],
    toolkit: Toolkit,
    options: Options | None = None,
    *,
    store: Store | None = None,
    stages: Stages | None = None,
) -> Report:
    """Every gate of a package that excludes a target or is over-open, by feature.

    Raises InputError when the package's own files cannot be read.
    """
    with collector_at_rest():
        return _Scan(package, profile, tuple(targets), tuple(references), toolkit,
                     options or Options(), store, stages).report()


class _Scan:
    def __init__(
        self, package: Package, profile: Profile, targets: tuple[Target, ...],
        references: tuple[Target, ...], toolkit: Toolkit, options: Options,
        store: Store | None, stages: Stages | None,
    ) -> None:
        self.package, self.profile, self.toolkit, self.options = package, profile, toolkit, options
        self.targets, self.given = targets, references
        self.references = (*references, *relatives(targets))
        self.stages = stages
        self.anew = False  # something was made that the store did not have
        self.subject: Subject = self._kept(
            "subject", Subject, partial(read_subject, profile, package, toolkit))
        self.tree = self.subject.over(package.tree)
        self.modules = self.subject.modules
        macros = ToolkitMacros(toolkit.version, toolkit.platform, toolkit.host.macros or None)
        self.walker = Walker(self.tree, toolkit=macros, store=store, reports=False,
                             conditions=options.conditions)
        self.files = Files(self.tree, self.walker.conditionals)
        self.openers = Openers(shipped_for(package.name), package.name, package.version,
                               ArchSet.of(*targets), package.tree, package.import_name)
        self.units_of: dict[str, int] = {}  # gate id -> units
        self.details: dict[str, tuple[Gate, ...]] = {}
        self.libraries: tuple[LibraryRow, ...] = ()
        self.python: list[Gate] = []  # every Python gate, open ones too
        self.known: Known | None = None
        self.tables: dict[str, Table[Any]] = {}
        self.told: dict[int, str] = {}

    def report(self) -> Report:
        units = self._units()
        if self.stages is not None:
            self.known = Known(self.stages, self.tree, self.walker, units, self.subject.made)
            self.walker.content = self.known.use
        python = self._python() + self._built()
        if self.anew:
            gc.collect()  # syntax trees are full of cycles; there is little else as yet
        facts = walk_all(units, self.walker.gather, self.files,
                         lambda done: self.options.tick(done, len(units)), self.known)
        self.tags = Tags(facts, self.files, self._table("tags", FOUND), self._digest)
        features = self._features(facts)
        python = self._with_causes(python, features, facts)
        shut = frozenset(name for gate in python for name in gate.modules
                         if shuts(gate) and gate.excludes_target)
        gates = [*python, *self._preprocessor(facts, shut), *self._host(facts)]
        gates += self._build(facts, features, shut) + self._binary()
        gates = [self._opened(gate) for gate in with_users(gates, facts.reached, self.files)]
        features = self._followed(features, gates)
        gates = with_checks(gates, features)
        report = self._assemble(facts, sorted(gates, key=rank), features)
        for table in self.tables.values():
            table.save()
        self.walker.save()
        return report

    def _kept(self, name: object, kind: Any, make: Callable[[Tree], Any]) -> Any:
        """A part of the scan, from the store when it can."""
        def made(tree: Tree) -> Any:
            self.anew = True
            return make(tree)

        return made(self.package.tree) if self.stages is None else self.stages.of(name, kind, made)

    def _table(self, name: str, kind: Any, pieces: int = 1) -> Table[Any]:
        """Small results of this scan; each way of asking has its own."""
        options = self.options
        if name not in self.tables:
            asked = (name, options.modules, options.units, sorted(options.layers))
            self.tables[name] = Table(self.stages, asked, kind, pieces)
        return self.tables[name]

    def _digest(self, path: str) -> str:
        return self.known.digest(path) if self.known else ""

    def _closure(self, facts: Facts, feature: Feature) -> str:
        return self.known.closure(facts, feature.units) if self.known else ""

    def _walk(self, unit: TranslationUnit, every: frozenset[str]) -> UnitReport:
        return self.walker.walk(unit, every=bool(every), only=every or None)

    def _units(self) -> list[TranslationUnit]:
        units = self.subject.units()
        options = self.options
        if options.modules:
            units = [u for u in units if set(u.modules) & set(options.modules)]
        if options.units:
            units = [u for u in units
                     if {u.path, f"{u.path}@{u.configuration.id}"} & set(options.units)]
        return units

    def _wanted_modules(self) -> list[JitModule]:
        wanted = self.options.modules
        return [m for m in self.modules if not wanted or m.name in wanted]

    def _features(self, facts: Facts) -> list[Feature]:
        units: dict[str, int] = {}
        for number, unit in enumerate(facts.units):
            for name in unit.modules:
                units[name] = units.get(name, 0) | 1 << number
        return [Feature(m, units.get(m.name, 0)) for m in self._wanted_modules()]

    def _followed(self, features: Sequence[Feature], gates: Sequence[Gate]) -> list[Feature]:
        """The features with their public functions, where they matter."""
        grave = {name for gate in gates for name in gate.modules
                 if gate.opened_by or gate.severity is Severity.CRITICAL}
        wanted = [feature.module for feature in features
                  if self.options.follow_all or feature.module.name in grave]

        def follow(tree: Tree) -> tuple[tuple[PublicFunction, ...], ...]:
            package = replace(self.package, tree=tree)
            return tuple(tuple(self.profile.functions_of(package, module)) for module in wanted)

        names = tuple(module.name for module in wanted)
        found = self._kept(("functions", names), tuple[tuple[PublicFunction, ...], ...], follow)
        functions = dict(zip(map(id, wanted), found, strict=True))
        return [replace(feature, functions=functions.get(id(feature.module), ()))
                for feature in features]

    def _python(self) -> list[Gate]:
        if not self.options.wants(Layer.PYTHON):
            return []
        from patcher.python.find import find_gates

        folders = [self.package.import_name]
        if self.package.source_tree:  # the scripts that write kernels decide, too
            folders.append("csrc")

        def find(tree: Tree) -> tuple[Gate, ...]:
            return tuple(gate for folder in folders for gate in find_gates(tree, folder))

        found = self._kept("python", tuple[Gate, ...], find)
        self.python = list(found)
        return python_layer(found, self.targets, self.references)

    def _built(self) -> list[Gate]:
        """What build files compile for other targets only."""
        if not self.options.wants(Layer.BUILD):
            return []
        found = self.profile.build_gates(self.package, self.toolkit)
        return python_layer(found, self.targets, self.references)

    def _with_causes(
        self, python: list[Gate], features: Iterable[Feature], facts: Facts
    ) -> list[Gate]:
        """Python gates with their modules, and with what the modules' sources say."""
        fixed = self.targets[0] if self.options.wants(Layer.BUILD) else None
        return with_causes(python, features, partial(self._hardware, facts=facts), fixed)

    def _preprocessor(self, facts: Facts, shut: frozenset[str]) -> list[Gate]:
        if not self.options.wants(Layer.PREPROCESSOR):
            return []
        built = sum(1 << number for number, unit in enumerate(facts.units)
                    if not unit.modules or not shut.issuperset(unit.modules))
        judge = Judge(self.files, self.targets, self.references, self.toolkit.version, built,
                      self._table("rejecting", bool), self._digest)
        verdicts = self._table("judged", tuple[Found, ...], _PIECES)
        rows = merge(judged(facts, judge, self._walk, verdicts, self.known))
        gates: list[Gate] = []
        hidden: list[Gate] = []
        for row, named in zip(rows, numbered(identity(row.gate) for row in rows), strict=True):
            units, modules = facts.paths(row.units), facts.modules(row.units)
            inner = {gate.location.line: gate for gate in row.hidden}.values()
            names = numbered(f"{named}-{identity(gate)}" for gate in inner)
            behind = [replace(gate, id=name, units=units, modules=modules)
                      for gate, name in zip(inner, names, strict=True)]
            gates.append(replace(row.gate, id=named, units=units, modules=modules,
                                 hides=tuple(gate.id for gate in behind)))
            hidden += behind
            self.units_of[named] = row.units
            self.details[named] = row.inner
        return [*gates, *hidden]

    def _host(self, facts: Facts) -> list[Gate]:
        if not self.options.wants(Layer.HOST):
            return []
        kept = HostTables(self._table("worth", bool), self._table("constants", tuple[str, ...]),
                          self._table("host", tuple[Gate, ...]))
        gates = host_layer(facts, self.files, self.targets, self.references, kept, self._digest)
        names = numbered(gate.id for gate in gates)
        gates = [replace(gate, id=named) for gate, named in zip(gates, names, strict=True)]
        for gate in gates:
            self.units_of[gate.id] = facts.reached[gate.location.path]
        return gates

    def _build(
        self, facts: Facts, features: Sequence[Feature], shut: frozenset[str]
    ) -> list[Gate]:
        if not self.options.wants(Layer.BUILD):
            return []
        named = {f.module.name: f.module for f in features}
        gates = build_layer(facts, named, shut, self.targets[0], self._walk, self.files,
                            self._table("probed", Probed), self.known)
        return [self._foreign(gate, features, facts) for gate in gates]

    def _foreign(self, gate: Gate, features: Sequence[Feature], facts: Facts) -> Gate:
        """A flag that a module lacks matters little when its kernels are for other hardware."""
        feature = next(f for f in features if f.module.name in gate.modules)
        evidence = self._hardware(feature, facts)
        if not evidence:
            return gate
        return replace(gate, cause=Cause.HARDWARE, severity=Severity.INFO,
                       evidence=(*evidence, *gate.evidence))

    def _hardware(self, feature: Feature, facts: Facts) -> tuple[Evidence, ...]:
        target = self.targets[0]
        found: tuple[Evidence, ...] = self._table("hardware", tuple[Evidence, ...]).of(
            f"{feature.module.name} {feature.units:x} {target.name}",
            self._closure(facts, feature),
            lambda: hardware_of(feature, facts, self.files, target))
        return found

    def _told(self, gate: Gate) -> str:
        """Names all that a gate says; its units may be thousands, and are known by number."""
        units = self.units_of.get(gate.id)
        told = gate if units is None else replace(gate, units=())
        return digest_of([repr(told), str(units)])

    def _report_of(self, feature: Feature, gates: Sequence[Gate], facts: Facts) -> ModuleReport:
        module = feature.module
        asked = ([self.told[id(gate)] for gate in gates], feature.units, feature.functions,
                 module.sources, module.flags, module.gates, module.guessed)
        made_from = digest_of([repr(asked), self._closure(facts, feature)]) if self.known else ""
        found: ModuleReport = self._table("features", ModuleReport).of(
            f"{module.name} {feature.units:x} {self.targets[0].name}", made_from,
            lambda: replace(
                report_of(feature, gates, self.units_of, facts, self.files, self.targets[0]),
                tags=self.tags.rows(feature.units)))
        return found

    def _binary(self) -> list[Gate]:
        if not self.options.wants(Layer.BINARY) or self.package.read_only:
            return []
        folders = self.profile.aot_folders(self.package)
        gates = binary_layer(folders, self.modules, self.package.root, self.targets[0])
        self.libraries = tuple(row_of(library, [*self.targets, *self.references])
                               for library in libraries(self.profile, self.package))
        known = {gate.location.path for gate in gates}
        return gates + [gate for gate in gates_of(self.libraries, self.targets, self.references)
                        if gate.location.path not in known]

    def _opened(self, gate: Gate) -> Gate:
        if not (gate.excludes_target or gate.over_open):
            return gate
        opener = self.openers.of(gate, self.files)
        if opener is None:
            return gate
        if gate.cause is Cause.UNKNOWN and opener.evidence:
            gate = replace(gate, cause=Cause.SOFTWARE,
                           evidence=(*opener.evidence, *gate.evidence))
        return replace(gate, opened_by=opener.name)

    def _assemble(
        self, facts: Facts, gates: Sequence[Gate], features: Sequence[Feature]
    ) -> Report:
        by_module: dict[str, list[Gate]] = {}
        self.told = {id(gate): self._told(gate) for gate in gates}  # a gate is in many modules
        for gate in gates:
            for name in gate.modules:
                by_module.setdefault(name, []).append(gate)
        reports = [
            self._report_of(feature, by_module[feature.module.name], facts)
            for feature in features if feature.module.name in by_module
        ]
        order = {gate.id: n for n, gate in enumerate(gates)}
        reports.sort(key=lambda r: (min(order[g] for g in r.gates), r.name))
        toolkit = self.toolkit
        package = self.package
        return Report(
            packages=(PackageRow(package.name, package.version, package.root),),
            targets=self.targets,
            assumed=self.options.assumed,
            references=self.given,
            toolchain=ToolchainRow(toolkit.version, toolkit.path, toolkit.assumed),
            gates=tuple(gates),
            modules=tuple(reports),
            configurations=configurations(facts.units),
            unit_count=len(facts.units),
            file_count=facts.file_count,
            missing=tuple(MissingRow(m.include, m.source, m.line) for m in sorted(facts.missing)),
            libraries=self.libraries,
            sites=self._sites(gates),
            notes=tuple(self._notes(facts)),
            warnings=tuple(sorted(facts.warnings)),
            details=self.details,
        )

    def _sites(self, gates: Iterable[Gate]) -> tuple[FeatureSite, ...]:
        """Where this package decides a feature of the whole stack."""
        return sites_of(Material(
            self.package.name, self.targets, self.given, self.python, {g.id: g for g in gates},
            self.modules, self.libraries, lambda path: self.files.get(path).data, self._closer))

    def _closer(self, gate: Gate) -> str | None:
        opener = self.openers.closing(gate, self.files)
        return opener.name if opener is not None else None

    def _notes(self, facts: Facts) -> Iterable[str]:
        yield from (f"{self.package.name}: {said}" for said in self.profile.about(self.package))
        paths = list(_headers(self.tree, self.package.top))
        for path in facts.observer.unreached(paths):
            yield f"{path} is reached by no unit"


def _headers(tree: Tree, folder: str) -> Iterable[str]:
    from patcher.tree import walk

    return walk(tree, folder, (".h",))
