"""The page: template, style, script and data as one file that needs no network."""

from __future__ import annotations

import base64
import hashlib
import html
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_HERE = Path(__file__).resolve().parent
_SCRIPTS = ("dom", "data", "state", "worlds", "source", "chain", "diff", "lists", "modules",
            "gates", "detail", "patches", "main")
_ESCAPES = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028",
            "\u2029": "\\u2029"}


def render_page(title: str, answer: str, parts: Mapping[str, Any]) -> str:
    """``parts``: any of ``scan``, ``patches`` and ``proof``. ``answer`` is the first line."""
    style = _read("style.css")
    script = "".join(_read(f"{name}.js") for name in _SCRIPTS)
    policy = ("default-src 'none'; base-uri 'none'; form-action 'none'; "
              f"style-src '{_digest(style)}'; script-src '{_digest(script)}'")
    holes = {
        "policy": policy, "title": html.escape(title), "answer": html.escape(answer),
        "style": style, "script": script,
        "data": _data({"title": title, "answer": answer, **parts}),
    }
    pieces = _read("page.html").split("@@")  # text, hole, text, hole, ..., text
    page = "".join(holes[piece] if n % 2 else piece for n, piece in enumerate(pieces))
    return page.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _data(values: Mapping[str, Any]) -> str:
    """JSON in which nothing can end the script element that holds it."""
    text = json.dumps(values, ensure_ascii=False, separators=(",", ":"))
    for character, escape in _ESCAPES.items():
        text = text.replace(character, escape)
    return text


def _digest(text: str) -> str:
    """The source expression that allows exactly this inline text."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _read(name: str) -> str:
    return (_HERE / name).read_text("utf-8")
