"""The published JSON Schema: made from the loader's classes, and saying the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from patcher.errors import SchemaError
from patcher.patchset.jsonschema import json_schema
from patcher.patchset.load import parse_patchset
from patcher.patchset.shipped import shipped
from tests.patchset.test_load import EXAMPLE, MINIMAL

jsonschema = pytest.importorskip("jsonschema")
PUBLISHED = Path(__file__).resolve().parents[2] / "patchsets" / "schema.json"


def errors(document: Any) -> list[str]:
    validator = jsonschema.Draft202012Validator(json_schema())
    return [error.message for error in validator.iter_errors(document)]


def test_the_published_file_is_the_generated_one() -> None:
    """Write it anew with: python -m tests.patchset.test_jsonschema"""
    assert json.loads(PUBLISHED.read_text("utf-8")) == json_schema()
    jsonschema.Draft202012Validator.check_schema(json_schema())


@pytest.mark.parametrize("text", [EXAMPLE, MINIMAL, *(
    path.read_text("utf-8") for path in shipped().values())])
def test_what_the_loader_takes_the_schema_takes(text: str) -> None:
    assert not errors(yaml.safe_load(text))


@pytest.mark.parametrize("change", [
    ("sm-patch: 1", "sm-patch: 2"), ("id: one", "id: One"), ("package: mini\n", ""),
    ("mini/new.txt", "/new.txt"), ("mini/new.txt", "mini/../new.txt"), ("create:", "creat:"),
    ("id: one", "id: one\n    risk: huge"), ("id: one", "id: one\n    sumary: x"),
])
def test_what_it_refuses_the_loader_refuses(change: tuple[str, str]) -> None:
    text = MINIMAL.replace(*change)
    assert errors(yaml.safe_load(text))
    with pytest.raises(SchemaError):
        parse_patchset(text.encode(), "test.yaml")


if __name__ == "__main__":
    PUBLISHED.write_text(json.dumps(json_schema(), indent=1) + "\n", "utf-8")
