"""Reports made by hand: many gates, or gates whose every word is hostile."""

from __future__ import annotations

from pathlib import Path

from patcher.arch import ArchSet, target
from patcher.gates import Cause, Effect, Evidence, Gate, Layer, Location, Severity, Worlds
from patcher.scan.model import (
    LayerState,
    ModuleReport,
    Opening,
    OpensAlone,
    PackageRow,
    Report,
    ToolchainRow,
)

HOSTILE = (
    "</script><script>document.title='broken'</script>",
    '"><img src=x onerror="document.title=\'broken\'">',
    "<!--<script>", "\u2028\u2029", "\u202etxt.exe", "{{constructor}}", "&lt;b&gt;",
    "'';!--\"<XSS>",
    "javascript:document.title='broken'",
)
OPEN, SHUT = ArchSet.of("sm_90a", "sm_100a"), ArchSet.of("sm_120", "sm_120a", "sm_121a")


def gate(path: str, line: int, condition: str = "__CUDA_ARCH__ < 1200", **more: object) -> Gate:
    """A guard that leaves 12.x out."""
    values: dict[str, object] = {
        "layer": Layer.PREPROCESSOR, "rule": "arm", "location": Location(path, line, line + 4),
        "condition": condition, "worlds": Worlds(OPEN, SHUT), "excludes_target": True,
        "effect": Effect.KERNEL_BODY, "cause": Cause.SOFTWARE, "severity": Severity.CRITICAL,
        "lines": (line,), "within": f"kernel_{line}", "id": f"PR-{abs(hash((path, line))):012x}",
        **more}
    return Gate(**values)  # type: ignore[arg-type]


def report(gates: list[Gate], modules: list[ModuleReport] | None = None,
           package: str = "made") -> Report:
    """A report of one package on sm_120a."""
    return Report(
        (PackageRow(package, "1.0", Path("/nowhere")),), (target("sm_120a"),), (),
        (target("sm_90a"), target("sm_100a")), ToolchainRow("13.0", None, True), tuple(gates),
        tuple(modules if modules is not None else [module("m", gates)]), unit_count=1, file_count=1)


def module(name: str, gates: list[Gate], functions: tuple[str, ...] = ()) -> ModuleReport:
    """A module that these gates close."""
    states = tuple(LayerState(layer, len(gates) if layer is Layer.PREPROCESSOR else 0,
                              f"state of {name}") for layer in Layer)
    return ModuleReport(name, states, (), tuple(g.id for g in gates), functions)


def hostile() -> Report:
    """A report in which whatever a package decides is an attack."""
    gates = [
        gate(f"src/{text}.cuh", n + 1, text, within=text, names=(text,), units=(text,),
             modules=(text,), via=(f"{text}.cu", f"src/{text}.cuh"), id=f"PR-{n}",
             evidence=(Evidence(text, 1, text),), decided_by=(text,), opened_by=text)
        for n, text in enumerate(HOSTILE)]
    modules = [ModuleReport(
        one.within, tuple(LayerState(layer, 1, one.within) for layer in Layer),
        (OpensAlone(one.id, Opening.HOLLOW, one.within, (one.within,)),), (one.id,),
        (one.within,), (one.within,), one.within) for one in gates]
    return report(gates, modules, package=HOSTILE[0])
