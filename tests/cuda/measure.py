"""Measure what a host compiler predefines and answers, as patcher/data/host_*.json holds it.

    python -m tests.cuda.measure COMPILER PLATFORM > patcher/data/host_PLATFORM.json
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

STANDARDS = ("c++11", "c++14", "c++17", "c++20", "c++23")
BASE = "c++17"
_ATTRIBUTES = re.findall(r"\w+", """
abi_tag access alias aligned alloc_size always_inline artificial assume assume_aligned
carries_dependency cold const constructor deprecated destructor diagnose_if enable_if error
fallthrough flatten format gnu_inline hot init_priority leaf likely malloc maybe_unused
may_alias mode musttail no_icf no_instrument_function no_sanitize no_sanitize_address
no_stack_protector no_unique_address nodebug nodiscard noinline nonnull noreturn nothrow noipa
nvcc optimize packed pure returns_nonnull section sentinel trivial_abi type_visibility unlikely
unused used vector_size visibility warn_unused_result weak weakref host device global vectorcall
""")
_SCOPES = ("gnu", "clang", "msvc", "nv", "omp", "_Clang")



def preprocess(compiler: str, text: str, std: str, *flags: str) -> str:
    command = [compiler, "-x", "c++", f"-std={std}", "-m64", "-E", *flags, "-"]
    if "aarch64" in compiler:
        command.remove("-m64")
    return subprocess.run(command, input=text, capture_output=True, text=True, check=False).stdout


def macros(compiler: str, std: str) -> dict[str, str]:
    """Name (with its parameters) to body, of everything predefined."""
    lines = preprocess(compiler, "", std, "-dM").splitlines()
    pairs = (re.match(r"#define (\w+(?:\([^)]*\))?) ?(.*)", line) for line in lines)
    return {pair[1]: pair[2] for pair in pairs if pair}


def answers(compiler: str, operator: str, names: list[str], std: str) -> dict[str, int]:
    """The non-zero answers; each question stands between its own #if and #endif."""
    found: dict[str, int] = {}
    lines = []
    for number, name in enumerate(names):
        value = f"{operator}({name})"
        lines += [f"#if {value}", f"@{number} V", "#endif"]
    text = "\n".join(lines)
    yes = [names[int(n)] for n in re.findall(r"^@(\d+) V", preprocess(compiler, text, std), re.M)]
    for name in yes:
        guesses = (200809, 201309, 201603, 201803, 201811, 201907, 202110, 1)
        probe = "\n".join(f"#if {operator}({name}) == {g}\n@{g} V\n#endif" for g in guesses)
        hits = re.findall(r"^@(\d+) V", preprocess(compiler, probe, std), re.M)
        found[name] = int(hits[0])
    return found


def builtin_names(compiler: str) -> list[str]:
    """Every identifier in the compiler itself that could be a builtin's name."""
    binary = subprocess.run([compiler, "-print-prog-name=cc1plus"], capture_output=True,
                            text=True, check=True).stdout.strip()
    content = Path(binary).read_bytes()
    words = set(re.findall(rb"(?<![\w.])_*[a-z][A-Za-z0-9_]{2,60}(?=\0)", content))
    plain = {w.decode() for w in words}
    names = plain | {f"__builtin_{w}" for w in plain if not w.startswith("_")}
    names |= set(re.findall(r"__\w+", content.decode("latin-1")))
    return sorted(n for n in names if n.isidentifier() and n.isascii())


def has_builtin(compiler: str, std: str) -> list[str]:
    names = builtin_names(compiler)
    lines = (f"#if __has_builtin({name})\n@{n} V\n#endif" for n, name in enumerate(names))
    text = preprocess(compiler, "\n".join(lines), std)
    return [names[int(n)] for n in re.findall(r"^@(\d+) V", text, re.M)]


def measure(compiler: str, platform: str) -> dict[str, object]:
    base = macros(compiler, BASE)
    standards: dict[str, dict[str, str | None]] = {}
    for std in STANDARDS:
        mine = macros(compiler, std)
        changed: dict[str, str | None] = {k: v for k, v in mine.items() if base.get(k) != v}
        standards[std] = changed | {k: None for k in base if k not in mine}
    scoped = [f"{scope}::{name}" for scope in _SCOPES for name in _ATTRIBUTES]
    spelled = _ATTRIBUTES + scoped
    version = subprocess.run([compiler, "--version"], capture_output=True, text=True,
                             check=True).stdout.splitlines()[0]
    return {
        "source": f"{version}: -dM -E, and one #if per question",
        "platform": platform,
        "macros": base,
        "standards": standards,
        "has_attribute": answers(compiler, "__has_attribute", spelled, BASE),
        "has_cpp_attribute": answers(compiler, "__has_cpp_attribute", spelled, BASE),
        "has_builtin": has_builtin(compiler, BASE),
    }


if __name__ == "__main__":
    json.dump(measure(sys.argv[1], sys.argv[2]), sys.stdout, indent=1, sort_keys=True)
    print()
