"""Representative units for two generators that write sources by the hundred.

The CUTLASS instantiations of the fused MoE modules differ only in template
arguments: what they include is one launcher per kind of operation, and one
unit per launcher and architecture stands for them. The fmha_v2 generator
prints kernels from text templates: one unit has the includes of its flash
attention template.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from patcher.profiles.partial import Generated, Interpreter
from patcher.profiles.partial.values import Call, Function, show

_ENABLED = re.compile(r"generate_sm(\d+)_operations$")
_FLASH = "#include <fused_multihead_flash_attention_kernel"
# One of the instances that the generator writes: with it the unit has a kernel to be judged.
_INSTANCES = {("Grouped", 120): """
namespace tensorrt_llm {
namespace kernels {
namespace cutlass_kernels_oss {
INSTANTIATE_TMA_WARP_SPECIALIZED_MOE_GEMM(Sm120, SafeFP4, SafeFP4, half, void, EpilogueOpDefault,
                                          NONE, 128, 128, 128, 1, 1, 1, false, false, false, false);
}
}
}
"""}
_HAS_ARCH = re.compile(r"has_arch\((\d+)\)")


def instantiations(interpreter: Interpreter, call: Call) -> list[Generated]:
    """One unit per launcher that ``generate_gemm_operations`` would instantiate."""
    generator = interpreter.lookup("generate_gemm_operations", call.frame)
    if not isinstance(generator, Function) or not isinstance(generator.node, ast.FunctionDef):
        return []
    folder = show(call.argument(0, "output_dir"))
    asked = set(show(call.argument(1, "architectures")).split(";"))
    launchers = _launchers(generator.node)
    found = {}
    for arch, kind, mixed in _operations(generator, asked):
        files = launchers.get(("", 0) if mixed else (kind, arch), [])
        stem = f"cutlass_kernel_file_{kind.lower()}_sm{arch}{'_Mixed' if mixed else ''}"
        path = f"{folder}/{kind.lower()}/{arch}/{stem}.generated.cu"
        content = "".join(f'#include "{file}"\n' for file in files)
        content += _INSTANCES.get((kind, arch), "") if files and not mixed else ""
        found[path] = Generated(path, content, generator.module.path)
    return list(found.values())


def _operations(generator: Function, asked: set[str]) -> Iterator[tuple[int, str, bool]]:
    """(architecture, kind, mixed input) of each writer that yields operations.

    A writer that is called without the flag of its architecture always does:
    SM80 and SM90 kernels are part of every module.
    """
    for child in ast.walk(generator.node):
        if not isinstance(child, ast.Call) or not isinstance(child.func, ast.Name):
            continue
        match = _ENABLED.match(child.func.id)
        numbers = _HAS_ARCH.findall(ast.unparse(child)) if match else []
        enabled = any(asked & {n, f"{n}-real", f"{n}f", f"{n}f-real"} for n in numbers)
        for writer in _called(generator, child.func.id) if match else ():
            name = ast.unparse(writer.func)
            if enabled or not any("is_arch_enabled" in ast.unparse(a) for a in writer.args):
                grouped = "grouped" in name
                yield (int(match[1]) if match else 0, "Grouped" if grouped else "Gemm",
                       grouped and "mixed" in name)


def _called(generator: Function, name: str) -> list[ast.Call]:
    """The ``generate_*`` calls in a function of the generator's module."""
    return [child for statement in generator.module.bindings.get(name, [])
            for child in ast.walk(statement) if isinstance(child, ast.Call)
            and isinstance(child.func, ast.Name) and child.func.id.startswith("generate_")]


def fmha_v2_unit(interpreter: Interpreter, call: Call) -> Generated | None:
    """A unit with the directives of the flash attention template; None when there is none."""
    function = call.node.func
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    generator = interpreter.lookup(name, call.frame)
    if not isinstance(generator, Function):
        return None
    templates = interpreter.module(f"{generator.module.package}.generator_utils")
    if templates is None:
        return None
    for statement in (s for group in templates.bindings.values() for s in group):
        for node in ast.walk(statement):
            text = node.value if isinstance(node, ast.Constant) else None
            if isinstance(text, str) and _FLASH in text:
                lines = [line for line in text.splitlines()
                         if line.startswith("#include") and "{" not in line]
                folder = f"@generated/{call.frame.function}"
                return Generated(f"{folder}/fmha_v2_flash_attention.cu", "\n".join(lines) + "\n",
                                 templates.path)
    return None


def _launchers(node: ast.FunctionDef) -> dict[tuple[str, int], list[str]]:
    """Launcher headers by (kind, architecture); ("", 0) for the one outside the map."""
    paths: dict[str, str] = {}
    mapped: dict[tuple[str, int], list[str]] = {}
    for statement in node.body:
        if not isinstance(statement, ast.Assign) or not isinstance(statement.targets[0], ast.Name):
            continue
        name, value = statement.targets[0].id, statement.value
        if isinstance(value, ast.Constant) and str(value.value).endswith((".inl", ".cuh", ".h")):
            paths[name] = str(value.value)
        elif isinstance(value, ast.Dict):
            mapped.update(_entries(value, paths))
    used = {file for files in mapped.values() for file in files}
    mapped[("", 0)] = [path for path in paths.values() if path not in used]
    return mapped


def _entries(value: ast.Dict, paths: dict[str, str]) -> dict[tuple[str, int], list[str]]:
    found = {}
    for key, files in zip(value.keys, value.values, strict=True):
        if (isinstance(key, ast.Tuple) and len(key.elts) == 2
                and isinstance(key.elts[0], ast.Attribute) and isinstance(key.elts[1], ast.Constant)
                and isinstance(files, ast.List)):
            names = [paths[f.id] for f in files.elts if isinstance(f, ast.Name) and f.id in paths]
            found[(key.elts[0].attr, int(str(key.elts[1].value)))] = names
    return found
