"""Text in lines as wide as what shows them."""

from __future__ import annotations

import textwrap

from patcher.report.terminal import columns


def wrap(text: str, lead: str = "", hang: str | None = None) -> list[str]:
    """Lines of at most the terminal's width, in a pipe 80; ``lead`` begins the first, ``hang``
    (else as many spaces) the others. Paths and commands are never broken."""
    return textwrap.wrap(" ".join(text.split()), columns(), initial_indent=lead,
                         subsequent_indent=" " * len(lead) if hang is None else hang,
                         break_long_words=False, break_on_hyphens=False) or [lead.rstrip()]
