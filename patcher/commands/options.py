"""Options that mean the same on every verb that takes them, and the value they make.

A verb names the ones it takes and gets them folded into one frozen ``Settings``::

    @click.command("scan")
    @click.argument("packages", nargs=-1, required=True)
    @common("arch", "reference", "cuda", "root", "python", "format", "output", "jobs")
    def command(settings: Settings, packages: tuple[str, ...]) -> Exit: ...
"""

from __future__ import annotations

import functools
import json
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click

from patcher.commands.again import Given, again, given
from patcher.commands.completion import groups, targets
from patcher.commands.printable import printable
from patcher.errors import PatcherError, output_errors
from patcher.report.terminal import is_terminal, paint_diff, shown, wants_colour

_DEFAULT_REFERENCES = ("sm_90a", "sm_100a")


@dataclass(frozen=True, slots=True)
class Settings:
    """The common options of one invocation, as typed; resolving them is the verb's work.

    ``given`` are those that a next command must repeat (see ``commands/again.py``);
    ``talk`` hears what is said besides the data, in place of stderr.
    """

    arch: tuple[str, ...] = ("auto",)
    reference: tuple[str, ...] = _DEFAULT_REFERENCES
    cuda: str | None = None
    root: str | None = None
    python: str | None = None
    group: tuple[str, ...] = ()
    format: str = "text"
    output: str | None = None
    jobs: int = 1
    state: str | None = None
    env_from: str | None = None
    given: Given = field(default_factory=dict)
    talk: Callable[[str], None] | None = None

    def again(self, text: str) -> str:
        """The text, its commands with the options that this one was given."""
        return again(text, self.given)

    def tell(self, text: str) -> None:
        """Say something on stderr."""
        if self.talk is not None:
            self.talk(text)
        else:
            said = printable(self.again(text))  # in a log one message stays one line
            click.echo(shown(said, sys.stderr, answer=False) if is_terminal(sys.stderr) else said,
                       err=True)

    def emit(self, text: str, *, verbatim: bool = False) -> None:
        """Write a verb's data to ``-o FILE``, else to stdout; ``verbatim`` is not talk.

        Raises InputError when the file cannot be written.
        """
        talk = self.format == "text" and not verbatim
        text = printable(self.again(text)) if talk else text
        if self.output is None or self.output == "-":
            if talk:
                text = shown(text, sys.stdout)
            elif text.startswith(("# ", "diff ")) and wants_colour(sys.stdout):
                text = paint_diff(text)
            with output_errors("stdout"):
                click.echo(text, nl=not text.endswith("\n"))
            return
        with output_errors(self.output):
            whole = text if text.endswith("\n") else text + "\n"
            Path(self.output).write_bytes(whole.encode("utf-8", "surrogateescape"))


def split_list(_ctx: click.Context, _param: click.Parameter, value: Any) -> tuple[str, ...]:
    """Accept ``--arch a --arch b`` and ``--arch a,b`` alike."""
    return tuple(part for item in value for part in item.replace(",", " ").split())


def devices(ctx: click.Context, param: click.Parameter, value: Any) -> tuple[str, ...]:
    """As ``split_list``, but a GPU's name may have spaces, as nvidia-smi prints it."""
    if not any(" " in item.strip() for item in value):
        return split_list(ctx, param, value)
    from patcher.profiles.devices import by_name

    parts = [part.strip() for item in value for part in item.split(",")]
    return tuple(word for part in parts
                 for word in ([part] if by_name(part) else part.split()))


def cores(_ctx: click.Context, _param: click.Parameter, value: int | None) -> int:
    """The given number of jobs, else the cores this process may use."""
    return value or len(os.sched_getaffinity(0))


def _option(*names: str, **attributes: Any) -> Callable[[Any], Any]:
    return click.option(*names, **attributes)


_OPTIONS: dict[str, Callable[[Any], Any]] = {
    "arch": _option(
        "--arch",
        metavar="TARGET",
        multiple=True,
        default=("auto",),
        callback=devices,
        shell_complete=targets,
        help="Device, capability or nvcc target (5090, 12.0, sm_120a); repeatable. Default: auto.",
    ),
    "reference": _option(
        "--reference",
        metavar="TARGET",
        multiple=True,
        default=_DEFAULT_REFERENCES,
        callback=split_list,
        shell_complete=targets,
        help="Targets that show what should be open. Default: sm_90a,sm_100a.",
    ),
    "cuda": _option(
        "--cuda",
        metavar="PATH|VERSION",
        help="The CUDA toolkit, or the release to assume. Default: the one found.",
    ),
    "root": _option(
        "--root",
        metavar="DIR",
        help="Use this folder in place of site-packages (an image, an unpacked wheel).",
    ),
    "python": _option(
        "--python",
        metavar="PATH",
        help="Interpreter or venv whose packages are meant. Default: the active one.",
    ),
    "group": _option(
        "--group",
        metavar="ID",
        multiple=True,
        callback=split_list,
        shell_complete=groups,
        help="Only these groups of the patchset; repeatable.",
    ),
    "output": _option("-o", "--output", metavar="FILE", help="Write the data here, not to stdout."),
    "jobs": _option(
        "--jobs",
        metavar="N",
        type=click.IntRange(min=1),
        callback=cores,
        help="Parallel work. Default: the cores this process may use.",
    ),
    "state": _option(
        "--state",
        metavar="DIR",
        envvar="SM_PATCH_STATE",
        help="Where journals and originals are kept. Default: beside the environment.",
    ),
    "env_from": _option(
        "--env-from",
        metavar="pid:N|unit:NAME|file:PATH",
        help="Take HOME and the cache variables of this server instead of ours.",
    ),
}


def common(*names: str, formats: tuple[str, ...] = ("text", "json")) -> Callable[[Any], Any]:
    """Add these options (fields of Settings) to a command; it receives ``settings``."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def wrapper(**values: Any) -> Any:
            chosen = {name: values.pop(name) for name in names}
            settings = Settings(**chosen, given=given(click.get_current_context()))
            try:
                return function(settings=settings, **values)
            except PatcherError as error:
                error.next_step = error.next_step and settings.again(error.next_step)
                if settings.format == "json":
                    _emit_error(settings, error)
                raise

        for name in reversed(names):
            option = _format_option(formats) if name == "format" else _OPTIONS[name]
            wrapper = option(wrapper)
        return wrapper

    return decorate


def _emit_error(settings: Settings, error: PatcherError) -> None:
    """A refusal is data, too: whoever reads JSON gets a document in every case."""
    document = {"version": 1, "error": {
        "kind": type(error).__name__, "exit": int(error.exit_code), "what": error.what,
        "where": error.where, "next": error.next_step}}
    with suppress(PatcherError, OSError):  # the output itself may be what failed
        settings.emit(json.dumps(document, indent=2, sort_keys=True))


def _format_option(formats: tuple[str, ...]) -> Callable[[Any], Any]:
    return click.option(
        "--format", type=click.Choice(formats), default=formats[0], help="How to print the data."
    )
