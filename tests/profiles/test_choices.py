"""Arguments that must be one of a table's keys: every key is taken, as a caller would."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path

import pytest

from patcher.profiles.partial import Interpreter, Run, Unknown
from patcher.profiles.partial.values import Function
from patcher.tree import FolderTree


def explored(root: Path, code: str, budget: int = 200_000) -> list[Run]:
    (root / "unit.py").write_text(textwrap.dedent(code))
    made = Interpreter(FolderTree(root), budget=budget)
    module = made.module("unit")
    assert module is not None
    function = made.module_value(module, "f")
    assert isinstance(function, Function)
    return list(made.explore(function))


def values(root: Path, code: str) -> list[object]:
    return sorted((run.value for run in explored(root, code) if not run.raised), key=repr)


TABLE = """
    TABLE = {"a": {"flag": "-DA", "arches": ["90a"]},
             "b": {"flag": "-DB", "arches": ["100a", "103a"]}}
"""


def test_each_record_of_a_table_is_taken(tmp_path: Path) -> None:
    code = TABLE + """
    def f(name):
        return [name, TABLE[name]["flag"]]
    """
    assert values(tmp_path, code) == [["a", "-DA"], ["b", "-DB"]]


def test_a_check_gives_the_names_that_it_lets_through(tmp_path: Path) -> None:
    """Two arguments, the second limited by the record of the first: a is built once, b twice."""
    code = TABLE + """
    def f(name, arch):
        record = TABLE[name]
        if arch not in record["arches"]:
            raise ValueError(arch)
        return f"{name}_{arch}"
    """
    assert values(tmp_path, code) == ["a_90a", "b_100a", "b_103a"]


def test_checks_behind_or_are_taken_in_their_order(tmp_path: Path) -> None:
    code = TABLE + """
    def f(name, arch):
        if name not in TABLE or arch not in TABLE[name]["arches"]:
            raise ValueError(arch)
        return name + arch
    """
    assert values(tmp_path, code) == ["a90a", "b100a", "b103a"]


def test_plain_texts_and_sizes_do_not_multiply_what_is_built(tmp_path: Path) -> None:
    """A literal by mode and a list of sizes are parameters of one kernel, not a list of kernels."""
    code = """
    MODES = {"causal": "MaskMode::kCausal", "none": "MaskMode::kNone"}
    def f(mode, size):
        if size not in (16, 32, 64):
            raise ValueError(size)
        return [MODES[mode]]
    """
    good = [run for run in explored(tmp_path, code) if not run.raised]
    assert all(isinstance(run.value, list) and isinstance(run.value[0], Unknown) for run in good)
    assert {run.given for run in good} == {()}


def test_only_arguments_of_the_explored_function_are_chosen(tmp_path: Path) -> None:
    code = TABLE + """
    def inner(name):
        return TABLE[name]["flag"]
    def f(other):
        return [inner(other), inner("b")]
    """
    assert values(tmp_path, code) == [["-DA", "-DB"], ["-DB", "-DB"]]


def test_a_manifest_is_a_table_too(tmp_path: Path) -> None:
    """A JSON file beside the code, read through a cached function as packages do."""
    (tmp_path / "build.json").write_text(json.dumps(
        {"libraries": [{"name": "x", "flags": ["-DX"]}, {"name": "y", "flags": ["-DY"]}]}))
    code = """
    import functools
    import json
    from pathlib import Path

    @functools.cache
    def manifest():
        return json.loads((Path(__file__).parent / "build.json").read_text(encoding="utf-8"))

    def by_name():
        return {entry["name"]: entry for entry in manifest()["libraries"]}

    def f(name):
        with open(Path(__file__).parent / "build.json") as opened:
            assert json.load(opened)["libraries"]
        return by_name()[name]["flags"]
    """
    assert values(tmp_path, code) == [["-DX"], ["-DY"]]


@pytest.mark.parametrize("text", ["{", "[" * 100_000, "", "9" * 5000,
                                  "[" + " " * (5 << 20)])
def test_a_hostile_manifest_is_unknown_and_bounded(tmp_path: Path, text: str) -> None:
    """Broken, nested too deeply, a number beyond Python's limit, too large: nothing is known."""
    (tmp_path / "build.json").write_text(text)
    code = """
    import json
    from pathlib import Path
    def f(name):
        return json.loads(Path("build.json").read_text())[name]
    """
    (run,) = explored(tmp_path, code)
    assert isinstance(run.value, Unknown)
    assert not run.raised


def test_a_manifest_outside_the_root_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "outside.json").write_text('{"a": {"b": 1}}')
    root = tmp_path / "root"
    root.mkdir()
    (root / "link.json").symlink_to(tmp_path / "outside.json")
    for name in ("../outside.json", "link.json", str(tmp_path / "outside.json")):
        code = f"""
        import json
        from pathlib import Path
        def f(name):
            return json.loads(Path({name!r}).read_text())[name]
        """
        (run,) = explored(root, code)
        assert isinstance(run.value, Unknown), name


def test_a_cached_result_is_shared_unless_a_decision_went_into_it(tmp_path: Path) -> None:
    """Evaluated once for equal arguments; no run changes another's list."""
    code = TABLE + """
    import functools
    @functools.cache
    def shared(n):
        return [n]
    @functools.lru_cache(maxsize=None)
    def flag(wanted):
        return "-g" if wanted else "-O3"
    def f(wanted):
        shared(1).append(2)
        return [shared(1), shared(3), flag(wanted)]
    """
    found = [run.value for run in explored(tmp_path, code)]
    assert [v[2] for v in found if isinstance(v, list)] == ["-g", "-O3"]
    assert found[0] == [[1], [3], "-g"]


def test_a_table_that_is_too_large_stays_unknown(tmp_path: Path) -> None:
    code = """
    TABLE = {str(i): [i] for i in range(2000)}
    def f(name):
        return TABLE[name]
    """
    (run,) = explored(tmp_path, code)
    assert isinstance(run.value, Unknown)


def test_what_comes_twice_is_dropped_as_python_does(tmp_path: Path) -> None:
    assert values(tmp_path, "def f():\n    return list(dict.fromkeys(['a', 'b', 'a']))\n") == [
        ["a", "b"]]
