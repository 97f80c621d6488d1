"""The command lines of nvcc's steps, learned from nvcc itself by ``--dryrun``.

One device pass is preprocess (the host compiler), cicc, ptxas. Taking the steps
apart lets the preprocessed text be compared, hashed, cached and sent to another
machine; everything after it reads nothing but that text.

nvcc runs its steps through a shell, so a file name or a macro of a package could run a
program: nvcc itself is only ever asked what it would do, with stand-ins for such words.
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
from patcher.profiles.partial.values import HOLE
from patcher.verify.execute import run_tool

QUICK_FLAGS = ("-Xcicc", "-O0")
_NOT_FOR_CODE = ("-std", "--std", "-M", "--generate-", "--dependency", "--threads", "-t=",
                 "-gencode", "--generate-code", "-arch", "-code")
_DRY_RUN_SECONDS = 60
# gcc would else name system headers by where links lead: out of the shadow
_PLAIN_PATHS = ("-Xcompiler", "-fno-canonical-system-headers")
_ASSIGNMENT = re.compile(r"#\$ (\w+)=(.*)$")
_VARIABLE = re.compile(r"\$(\w+)")
_PLAIN_WORD = re.compile(r"[\w./=+:,%-]*", re.A)
_STAND_IN = re.compile(r"smpatch\d+word")
# All flags that may reach a compiler: others could load a program or write a file somewhere
_SAFE = re.compile(r"""
    -O\d | -[Ggw] | -lineinfo | --?device-debug | -Wno-[\w-]+ | --threads=\d+
    | --?(?:use_fast_math|fmad|ftz|prec-div|prec-sqrt|rdc|relocatable-device-code
           |static-global-template-stub|compress-mode|maxrregcount|split-compile)(?:=\w+)?
    | --?(?:expt-[\w-]+ | extended-lambda | default-stream[=\w-]*)
    | --?(?:diag-\w+ | diag_\w+)=[\w,-]+
    | (?:-Xfatbin|-Xptxas|--ptxas-options|-Xcicc|-Xnvlink|-Xcudafe|-Xlinker)=
      (?!.*(?:output|-o\b|file))[\w=,-]+
    | (?:-Xcompiler|--compiler-options)=(?:,?(?:-O\w* | -g\d? | -w | -W[\w=-]+ | -m[\w=-]+
      | -pthread | -f(?!plugin|dump|profile|auto-profile|lto|use-)[\w=-]+))+
""", re.X)
_TAKES_WORD = ("-Xfatbin", "-Xptxas", "-Xcicc", "-Xnvlink", "-Xcudafe", "-Xlinker", "-Xcompiler",
               "--ptxas-options", "--compiler-options", "-maxrregcount", "--maxrregcount",
               "-diag-suppress", "--diag-suppress")


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
    """The flags that decide what is made of the text; none of them names a path.

    Raises ToolFailed for a flag that is not known to be harmless: a package could name it.
    """
    kept, words = list[str](), iter(configuration.flags)
    for flag in words:
        if flag in _TAKES_WORD:
            flag = f"{flag}={next(words, '')}"
        if not flag or flag.startswith(_NOT_FOR_CODE):
            continue
        if HOLE in flag:
            raise ToolFailed("a flag of this unit is only known when it is built",
                             where=configuration.id)
        if not _SAFE.fullmatch(flag):
            raise ToolFailed(f"the flag {flag!r} is not one that we pass to a compiler: it might "
                             "run or write something", where=configuration.id)
        kept.append(flag)
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


def device_command(nvcc: Path, target: Target, flags: tuple[str, ...], unit: Path) -> list[str]:
    """The device pass's preprocessor. Plain ``-arch`` would run another pass: never used.

    Raises ToolFailed when nvcc refuses the target or the flags.
    """
    for words in _dry_run(nvcc, target, flags, str(unit), "-E"):
        if any(w.startswith("-D__CUDA_ARCH__=") for w in words):
            return words
    raise ToolFailed(f"nvcc names no device pass for {target.name}", where=str(nvcc))


def host_command(nvcc: Path, target: Target, flags: tuple[str, ...], unit: Path) -> list[str]:
    """The preprocessor of the host pass, which never sees ``__CUDA_ARCH__``.

    Raises ToolFailed when nvcc refuses the target or the flags.
    """
    for words in _dry_run(nvcc, target, flags, str(unit), "-c"):
        if "-E" in words and not any(w.startswith("-D__CUDA_ARCH__=") for w in words):
            last = words.index("-o") if "-o" in words else len(words)
            return words[:last]
    raise ToolFailed("nvcc names no host pass", where=str(nvcc))


def _dry_run(nvcc: Path, target: Target, flags: tuple[str, ...],
             unit: str = "unit.cu", goal: str = "-ptx") -> list[list[str]]:
    """The commands that nvcc would run, as words, its own variables put in.

    Words with odd characters are put in afterwards.
    """
    odd: dict[str, str] = {}
    *plain, source = (_stand_in(word, odd) for word in (*flags, unit))
    command = [str(nvcc), "--dryrun", *plain, target.gencode, goal, source]
    run = run_tool(command, Path(tempfile.gettempdir()), _DRY_RUN_SECONDS)
    variables: dict[str, str] = {}
    found = []
    for line in run.messages.splitlines():
        if assignment := _ASSIGNMENT.match(line):
            variables[assignment[1]] = assignment[2].strip()
        elif line.startswith("#$ "):
            words = shlex.split(_VARIABLE.sub(lambda m: variables.get(m[1], ""), line[3:]))
            found.append([_STAND_IN.sub(lambda m: odd[m[0]], word) for word in words])
    if found and not run.code:
        return found
    reason = run.problem or (run.messages.strip().splitlines() or ["no steps"])[-1]
    raise ToolFailed(f"nvcc cannot build for {target.name}: {reason}", where=str(nvcc),
                     next_step="a newer CUDA toolkit may know it: --cuda PATH")


def _stand_in(word: str, odd: dict[str, str]) -> str:
    """A word as nvcc may see it; what it stands for is kept in ``odd``."""
    if _PLAIN_WORD.fullmatch(word):
        return word
    before = word[:2] if word.startswith(("-D", "-I")) else ""
    after = ".cu" if word.endswith(".cu") else ""
    name = f"smpatch{len(odd)}word"
    odd[name] = word[len(before):len(word) - len(after)]
    return f"{before}{name}{after}"


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
