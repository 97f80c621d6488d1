"""Commands to type next, with the places that this invocation was given.

``sm-patch status --root /mnt/image`` must not end in a ``sm-patch apply`` that would
change another environment, so what was typed of these options is repeated after the verb
of every command that a text names. ``pip install`` is one, too.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from functools import cache

import click

from patcher.commands import VERBS

# Where, and for what: options of that name mean the same on every verb.
REPEATED = ("arch", "cuda", "root", "python", "state", "env_from", "group")
Given = Mapping[str, Sequence[str]]

_COMMAND = re.compile(r"(?<![\w/.-])sm-patch (?P<verb>[a-z]+)(?P<sub> (?:list|invalidate)\b)?"
                      r"(?![\w-]|\.\w)")
# pip's lines for the examined packages, not those that complete this program
_PIP = re.compile(r"(?<![\w/.-])pip(?= (?:un)?install (?!'?sm-patch))")


def given(context: click.Context) -> Given:
    """What the user typed of these options; what came from a variable or a default is not."""
    typed = click.core.ParameterSource.COMMANDLINE
    found = {name: context.params.get(name) for name in REPEATED
             if context.get_parameter_source(name) is typed}
    return {name: (value,) if isinstance(value, str) else tuple(value or ())
            for name, value in found.items()}


def again(text: str, options: Given) -> str:
    """The text, each command in it with those of the options that its verb takes."""
    if not options:
        return text
    if python := options.get("python"):
        text = _PIP.sub(lambda _: " ".join(["pip", *_words("--python", python)]), text)
    return "\n".join(_line(line, options) for line in text.split("\n"))


def _line(line: str, options: Given) -> str:
    def completed(match: re.Match[str]) -> str:
        taken = _options_of(match["verb"], (match["sub"] or "").strip())
        typed = set(line[match.end():].split())
        words = [word for name, flag in taken.items() if name in options and flag not in typed
                 for word in _words(flag, options[name])]
        return " ".join([match[0], *words])
    return _COMMAND.sub(completed, line)


def _words(flag: str, values: Sequence[str]) -> Iterator[str]:
    for value in values:
        yield from (flag, shlex.quote(value))


@cache
def _options_of(verb: str, sub: str) -> Mapping[str, str]:
    """The repeated options that a verb takes, by name; none for what is no verb."""
    if verb not in VERBS:
        return {}
    command = VERBS[verb].load()
    if isinstance(command, click.Group):
        command = command.commands.get(sub, command)
    flags = {str(option.name): option.opts[0] for option in command.params}
    return {name: flags[name] for name in REPEATED if name in flags}
