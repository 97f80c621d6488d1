"""The command lines of nvcc's steps, learned from nvcc itself by ``--dryrun``.

One device pass is preprocess (the host compiler), cicc, ptxas. Taking the steps
apart lets the preprocessed text be compared, hashed, cached and sent to another
machine; everything after it reads nothing but that text.
"""

from __future__ import annotations

import re
import shlex
import tempfile
from dataclasses import dataclass
from pathlib import Path

from patcher.arch import Target
from patcher.cuda.model import Configuration
from patcher.cuda.predefined import flag_macros
from patcher.errors import ToolFailed
from patcher.verify.execute import run_tool

QUICK_FLAGS = ("-Xcicc", "-O0")
_NOT_FOR_CODE = ("-std", "--std", "-M", "--generate-", "--dependency", "--threads", "-t=",
                 "-gencode", "--generate-code", "-arch", "-code")
_DRY_RUN_SECONDS = 60
# gcc would else name system headers by where links lead: out of the shadow
_PLAIN_PATHS = ("-Xcompiler", "-fno-canonical-system-headers")
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
        *_PLAIN_PATHS,
    )


def code_flags(configuration: Configuration) -> tuple[str, ...]:
    """The flags that decide what is made of the text; none of them names a path."""
    kept = (f for f in configuration.flags if not f.startswith(_NOT_FOR_CODE))
    return (*kept, f"-std={configuration.std}")


@dataclass(frozen=True, slots=True)
class Steps:
    """How nvcc would turn ``INPUT`` (preprocessed text) into ``OUTPUT`` (PTX).

    ``arguments`` holds the literal words CICC (the program), INPUT, OUTPUT and
    SCRATCH (a prefix for temporary files) where the caller's paths go.
    """

    arguments: tuple[str, ...]

    def command(self, cicc: str, source: Path, output: Path, scratch: Path) -> list[str]:
        words = {"CICC": cicc, "INPUT": str(source), "OUTPUT": str(output),
                 "SCRATCH": str(scratch)}
        return [words.get(a, a) for a in self.arguments]


def device_steps(nvcc: Path, target: Target, flags: tuple[str, ...], *, quick: bool) -> Steps:
    """The cicc step for a target, from ``nvcc --dryrun``.

    Raises ToolFailed when nvcc refuses the target or the flags.
    """
    lines = _dry_run(nvcc, target, (*flags, "-lineinfo", *(QUICK_FLAGS if quick else ())))
    for words in lines:
        if words and words[0].endswith("/cicc"):
            return Steps(("CICC", *_placeholders(words)[1:]))
    raise ToolFailed(f"nvcc names no cicc step for {target.name}", where=str(nvcc))


def host_command(nvcc: Path, target: Target, flags: tuple[str, ...], unit: Path) -> list[str]:
    """The preprocessor of the host pass, which never sees ``__CUDA_ARCH__``.

    Raises ToolFailed when nvcc refuses the target or the flags.
    """
    for words in _dry_run(nvcc, target, flags, str(unit)):
        if "-E" in words and not any(w.startswith("-D__CUDA_ARCH__=") for w in words):
            last = words.index("-o") if "-o" in words else len(words)
            return words[:last]
    raise ToolFailed("nvcc names no host pass", where=str(nvcc))


def _dry_run(nvcc: Path, target: Target, flags: tuple[str, ...],
             unit: str = "unit.cu") -> list[list[str]]:
    """The commands that nvcc would run, as words, its own variables put in."""
    goal = "-ptx" if unit == "unit.cu" else "-c"
    command = [str(nvcc), "--dryrun", *flags, target.gencode, goal, unit]
    run = run_tool(command, Path(tempfile.gettempdir()), _DRY_RUN_SECONDS)
    variables: dict[str, str] = {}
    found = []
    for line in run.messages.splitlines():
        if assignment := _ASSIGNMENT.match(line):
            variables[assignment[1]] = assignment[2].strip()
        elif line.startswith("#$ "):
            found.append(shlex.split(_VARIABLE.sub(lambda m: variables.get(m[1], ""), line[3:])))
    if found and not run.code:
        return found
    reason = run.problem or (run.messages.strip().splitlines() or ["no steps"])[-1]
    raise ToolFailed(f"nvcc cannot build for {target.name}: {reason}", where=str(nvcc),
                     next_step="a newer CUDA toolkit may know it: --cuda PATH")


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
