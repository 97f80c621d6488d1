"""``--used``: the modules in the JIT cache come first, and the cache is only looked at."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from patcher import cli
from patcher.scan.used import is_used

MINI = Path(__file__).resolve().parents[2] / "corpus" / "mini" / "0.6.3"
VERSION = "0.6.3+mini"


def build(cache: Path, *parts: str) -> Path:
    """A build folder as FlashInfer leaves it: <version>/<archs>/cached_ops/<module>."""
    folder = cache.joinpath(".cache", "flashinfer", *parts)
    folder.mkdir(parents=True)
    (folder / "build.ninja").write_text("ninja_required_version = 1.3\n")
    (folder / f"{folder.name}.so").write_bytes(b"\x7fELF")
    return folder


def scan(capsys: pytest.CaptureFixture[str], *more: str) -> str:
    assert cli.main(["scan", "flashinfer", "--root", str(MINI), "--arch", "sm_120a", *more]) == 0
    return capsys.readouterr().out


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("FLASHINFER_WORKSPACE_BASE", str(tmp_path))
    return tmp_path


def names(text: str) -> list[str]:
    return [module["name"] for module in json.loads(text)["modules"]]


def test_each_module_comes_first_when_it_is_in_the_cache(
        cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plain = scan(capsys, "--format", "json")
    usual = names(plain)
    assert json.loads(plain)["used"] is None
    assert len(usual) > 1
    last = usual[-1]
    build(cache, VERSION, "120a", "cached_ops", last)
    document = json.loads(scan(capsys, "--used", "--format", "json"))
    assert document["used"] == [last]
    assert [m["name"] for m in document["modules"]] == [last, *usual[:-1]]


def test_other_versions_locks_links_and_empty_folders_do_not_count(
        cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    usual = names(scan(capsys, "--format", "json"))
    build(cache, "0.6.2", "120a", "cached_ops", usual[-1])
    ops = build(cache, VERSION, "120a", "cached_ops", "page").parent
    (ops / "tmp").mkdir()
    (ops / "tmp" / "page.lock").touch()
    (ops / "norm").mkdir()
    (ops / usual[-1]).symlink_to(ops / "page")
    before = sorted(str(p) for p in cache.rglob("*"))
    document = json.loads(scan(capsys, "--used", "--format", "json"))
    assert document["used"] == ["page"]
    assert [m["name"] for m in document["modules"]] == usual
    assert [p for p in sorted(str(p) for p in cache.rglob("*"))
            if "/flashinfer/" in p] == [p for p in before if "/flashinfer/" in p]


def test_the_text_says_what_is_in_use(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "in use:" not in scan(capsys)
    assert "in use: nothing" in scan(capsys, "--used")
    build(cache, VERSION, "120a", "cached_ops", "page")
    assert "in use: 1 module is in this user's cache; it is not closed" in scan(capsys, "--used")
    build(cache, VERSION, "120a", "cached_ops", "trtllm_comm")
    said = " ".join(scan(capsys, "--used").split())
    assert "in use: 2 modules are in this user's cache; closed here: trtllm_comm" in said


def test_the_cache_of_another_server_can_be_named(
        cache: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    other = tmp_path / "other"
    build(other, VERSION, "120a", "cached_ops", "page")
    file = tmp_path / "server.env"
    file.write_text(f"FLASHINFER_WORKSPACE_BASE={other}\n")
    said = scan(capsys, "--used", "--format", "json", "--env-from", f"file:{file}")
    assert json.loads(said)["used"] == ["page"]


@pytest.mark.parametrize(("module", "name", "used"), [
    ("batch_decode_dtype_q_*_head_dim_*", "batch_decode_dtype_q_f16_head_dim_128", True),
    ("batch_decode_dtype_q_*_head_dim_*", "batch_prefill_dtype_q_f16_head_dim_128", False),
    ("fused_moe_120", "fused_moe_12", False),
    ("fused_moe_12", "fused_moe_120", False),
])
def test_a_name_for_every_data_type_stands_for_each(module: str, name: str, used: bool) -> None:
    assert is_used(module, [name]) is used
