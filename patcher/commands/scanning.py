"""What scan and why share: from names on the command line to a report."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING

from patcher.commands.options import Settings
from patcher.errors import PatcherError, UsageError, did_you_mean

if TYPE_CHECKING:
    from patcher.arch import Target
    from patcher.gates import Gate
    from patcher.package.model import Package
    from patcher.scan.model import ModuleReport, Options, Report
    from patcher.toolchain.model import Toolkit
    from patcher.tree import Tree


@dataclass(frozen=True)
class Scanned:
    """The answer of a scan, with the trees it was read from (asked for only when needed)."""

    report: Report
    trees: tuple[Callable[[], Tree], ...]

    @property
    def findings(self) -> tuple[Gate, ...]:
        """The gates that exclude a target or are over-open, the gravest first."""
        return self.report.findings

    @property
    def modules(self) -> tuple[ModuleReport, ...]:
        """The features that a gate concerns, layer by layer."""
        return self.report.modules

    def read(self, path: str) -> bytes | None:
        """A file of the scan, generated units too; None for what cannot be read any more."""
        for tree in self.trees:
            try:
                return tree().read(path)
            except (OSError, PatcherError):
                continue
        return None


def scan_packages(settings: Settings, names: Sequence[str], options: Options) -> Report:
    """As ``scanned``, for those who need no source."""
    return scanned(settings, names, options).report


def scanned(settings: Settings, names: Sequence[str], options: Options) -> Scanned:
    """Scan each package for the devices of ``--arch`` and combine the reports."""
    from patcher.arch import target
    from patcher.package.environment import find_environment
    from patcher.package.find import find_package
    from patcher.scan.combine import combine, within
    from patcher.toolchain.find import find_toolkit

    environment = find_environment(settings.python, settings.root)
    settings.tell(f"environment: {environment.reason}")
    toolkit = find_toolkit(settings.cuda, environment)
    references = [target(name) for name in settings.reference]
    reports, trees = [], []
    packages = [find_package(name, environment) for name in names]
    _refuse_unknown(options.modules, packages, toolkit)
    for package in packages:
        for warning in package.warnings:
            settings.tell(f"{package.name}: {warning}")
        _say_what_is_gone(settings, package)
        report, tree = _scan(settings, package, toolkit, references, options)
        if options.modules:
            report = within(report, options.modules)
        reports.append(replace(report, applied=_applied(settings, package, toolkit, options)))
        trees.append(tree)
    report = combine(reports)
    if options.units and not report.unit_count:
        raise UsageError(f"no translation unit {' or '.join(options.units)} in "
                         f"{' or '.join(package.name for package in packages)}",
                         next_step="name it by its path below site-packages")
    return Scanned(report, tuple(trees))


def _applied(settings: Settings, package: Package, toolkit: Toolkit, options: Options
             ) -> dict[str, tuple[str, ...]]:
    """The groups in place by module, of those asked for; none when that cannot be read."""
    from patcher.commands.inplace import in_place

    try:
        found = in_place(settings, package, toolkit)
    except PatcherError as error:  # a scan needs no journal
        settings.tell(f"{package.name}: what is applied is not known: {error.what}")
        return {}
    return {name: groups for name, groups in found.items()
            if not options.modules or name in options.modules}


def _refuse_unknown(names: Sequence[str], packages: Sequence[Package], toolkit: Toolkit) -> None:
    """A mistyped module must not read as one without gates."""
    if not names:
        return
    from patcher.profiles import profile_for

    known = {module.name for package in packages
             for module in profile_for(package).modules(package, toolkit)}
    for name in names:
        if name not in known:
            where = " or ".join(package.name for package in packages)
            every = " ".join(["sm-patch scan", *(package.import_name for package in packages)])
            raise UsageError(f"no module {name} in {where}",
                             next_step=did_you_mean(name, known)
                             or f"{every} lists those with gates")


def _say_what_is_gone(settings: Settings, package: Package) -> None:
    """Warn about files of RECORD that are missing; nothing left at all is an error."""
    from patcher.errors import InputError

    gone = package.gone()
    if not gone:
        return
    again = f"reinstall it: pip install --force-reinstall --no-deps {package.name}"
    own = {path for path in package.record if not path.startswith(f"{package.dist_info}/")}
    if own.issubset(gone):
        raise InputError(f"{package.name} has metadata here, but none of its {len(own)} files",
                         where=str(package.root), next_step=again)
    settings.tell(f"{package.name}: {len(gone)} of {len(package.record)} installed files are "
                  f"missing, among them {gone[0]}; what they hold is not scanned: {again}")


def _scan(settings: Settings, package: Package, toolkit: Toolkit, references: Sequence[Target],
          options: Options) -> tuple[Report, Callable[[], Tree]]:
    from patcher.cuda.store import Store
    from patcher.profiles import profile_for
    from patcher.report.progress import progress
    from patcher.scan.kept import scan

    profile = profile_for(package)
    resolved = [profile.resolve_target(device, package, toolkit) for device in settings.arch]
    for item in resolved:
        settings.tell(f"target {item.target.name}: {item.reason}")
    assumed = tuple(f"{r.target.name}: {r.reason}" for r in resolved if r.assumed)
    targets = list(dict.fromkeys(r.target for r in resolved))
    with progress(f"scanning {package.name}") as shown:
        chosen = replace(options, assumed=assumed, tick=shown)
        report = scan(package, profile, targets, references, toolkit, chosen,
                      store=Store.default())
    return report, cache(lambda: profile.tree(package, toolkit))

