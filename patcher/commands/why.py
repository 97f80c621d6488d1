"""``sm-patch why``: one feature's layers from the public function to the binary."""

from __future__ import annotations

import click

from patcher.commands import completion
from patcher.commands.options import Settings, common
from patcher.errors import Exit, UsageError, did_you_mean


@click.command("why")
@click.argument("topic", metavar="PACKAGE[:MODULE]", shell_complete=completion.packages)
@click.option("--all", "everything", is_flag=True,
              help="Without MODULE: every feature with a finding, layer by layer.")
@common("arch", "reference", "cuda", "root", "python", "state", "format", "output")
def command(settings: Settings, topic: str, everything: bool) -> Exit:
    """Show why a feature is closed, from its public functions to the binary.

    MODULE may be a JIT module, a public function, a kernel or a server flag;
    without it the features with findings are listed. Each gate says what
    happens when it alone is opened.
    """
    from patcher.commands.scanning import scan_packages
    from patcher.report.json_scan import render_json
    from patcher.report.text_why import render_summary, render_why
    from patcher.scan.combine import about, only
    from patcher.scan.model import Options

    package, _, feature = topic.partition(":") if not _is_path(topic) else (topic, "", "")
    report = scan_packages(settings, [package], Options(follow_all=bool(feature)))
    if feature:
        names = about(report, feature)
        if not names and (found := open_here(settings, package, feature)):
            report = only(report, ())
            settings.emit(render_json(report) if settings.format == "json" else found)
            return Exit.DONE
        if not names:
            raise _unknown(package, feature, [module.name for module in report.modules])
        report = only(report, names)
    if settings.format == "json":
        settings.emit(render_json(report))
    else:
        brief = not feature and not everything
        settings.emit(render_summary(report) if brief else render_why(report))
    return Exit.DONE


def open_here(settings: Settings, name: str, feature: str) -> str:
    """The answer for a feature that nothing excludes the target from; "" when there is none."""
    from patcher.commands.inplace import in_place
    from patcher.package.environment import find_environment
    from patcher.package.find import find_package
    from patcher.profiles import profile_for
    from patcher.toolchain.find import find_toolkit

    environment = find_environment(settings.python, settings.root)
    package = find_package(name, environment)
    toolkit, profile = find_toolkit(settings.cuda, environment), profile_for(package)
    modules = profile.modules(package, toolkit)
    found = [module.name for module in modules if module.name == feature] or [
        module.name for module in modules
        if any(feature in (function.name, function.name.rpartition(".")[2])
               for function in profile.functions_of(package, module))]
    if not found:
        return ""
    targets = ", ".join(dict.fromkeys(
        profile.resolve_target(device, package, toolkit).target.name for device in settings.arch))
    lines = [f"{', '.join(found)}: nothing excludes {targets}"]
    applied = in_place(settings, package, toolkit)
    lines += [f"  applied here: {group}" for group in dict.fromkeys(
        group for module in found for group in applied.get(module, ()))]
    lines += [f"  applied here, for modules that are not known: {group}"
              for group in applied.get("", ())]
    return "\n".join([*lines, settings.again("next: sm-patch status")])


def _unknown(package: str, feature: str, known: list[str]) -> UsageError:
    """A slip of the pen must not read as if nothing were closed."""
    return UsageError(
        f"{package} has no module or public function {feature!r}, and no closed kernel or flag",
        next_step=did_you_mean(feature, known)
        or f"features with findings: {', '.join(known[:8])}, ...; all: sm-patch why {package}")


def _is_path(topic: str) -> bool:
    from pathlib import Path

    return Path(topic).exists()
