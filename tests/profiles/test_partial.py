"""Partial evaluation against Python itself: what is known must come out as Python computes it."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import pytest

from patcher.profiles.partial import HOLE, Interpreter, Run, Symbol, Unknown
from patcher.profiles.partial.values import Function, show
from patcher.tree import FolderTree


def interpreter(tmp_path: Path, code: str, **options: Any) -> tuple[Interpreter, Function]:
    (tmp_path / "unit.py").write_text(textwrap.dedent(code))
    made = Interpreter(FolderTree(tmp_path), **options)
    module = made.module("unit")
    assert module is not None
    function = made.module_value(module, "f")
    assert isinstance(function, Function)
    return made, function


def runs(tmp_path: Path, code: str, **options: Any) -> list[Run]:
    made, function = interpreter(tmp_path, code, **options)
    return list(made.explore(function))


KNOWN = [
    "return [i * 2 for i in range(4) if i % 2]",
    "return f'{1:02d}-{True}-{\"x\"!r}-{3.5}'",
    "return {k: v for k, v in zip('ab', (1, 2))}",
    "a, *b = (1, 2, 3); return b + [a]",
    "x = [1]; y = x; y += [2]; return x",
    "x = [1]; y = x; y = y + [2]; return x",
    "return 'a,b'.split(',')[::-1] + ['c'.upper()]",
    "return sorted({3, 1}) + list(enumerate('x'))",
    "return any(i > 2 for i in (1, 3)) and all([]) and not None",
    "return (lambda x, y=2: x + y)(1)",
    ("r = []\n    for i in range(9):\n        if i == 2: continue\n        if i == 5: break\n"
     "        r.append(i)\n    else:\n        r.append('else')\n    return r"),
    "try:\n        return {'a': 1}['b']\n    except KeyError:\n        return 'caught'",
    "def g(n=3, *a, **k): return (n, a, k)\n    return g(), g(1, 2, z=3)",
    "return ('x' if 0 else 'y', 1 < 2 < 3, 2 in [1], 'b' in 'abc', None is None)",
    ("class C:\n        N = 4\n        def __init__(self, v): self.v = v\n"
     "        @property\n        def w(self): return self.v + self.N\n    return C(3).w, C.N"),
    "from pathlib import Path\n    return str(Path('a') / 'b' / 'c.cu'), Path('x/y.cu').stem",
    "import itertools\n    return list(itertools.product([1, 2], 'ab'))",
]


@pytest.mark.parametrize("body", KNOWN)
def test_known_code_gives_what_python_gives(tmp_path: Path, body: str) -> None:
    code = f"def f():\n    {body}\n"
    scope: dict[str, Any] = {}
    exec(compile(code, "unit", "exec"), scope)  # our own snippet, as the oracle
    (run,) = runs(tmp_path, code)
    assert run.value == scope["f"]()
    assert not run.decisions


def test_unknown_arguments_leave_holes(tmp_path: Path) -> None:
    (run,) = runs(tmp_path, '''
        import torch
        NAMES = {torch.float16: "f16"}
        def f(dtype, size):
            return f"m_{NAMES[dtype]}_{size}", [f"-DSIZE={size}", "-DX=1"] + ["a"], "m" + size
    ''')
    assert run.value == (f"m_{HOLE}_{HOLE}", [f"-DSIZE={HOLE}", "-DX=1", "a"], f"m{HOLE}")


def test_each_decision_goes_both_ways_and_narrows_what_it_decides(tmp_path: Path) -> None:
    found = runs(tmp_path, '''
        def f(backend, flag):
            if backend == "auto":
                raise ValueError
            if backend == "fa2":
                kind = "_old"
            elif backend == "fa3":
                kind = "_new"
            else:
                kind = ""
            return f"m_{backend}{kind}" + ("+" if flag else "-")
    ''')
    assert not found[0].raised, "the way that refuses is not tried first"
    values = {show(r.value) for r in found if not r.raised}
    assert {"m_fa2_old+", "m_fa2_old-", "m_fa3_new+", f"m_{HOLE}+"} <= values
    assert not any("fa2_new" in v or "fa3_old" in v for v in values)
    assert sum(r.raised for r in found) == 1


def test_decisions_of_one_run_agree_with_each_other(tmp_path: Path) -> None:
    for run in runs(tmp_path, '''
        def f(n):
            a = n > 3
            b = n > 3
            return (bool(a) if not a else True, "x" if n > 3 else "y", "x" if not n > 3 else "y")
    '''):
        assert isinstance(run.value, tuple)
        assert run.value[1] != run.value[2]


def test_assertions_narrow(tmp_path: Path) -> None:
    (run,) = runs(tmp_path, '''
        def f(dim):
            assert dim == 576
            return f"-DDIM={dim}"
    ''')
    assert run.value == "-DDIM=576"


def test_globals_are_not_changed_by_a_run(tmp_path: Path) -> None:
    found = runs(tmp_path, '''
        FLAGS = ["-a"]
        FLAGS.append("-b")
        def f(x):
            flags = FLAGS
            flags += ["-c"]
            return flags + (["-x"] if x else [])
    ''')
    assert [r.value for r in found] == [["-a", "-b", "-c", "-x"], ["-a", "-b", "-c"]]


def test_imports_follow_the_package_and_stop_at_its_edge(tmp_path: Path) -> None:
    for path, text in {
        "p/__init__.py": "from .a import value as exported\n",
        "p/a.py": "import torch\nvalue = 'from a'\ndtype = torch.float16\n",
        "p/b.py": "from . import a\nfrom . import exported\nfrom .a import dtype\n"
                  "def f(): return a.value, exported, dtype\n",
    }.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(text)
    made = Interpreter(FolderTree(tmp_path))
    module = made.module("p.b")
    assert module is not None
    function = made.module_value(module, "f")
    assert isinstance(function, Function)
    assert made.run(function, {}).value == ("from a", "from a", Symbol("torch.float16"))


def test_files_are_read_from_the_tree_and_written_nowhere(tmp_path: Path) -> None:
    (tmp_path / "t.jinja").write_text(
        "#include {{ header }}\n{% if x %}\nint {{ n }};\n{% endif %}\n")
    (run,) = runs(tmp_path, '''
        import jinja2
        from pathlib import Path
        def f(n):
            with open(Path("t.jinja")) as file:
                template = jinja2.Template(file.read())
            out = Path("made") / "u.cu"
            out.write_text(template.render(header="<a.h>", n=n))
            return out.exists(), Path("missing").exists()
    ''')
    assert run.value == (True, False)
    made = run.generated["made/u.cu"]
    assert made.content == "#include <a.h>\n\nint n;\n\n"
    assert made.origin == "t.jinja"
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize("body", [
    "x = 'a'\n    while True:\n        x += x",
    "return [i for i in range(1000000000)]",
    "return 'a' * 1000000000",
    "return '{:>999999999}'.format(1)",
    "return f()",
    "return [0] * 1000000000",
    "return 9 ** 9 ** 9",
    "return list(__import__('itertools').product(range(9999), repeat=9))",
    "return 'a'.replace('', 'b' * 99)" + ".replace('b', 'c' * 9999)" * 9,
    "x = 3\n    for i in range(99):\n        x = x * x\n    return x",
])
def test_hostile_code_is_bounded(tmp_path: Path, body: str) -> None:
    (run,) = runs(tmp_path, f"def f():\n    {body}\n", budget=20_000)
    assert run.stopped or isinstance(run.value, Unknown | str)


def test_nothing_is_executed(tmp_path: Path) -> None:
    marker = tmp_path / "executed"
    found = runs(tmp_path, f'''
        import os, pathlib, subprocess
        pathlib.Path({str(marker)!r}).write_text("module level")
        def f():
            os.system("touch {marker}")
            open({str(marker)!r}, "w").write("x")
            pathlib.Path({str(marker)!r}).write_text("x")
            subprocess.run(["touch", {str(marker)!r}])
            return eval("1"), exec("x = 1"), __import__("os").getcwd()
    ''')
    assert len(found) == 1
    assert not marker.exists()


def test_a_file_that_is_no_python_is_no_module(tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text("def f(:\n")
    (tmp_path / "deep.py").write_text("x = " + "(" * 5000 + ")" * 5000)
    (tmp_path / "nul.py").write_bytes(b"x = 1\0")
    made = Interpreter(FolderTree(tmp_path))
    assert made.module("bad") is made.module("deep") is made.module("nul") is None


def test_intercepts_and_overrides_stand_for_the_machine(tmp_path: Path) -> None:
    (run,) = runs(tmp_path, '''
        import os
        HOME = os.getcwd()
        def ask(): return "asked"
        def f():
            return HOME, ask(), os.environ.get("CC", "none"), "CC" in os.environ
    ''', intercepts={"ask": lambda call: "answered"},
        overrides={"unit.HOME": "/home", "os.environ": {"CC": "gcc"}})
    assert run.value == ("/home", "answered", "gcc", True)
