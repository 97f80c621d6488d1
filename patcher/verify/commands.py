"""The command lines of nvcc's steps, learned from nvcc itself by ``--dryrun``.

One device pass is preprocess (the host compiler), cicc, ptxas. Taking the steps
apart lets the preprocessed text be compared, hashed, cached and sent to another
machine; everything after it reads nothing but that text.
"""

from __future__ import annotations

import re
import shlex
import subprocess
from dataclasses import dataclass
from pathlib import Path

from patcher.arch import Target
from patcher.cuda.model import Configuration
from patcher.cuda.predefined import flag_macros
from patcher.errors import ToolFailed

QUICK_FLAGS = ("-Xcicc", "-O0")
_NOT_FOR_CODE = ("-std", "--std", "-M", "--generate-", "--dependency", "--threads", "-t=",
                 "-gencode", "--generate-code", "-arch", "-code")
_ASSIGNMENT = re.compile(r"#\$ (\w+)=(.*)$")
_VARIABLE = re.compile(r"\$(\w+)")


def front_flags(configuration: Configuration) -> tuple[str, ...]:
    """The flags that decide the preprocessed text, in the order the package gives them."""
    implied = dict(flag_macros(configuration.flags))  # nvcc defines these itself
    defines = [(n, v) for n, v in configuration.defines if implied.get(n) != v]
    return (
        *(f"-D{name}={value}" if value else f"-D{name}" for name, value in defines),
        *(f"-I{folder}" for folder in configuration.include),
        *(part for folder in configuration.system for part in ("-isystem", folder)),
        *code_flags(configuration),
    )


def code_flags(configuration: Configuration) -> tuple[str, ...]:
    """The flags that decide what is made of the text; none of them names a path."""
    kept = (f for f in configuration.flags if not f.startswith(_NOT_FOR_CODE))
    return (*kept, f"-std={configuration.std}")


@dataclass(frozen=True, slots=True)
class Steps:
    """How nvcc would turn ``INPUT`` (preprocessed text) into ``OUTPUT`` (PTX).

    ``arguments`` holds the literal words INPUT, OUTPUT and SCRATCH (a prefix for
    temporary files) where the caller's paths go.
    """

    arguments: tuple[str, ...]

    def command(self, source: Path, output: Path, scratch: Path) -> list[str]:
        words = {"INPUT": str(source), "OUTPUT": str(output), "SCRATCH": str(scratch)}
        return [words.get(a, a) for a in self.arguments]


def device_steps(nvcc: Path, target: Target, flags: tuple[str, ...], *, quick: bool) -> Steps:
    """The cicc step for a target, from ``nvcc --dryrun``.

    Raises ToolFailed when nvcc refuses the target or the flags.
    """
    extra = QUICK_FLAGS if quick else ()
    command = [str(nvcc), "--dryrun", *flags, *extra, target.gencode, "-ptx", "unit.cu"]
    run = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    variables: dict[str, str] = {}
    for line in run.stderr.splitlines():
        if found := _ASSIGNMENT.match(line):
            variables[found[1]] = found[2].strip()
        elif "/cicc" in line and line.startswith("#$ "):
            words = shlex.split(_VARIABLE.sub(lambda m: variables.get(m[1], ""), line[3:]))
            return Steps(_placeholders(words))
    reason = (run.stderr.strip().splitlines() or ["no cicc step"])[-1]
    raise ToolFailed(
        f"nvcc cannot build for {target.name}: {reason}",
        where=str(nvcc),
        next_step="a newer CUDA toolkit may know it: --cuda PATH",
    )


def _placeholders(words: list[str]) -> tuple[str, ...]:
    replaced = []
    for index, word in enumerate(words):
        if word.endswith(".cpp1.ii"):
            replaced.append("INPUT")
        elif index and words[index - 1] == "-o":
            replaced.append("OUTPUT")
        elif index and words[index - 1] in ("--module_id_file_name", "--include_file_name"):
            replaced.append("SCRATCH")
        else:
            replaced.append(word)
    return tuple(replaced)


def preprocess_command(nvcc: Path, target: Target, flags: tuple[str, ...], unit: Path) -> list[str]:
    """The device pass's preprocessor. Plain ``-arch`` would run another pass: never used."""
    return [str(nvcc), *flags, target.gencode, "-E", str(unit)]
