"""Text in lines of at most 80 columns."""

from __future__ import annotations

import textwrap

WIDTH = 80


def wrap(text: str, lead: str = "") -> list[str]:
    """Lines of at most 80 columns; ``lead`` begins the first, blanks the others."""
    body = " ".join(text.split())
    return textwrap.wrap(body, WIDTH, initial_indent=lead, subsequent_indent=" " * len(lead),
                         break_long_words=False, break_on_hyphens=False) or [lead.rstrip()]
