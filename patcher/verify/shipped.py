"""Proofs that travel with a patchset: what was proven, keyed by the bytes it was proven of.

``NAME.proof.json`` lies beside ``NAME.yaml``. A proof says that a unit was compiled
and judged with a toolkit, after a group's change; it holds wherever every package
file that the unit reads would have the same bytes after that change. Then no nvcc is needed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from patcher.atomic import write_atomic
from patcher.errors import InputError, UnsafePath
from patcher.tree import Tree
from patcher.verify.judge import Verdict

_VERSION = 1


@dataclass(frozen=True, slots=True)
class Proof:
    """One unit and target, proven after the change of exactly these groups.

    ``sha256`` is over the names and bytes of ``files`` after the change: those the
    unit reads, and those the groups change. ``package`` is its name and version, as
    the flags come from elsewhere in it; ``cuda`` the compiler's full version.
    """

    groups: tuple[str, ...]
    package: str
    unit: str
    arch: str
    kernels: int
    effort: str
    cuda: str
    compilers: str
    files: tuple[str, ...]
    sha256: str


def beside(patchset: str) -> Path:
    """Where the proofs of a patchset's file are."""
    return Path(patchset).with_suffix(".proof.json")


def content_digest(tree: Tree, files: Iterable[str]) -> str | None:
    """SHA-256 over names and bytes, None when one of the files cannot be read."""
    digest = hashlib.sha256()
    for path in sorted(files):
        try:
            data = tree.read(path)
        except (OSError, InputError, UnsafePath):
            return None
        digest.update(f"{path}\0{hashlib.sha256(data).hexdigest()}\n".encode())
    return digest.hexdigest()


def read_proofs(path: Path) -> list[Proof]:
    """The proofs of a file, none when there is none; raises InputError for another shape."""
    try:
        document = json.loads(path.read_text("utf-8"))
        rows = document["proofs"] if document["version"] == _VERSION else []
        return [Proof(**{**row, "groups": tuple(row["groups"]), "files": tuple(row["files"])})
                for row in rows]
    except FileNotFoundError:
        return []
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError("this is no file of proofs", where=str(path),
                         next_step="write it anew with sm-patch verify --write-proof") from error


def write_proofs(path: Path, new: Sequence[Proof]) -> None:
    """Add proofs to a file; those for the same question and bytes are replaced."""
    kept = {_key(proof): proof for proof in (*read_proofs(path), *new)}
    rows = [asdict(kept[key]) for key in sorted(kept)]
    text = json.dumps({"version": _VERSION, "proofs": rows}, indent=1, sort_keys=True)
    write_atomic(path, text.encode() + b"\n", durable=False)


def _key(proof: Proof) -> tuple[str, ...]:
    return (*proof.groups, proof.unit, proof.arch, proof.effort, proof.cuda, proof.sha256)


def proofs_of(rows: Iterable[Mapping[str, Any]], tree: Tree, changed: Iterable[str],
              groups: Sequence[str], **fields: str) -> list[Proof]:
    """The proofs in the rows of a verification.

    ``tree`` is the package after the change of the files ``changed``; ``fields``
    are package, effort, cuda and compilers.
    """
    found, also = [], set(changed)
    for row in rows:
        # a generated unit is no file of the package: what it holds follows from the others
        read = {name for name in row["files"] if not name.startswith("@generated/")}
        files = tuple(sorted(read | also)) if read else ()
        digest = content_digest(tree, files) if files else None
        if row["verdict"] == Verdict.OK.value and digest is not None:
            found.append(Proof(tuple(sorted(groups)), unit=row["unit"], arch=row["arch"],
                               kernels=row["after"]["kernels"], files=files, sha256=digest,
                               **fields))
    return found


def holding(proofs: Iterable[Proof], groups: Sequence[str], package: str,
            tree: Tree) -> list[Proof]:
    """The proofs that hold for a package's tree after the change of these groups."""
    wanted, known = tuple(sorted(groups)), dict[tuple[str, ...], str | None]()
    found = []
    for proof in proofs:
        if (proof.groups, proof.package) != (wanted, package):
            continue
        if proof.files not in known:
            known[proof.files] = content_digest(tree, proof.files)
        if known[proof.files] == proof.sha256:
            found.append(proof)
    return found


def in_words(proofs: Sequence[Proof]) -> str:
    """One line: for which targets, by which compiler; empty without proofs."""
    if not proofs:
        return ""
    archs = " ".join(sorted({proof.arch for proof in proofs}))
    cuda = ", ".join(sorted({proof.cuda for proof in proofs}))
    units = len({proof.unit for proof in proofs})
    return (f"these very bytes were compiled with CUDA {cuda} for {archs}: "
            f"{units} unit{'s' * (units != 1)} without a hollow kernel")
