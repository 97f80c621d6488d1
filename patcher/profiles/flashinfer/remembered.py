"""What the build functions said, kept between runs; half a second of evaluation saved.

One entry lists everything of the tree that the last evaluation looked at; what
that is by now, by hash, is the key of the result: no time stamp is trusted, and
a patched tree and the tree before it each find their own.
"""

from __future__ import annotations

import hashlib
from dataclasses import astuple, dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from patcher.cuda.store import Store, key_of
from patcher.errors import PatcherError
from patcher.package.model import Package
from patcher.profiles.base import PythonGate, Site
from patcher.profiles.flashinfer.builds import BuildReader, Machine, Spec
from patcher.profiles.partial import Generated
from patcher.tree import Tree

Read = tuple[Spec | None, list[Spec]]  # a module's default, and all modules


def read_builds(package: Package, machine: Machine, store: Store | None = None) -> Read:
    """The specs of a package for a machine, evaluated only when something has changed."""
    store = store or Store.default()
    key = key_of(_code(), package.name, package.version, package.import_name, astuple(machine))
    asked = store.get(key)
    if asked is not None:
        kept = store.get(_key(key, {one: _answer(package.tree, one) for one in asked}))
        if kept is not None:
            return _read(kept)
    seen = _Seen(package.tree)
    reader = BuildReader(replace(package, tree=seen), machine)
    default = reader.default()
    specs = reader.specs()
    store.put(key, sorted(seen.found))
    store.put(_key(key, seen.found), {"default": default and _written(default),
                                      "specs": [_written(spec) for spec in specs]})
    return default, specs


def _key(key: str, answers: dict[str, str]) -> str:
    return key_of(key, sorted(answers.items()))


@cache
def _code() -> str:
    """Names the code of the evaluation."""
    state = hashlib.blake2b(digest_size=16)
    here = Path(__file__).parent
    for path in sorted([*here.glob("*.py"), *(here.parent / "partial").glob("*.py")]):
        state.update(path.name.encode() + b"\0" + path.read_bytes())
    return state.hexdigest()


@dataclass
class _Seen:
    """A tree that notes what is asked of it, and what the answer was."""

    tree: Tree
    found: dict[str, str] = field(default_factory=dict)

    @property
    def root(self) -> Path:
        return self.tree.root

    def read(self, path: str) -> bytes:
        self._note("read", path)
        return self.tree.read(path)

    def names(self, folder: str) -> frozenset[str]:
        self._note("names", folder)
        return self.tree.names(folder)

    def folders(self, folder: str) -> frozenset[str]:
        self._note("folders", folder)
        return self.tree.folders(folder)

    def _note(self, question: str, path: str) -> None:
        asked = f"{question} {path}"
        if asked not in self.found:
            self.found[asked] = _answer(self.tree, asked)


def _answer(tree: Tree, asked: str) -> str:
    """The hash of an answer, or the kind of error."""
    question, _, path = asked.partition(" ")
    try:
        found = getattr(tree, question)(path)
    except (OSError, PatcherError) as error:
        return type(error).__name__
    data = found if isinstance(found, bytes) else repr(sorted(found)).encode()
    return hashlib.blake2b(data, digest_size=20).hexdigest()


def _written(spec: Spec) -> dict[str, Any]:
    return {"name": spec.name, "sources": spec.sources, "site": astuple(spec.site),
            "build_file": spec.build_file, "entry": spec.entry, "entered": sorted(spec.entered),
            "tabled": spec.tabled,
            "gates": [[astuple(g.site), g.expression, g.majors] for g in spec.gates],
            "generated": {name: astuple(one) for name, one in spec.generated.items()}}


def _read(kept: Any) -> Read:
    default = _spec(kept["default"]) if kept["default"] else None
    return default, [_spec(row) for row in kept["specs"]]


def _spec(row: Any) -> Spec:
    return Spec(
        row["name"], row["sources"], Site(*row["site"]), row["build_file"],
        [PythonGate(Site(*site), expression, None if majors is None else tuple(majors))
         for site, expression, majors in row["gates"]],
        {name: Generated(*one) for name, one in row["generated"].items()},
        row["entry"], frozenset(row["entered"]), row["tabled"])
