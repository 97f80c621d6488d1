"""A scan whose report is remembered, good as long as everything it was made from is the same.

Made from: our own code and data, the shipped patchsets, the request, the toolkit, what the
profile saw around the package, the code in prebuilt modules, and every file and listing that
the scan read (``watch``). Contents are compared, never times or sizes.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from functools import cache
from pathlib import Path
from typing import Any, get_type_hints

from patcher.arch import Target
from patcher.cuda.store import Store, key_of
from patcher.gates import Gate, Layer
from patcher.package.model import Package
from patcher.profiles.base import Profile
from patcher.room import collector_at_rest
from patcher.scan.codec import decoder, encoder
from patcher.scan.model import Options, Report
from patcher.scan.stages import Stages
from patcher.scan.watch import WatchedTree, unchanged
from patcher.toolchain.model import Toolkit
from patcher.tree import read_plain

_HERE = Path(__file__).resolve().parents[1]


def scan(
    package: Package, profile: Profile, targets: Sequence[Target],
    references: Sequence[Target], toolkit: Toolkit, options: Options, *, store: Store | None,
) -> Report:
    """As ``run.scan``; with a store the answer comes from there when it can.

    Raises InputError when the package's own files cannot be read.
    """
    def anew(package: Package, stages: Stages | None = None) -> Report:
        from patcher.scan import run

        return run.scan(package, profile, targets, references, toolkit, options, store=store,
                        stages=stages)

    if options.conditions is not None:
        store = None
    if store is None:
        return anew(package)
    subject = (package.name, package.import_name, package.version, str(package.root),
               package.editable, package.source_tree, package.read_only, repr(toolkit),
               profile.surroundings(package, toolkit))
    request = ([t.name for t in targets], [t.name for t in references], sorted(options.layers),
               options.modules, options.units, options.assumed, options.follow_all,
               _prebuilt(package, profile, options))
    made_from = key_of("scan", code_digest(), subject)
    key = key_of("report", made_from, request)
    tree = WatchedTree(package.tree)
    with collector_at_rest():
        kept = _find(store, key, tree)
        if kept is not None:
            return kept
        return _keep(store, key, tree, lambda: anew(replace(package, tree=tree),
                                                    Stages(store, made_from, tree)))


def _find(store: Store, key: str, tree: WatchedTree) -> Report | None:
    trace = store.get(key)
    if trace is None or not unchanged(tree, trace):
        return None
    entry = store.get(_of_trace(key, trace))
    if entry is None:
        return None
    values = {name: decoder(hint)(value) for (name, hint), value in
              zip(_parts().items(), entry["report"], strict=True)}
    return Report(**values, details=_Later(entry["details"]))


def _keep(store: Store, key: str, tree: WatchedTree, anew: Callable[[], Report]) -> Report:
    report = anew()
    details = json.dumps(encoder(Mapping[str, tuple[Gate, ...]])(report.details))
    parts = [encoder(hint)(getattr(report, name)) for name, hint in _parts().items()]
    trace = tree.trace()
    store.put(_of_trace(key, trace), {"report": parts, "details": details})
    store.put(key, trace)
    return report


def _of_trace(key: str, trace: Mapping[str, Mapping[str, str]]) -> str:
    """Where the report lies that was made from a trace: most traces are read to no avail."""
    return key_of("made", key, [sorted(trace[part].items()) for part in sorted(trace)])


def _parts() -> dict[str, Any]:
    """The fields of a report and their types, but for the one that is unpacked later."""
    hints = get_type_hints(Report)
    return {f.name: hints[f.name] for f in fields(Report) if f.name != "details"}


class _Later(Mapping[str, tuple[Gate, ...]]):
    """The gates behind each row, unpacked when somebody asks: most readers do not."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._rows: Mapping[str, tuple[Gate, ...]] | None = None

    def _unpacked(self) -> Mapping[str, tuple[Gate, ...]]:
        if self._rows is None:
            self._rows = decoder(Mapping[str, tuple[Gate, ...]])(json.loads(self._text))
        return self._rows

    def __getitem__(self, name: str) -> tuple[Gate, ...]:
        return self._unpacked()[name]

    def __iter__(self) -> Any:
        return iter(self._unpacked())

    def __len__(self) -> int:
        return len(self._unpacked())


def _prebuilt(package: Package, profile: Profile, options: Options) -> list[tuple[str, str]]:
    """The code that each prebuilt module holds, as far as the binary layer looks at it."""
    if not options.wants(Layer.BINARY) or package.read_only:
        return []
    from patcher.scan.libraries import libraries
    from patcher.scan.prebuilt import prebuilt_code

    held = [(library.path, library.contents) for library in libraries(profile, package)]
    return held + [(str(path), " ".join(sorted(map(str, codes)))) for path, codes in
            prebuilt_code(profile.aot_folders(package), package.root)]


@cache
def code_digest() -> str:
    """Names all of our code, data and shipped patchsets."""
    from patcher.patchset.shipped import shipped

    state = hashlib.blake2b(digest_size=16)
    files = [os.path.join(folder, name) for folder, _, names in os.walk(_HERE)
             for name in names if name.endswith((".py", ".json"))]
    for path in sorted([*files, *map(str, shipped().values())]):
        state.update(path.encode("utf-8", "surrogateescape") + b"\0" + read_plain(path))
    return state.hexdigest()
