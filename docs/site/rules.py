"""mkdocs hook: one page for each rule of the scan, out of the data that the scan reads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

RULES = Path(__file__).resolve().parents[2] / "patcher" / "data" / "rules.json"


def page(rule: dict[str, Any]) -> str:
    """The Markdown of one rule."""
    title, meaning, what = rule["title"], rule["means"], rule["do"]
    return "\n".join([
        f"# {rule['id']}", "",
        f"{title[0].upper()}{title[1:]}. Layer: {rule['layer']}.", "",
        "```text", rule["example"], "```", "",
        "## What it means", f"{meaning[0].upper()}{meaning[1:]}.", "",
        "## What to do", f"    {what}" if what.startswith("sm-patch") else what, "",
        f"On the command line: `sm-patch explain {rule['id']}`. [All rules](index.md)", "",
    ])


def index(rules: list[dict[str, Any]]) -> str:
    """The Markdown of the table of all rules."""
    rows = [f"| [{rule['id']}]({rule['id'].lower()}.md) | {rule['layer']} | {rule['title']} |"
            for rule in rules]
    return "\n".join(["# Rules", "", "Every gate of a scan names the rule that found it.", "",
                      "| rule | layer | finds |", "|---|---|---|", *rows, ""])


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages; the event of mkdocs that may."""
    rules = json.loads(RULES.read_text("utf-8"))["rules"]
    pages = {f"{rule['id'].lower()}.md": page(rule) for rule in rules}
    for name, text in {"index.md": index(rules), **pages}.items():
        files.append(File.generated(config, f"rules/{name}", content=text))
    return files
