"""Text in lines as wide as what shows them."""

from __future__ import annotations

import textwrap

from patcher.report.terminal import columns


def wrap(text: str, lead: str = "") -> list[str]:
    """Lines of at most the terminal's width, in a pipe 80; ``lead`` begins the first."""
    body = " ".join(text.split())
    return textwrap.wrap(body, columns(), initial_indent=lead, subsequent_indent=" " * len(lead),
                         break_long_words=False, break_on_hyphens=False) or [lead.rstrip()]
