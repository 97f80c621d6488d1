"""Which functions a C++ function leads to, by the names in bodies.

Names are not resolved as a compiler would: every function of a name counts, so
the answer may hold too many functions, but leaves out none that the sources
name. A qualifier (``cute::f``) must be a scope of some function of that name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from patcher.cuda.effects.outline import Outline

_USE = re.compile(rb"(?:([A-Za-z_]\w*)\s*(?:<[^<>;{}]{0,200}>)?\s*::\s*)?([A-Za-z_]\w*)")
_DEFINE = re.compile(
    rb"^[ \t]*#[ \t]*define[ \t]+([A-Za-z_]\w*)(\([^)\n]*\))?((?:[^\n\\]|\\\r?\n|\\.)*)",
    re.MULTILINE,
)

Used = frozenset[tuple[str, str]]  # qualifier or "", name


@dataclass(frozen=True, slots=True)
class Body:
    """A function, a macro, or a type (which uses its methods), and the names it uses."""

    name: str
    scope: frozenset[str]
    uses: Used


def bodies(code: bytes, outlined: Outline) -> tuple[Body, ...]:
    """The bodies of one file whose comments were blanked."""
    found = list(_macros(code))
    methods: dict[str, set[tuple[str, str]]] = {}
    for function in outlined.functions:
        parts = function.name.split("::")
        uses = _used(code[function.head : function.last])
        found.append(Body(parts[-1], frozenset({*parts[:-1], *function.scope}), uses))
        for kind in parts[:-1]:
            methods.setdefault(kind, set()).update(
                {("", parts[-1])} if parts[-1] in (kind, "operator()", f"~{kind}") else ()
            )
    found += (Body(kind, frozenset(), frozenset(uses)) for kind, uses in methods.items())
    return tuple(found)


def _macros(code: bytes) -> Iterator[Body]:
    for match in _DEFINE.finditer(code):
        if match[3].strip():
            yield Body(match[1].decode(), frozenset(), _used(match[3]))


def _used(text: bytes) -> Used:
    return frozenset(
        (qualifier.decode("latin-1"), name.decode("latin-1"))
        for qualifier, name in _USE.findall(text)
    )


@dataclass(frozen=True)
class CallGraph:
    """All bodies by name."""

    by_name: dict[str, list[Body]]

    @classmethod
    def of(cls, parts: Iterable[Iterable[Body]]) -> CallGraph:
        """The graph of several files."""
        table: dict[str, list[Body]] = {}
        for part in parts:
            for body in part:
                table.setdefault(body.name, []).append(body)
        return cls(table)

    def reached(self, start: Iterable[str]) -> frozenset[str] | None:
        """The names that these functions lead to, themselves included; None when none is here."""
        front = [name for name in start if name in self.by_name]
        if not front:
            return None
        seen = set(front)
        while front:
            for body in self.by_name[front.pop()]:
                for qualifier, name in body.uses:
                    if name not in seen and self._exists(qualifier, name):
                        seen.add(name)
                        front.append(name)
        return frozenset(seen)

    def _exists(self, qualifier: str, name: str) -> bool:
        known = self.by_name.get(name)
        if known is None:
            return False
        # ``std`` and the like are never a scope here; a template parameter may be anything
        return not qualifier or any(qualifier in body.scope for body in known) or (
            len(qualifier) == 1
        )


def exported(code: bytes, name: str) -> str:
    """The C++ function behind an exported name: ``EXPORT(name, ns::function)``, else the name."""
    match = re.search(rb"\w\(\s*\"?" + re.escape(name.encode()) + rb"\"?\s*,\s*&?([\w:]+)", code)
    return match[1].decode().rpartition("::")[2] if match else name
