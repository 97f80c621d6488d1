"""A second opinion in a fresh interpreter: made from text, with bounds, without a package's path.

    with Apart(root, "flashinfer", [paths]) as other:
        other.ask("answers", path, line, expression, target("sm_120a"))
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from patcher.arch import Target

_MODULES = ("stubs", "second")
_SECONDS, _BYTES = 1500, 6 << 30
_CHILD = """
import json, resource, signal, sys, types
from pathlib import Path
for limit, most in ((resource.RLIMIT_CPU, SECONDS), (resource.RLIMIT_AS, BYTES),
                    (resource.RLIMIT_FSIZE, 0), (resource.RLIMIT_CORE, 0)):
    resource.setrlimit(limit, (most, most))
ask = json.loads(sys.stdin.readline())
for name, text in ask["modules"].items():
    module = sys.modules[name] = types.ModuleType(name)
    exec(compile(text, name, "exec"), module.__dict__)
package = module.Package(Path(ask["root"]), ask["folder"])
package.index_readable(ask["paths"])
def late(*_):
    raise TimeoutError
signal.signal(signal.SIGALRM, late)
print("ready", flush=True)
for line in sys.stdin:
    ask = json.loads(line)
    one = types.SimpleNamespace(number=ask["number"], capability=types.SimpleNamespace(
        major=ask["number"] // 10, minor=ask["number"] % 10))
    signal.alarm(60)
    try:
        found = getattr(module, ask["what"])(package, *ask["given"], one, *ask["more"])
        found = sorted(found) if isinstance(found, set) else found
    except Exception as error:
        found = [f"{type(error).__name__}: {error}"] if ask["what"] != "literals" else []
    signal.alarm(0)
    print(json.dumps(found), flush=True)
"""


class Apart:
    """Asks ``second.py`` in an interpreter that has nothing of ours and of the package."""

    def __init__(self, root: Path, folder: str, paths: Iterable[str]) -> None:
        here = Path(__file__).parent
        text = _CHILD.replace("SECONDS", str(_SECONDS)).replace("BYTES", str(_BYTES))
        self._child = subprocess.Popen([sys.executable, "-I", "-S", "-c", text], text=True, env={},
                                       cwd="/", stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._send({"root": str(root), "folder": folder, "paths": list(paths), "modules": {
            f"tests.python.{name}": (here / f"{name}.py").read_text("utf-8")
            for name in _MODULES}})
        if self._receive() != "ready":
            raise RuntimeError("the second interpreter did not start")

    def ask(self, what: str, path: str, line: int, expression: str, one: Target,
            *more: object) -> list[Any]:
        """What that function of ``second.py`` says of one expression; texts are errors."""
        self._send({"what": what, "given": [path, line, expression], "number": one.number,
                    "more": more})
        found: list[Any] = json.loads(self._receive())
        return found

    def _send(self, document: object) -> None:
        assert self._child.stdin
        self._child.stdin.write(json.dumps(document) + "\n")
        self._child.stdin.flush()

    def _receive(self) -> str:
        assert self._child.stdout
        return self._child.stdout.readline().strip()

    def __enter__(self) -> Apart:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._child.stdin
        assert self._child.stdout
        self._child.stdin.close()
        self._child.stdout.close()
        self._child.wait()
