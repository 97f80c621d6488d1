"""Text that a terminal shows and does not obey: nobody vouches for the names of files."""

from __future__ import annotations

import re

# Control characters but tab and line feed; marks that change the direction of text.
_OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069"
                     "\udc80-\udc9f]")


def printable(text: str) -> str:
    """The text with everything that steers a terminal written out (``\\x1b``)."""
    return _OBEYED.sub(lambda match: match[0].encode("unicode_escape").decode("ascii"), text)
