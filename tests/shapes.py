"""Which shapes the generated cases of property tests had: counted, and printed at the end.

``SM_PATCH_EXAMPLES=2000`` makes thousands of cases of what is a few dozen otherwise.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping

import pytest

SEEN: dict[str, Counter[str]] = {}


def examples(usual: int) -> int:
    """How many cases to generate."""
    return int(os.environ.get("SM_PATCH_EXAMPLES", usual))


def seen(what: str, *shapes: str) -> None:
    """Count a case of a property under each of its shapes."""
    counts = SEEN.setdefault(what, Counter())
    counts["cases"] += 1
    counts.update(set(shapes))


def matching(text: str, patterns: Mapping[str, str]) -> list[str]:
    """The shapes whose pattern is found in a generated text."""
    return [name for name, pattern in patterns.items() if re.search(pattern, text)]


@pytest.fixture(scope="module", autouse=True)
def printed_shapes(request: pytest.FixtureRequest) -> Iterator[None]:
    """Import it into a module of properties to have its counts printed."""
    SEEN.clear()
    yield
    capture = request.config.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled():
        for what, counts in SEEN.items():
            cases = counts.pop("cases")
            shown = ", ".join(f"{shape} {count}" for shape, count in counts.most_common())
            print(f"\n{what}: {cases} cases; {shown}", end="")
    SEEN.clear()
