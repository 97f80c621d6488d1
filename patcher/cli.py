"""The command line: a group that imports a verb only on use, and the one place of exit codes."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence
from contextlib import suppress

import click

from patcher import __version__
from patcher.commands import VERBS, examples
from patcher.errors import Exit, PatcherError, SchemaError, UsageError, output_errors
from patcher.room import roomy

_SCREEN = 40  # lines
_COMPLETE = "_SM_PATCH_COMPLETE"  # set by the shell that asks for completions
_EPILOG = """\b
Completion, in a shell's start-up file (or zsh_source, fish_source):
  eval "$(_SM_PATCH_COMPLETE=bash_source sm-patch)\""""
_BROKEN_PIPE = 141  # what a shell reports for a program ended by SIGPIPE


class LazyGroup(click.Group):
    """Looks verbs up in the table; ``--help`` reads the table's summaries and imports nothing."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        verb = VERBS.get(cmd_name)
        if verb is None:
            return None
        command = verb.load()
        command.epilog = "\b\nExamples:\n" + "\n".join(f"  {line}" for line in examples(cmd_name))
        return command

    def resolve_command(self, ctx: click.Context, args: list[str]
                        ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click does, but a verb that is none gets its nearest ones named."""
        verb = args[0]
        if verb in VERBS or ctx.resilient_parsing or verb.startswith("-"):
            return super().resolve_command(ctx, args)
        import difflib

        near = difflib.get_close_matches(verb, VERBS, 2) or ["--help"]
        raise UsageError(f"no such verb: {verb}",
                         next_step=" or ".join(f"sm-patch {word}" for word in near))

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Verbs"):
            formatter.write_dl([(name, verb.summary) for name, verb in VERBS.items()])


@click.group("sm-patch", cls=LazyGroup, epilog=_EPILOG,
             context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="sm-patch %(version)s")
def app() -> None:
    """See what keeps SM120 and SM121 out of an installed package, review the change that
    opens it, apply it, see whether it is in effect, and undo it."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code; the console script exits with it.

    A verb returns an Exit (None means DONE) or raises. Expected errors become one line
    on stderr with the next step below it; anything else is a bug and leaves a log.
    """
    _open_streams()
    if instruction := os.environ.get(_COMPLETE):
        return _complete(instruction)
    try:
        outcome = _run(sys.argv[1:] if arguments is None else list(arguments))
        with output_errors("stdout"):
            sys.stdout.flush()
    except PatcherError as error:
        return _report(error)
    except click.exceptions.Exit as error:
        return error.exit_code
    except click.ClickException as error:
        with suppress(OSError):  # the exit code says it too
            error.show()
        return Exit.USAGE
    except (KeyboardInterrupt, click.Abort) as error:
        by = f" by {error}" if str(error) else ""
        click.echo(f"sm-patch: interrupted{by}", err=True)
        return Exit.INTERRUPTED
    except BrokenPipeError:
        _stop_output()
        return _BROKEN_PIPE
    except Exception as error:  # noqa: BLE001 - the one place where a bug becomes exit code 70
        return _report_bug(error)
    return outcome if isinstance(outcome, int) else Exit.DONE


def _run(arguments: list[str]) -> object:
    """A verb's outcome. Click's own ``main`` would call a reader that goes away a failed check."""
    with app.make_context("sm-patch", arguments) as context:
        return roomy(lambda: app.invoke(context))


def _complete(instruction: str) -> int:
    """Answer a shell's question, or print the script that makes it ask."""
    from click.shell_completion import shell_complete

    return shell_complete(app, {}, "sm-patch", _COMPLETE, instruction)


def _open_streams() -> None:
    """Give closed streams a place to go: a file opened later must never get their numbers."""
    while (handle := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(handle)
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
    if isinstance(sys.stdout, io.TextIOWrapper):  # data: a diff's bytes, whatever the locale
        sys.stdout.reconfigure(encoding="utf-8", errors="surrogateescape")


def _stop_output() -> None:
    """Python flushes stdout once more at exit; point it somewhere that accepts it."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _report(error: PatcherError) -> int:
    place = f"{error.where}: " if error.where else ""
    with suppress(OSError):
        if isinstance(error, SchemaError) and len(error.problems) > 1:
            _list_problems(error, place)
        else:
            click.echo(f"sm-patch: {place}{error.what}", err=True)
        if error.next_step:
            click.echo(f"  next: {error.next_step}", err=True)
    if error.where == "stdout":
        _stop_output()
    return error.exit_code


def _list_problems(error: SchemaError, place: str) -> None:
    """One line each; a document that is nothing but errors is not worth more than a screen."""
    click.echo(f"sm-patch: {place}{len(error.problems)} errors", err=True)
    for problem in error.problems[:_SCREEN]:
        click.echo(f"  {problem}", err=True)
    if len(error.problems) > _SCREEN:
        click.echo(f"  and {len(error.problems) - _SCREEN} more", err=True)


def _report_bug(error: Exception) -> int:
    import platform
    import tempfile
    import traceback

    with tempfile.NamedTemporaryFile(
        "w", prefix="sm-patch-", suffix=".log", delete=False, encoding="utf-8"
    ) as log:
        log.write(f"sm-patch {__version__}, Python {platform.python_version()}\n")
        log.write(f"arguments: {sys.argv[1:]}\n\n")
        traceback.print_exception(error, file=log)
    click.echo(f"sm-patch: internal error: {type(error).__name__}: {error}", err=True)
    click.echo(f"  next: report it with {log.name}", err=True)
    return Exit.INTERNAL


if __name__ == "__main__":
    sys.exit(main())
