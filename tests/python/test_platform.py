"""Predicates that moved behind an object: properties found by string, families by name.

The shapes are SGLang 0.5.19 to 0.5.23's, in a miniature of our own.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from patcher.arch import EMPTY, ArchSet, Capability
from patcher.edits import apply_edits
from patcher.python.index import Index
from patcher.python.model import GateSpec, Status
from patcher.python.rewrite import rewrite
from patcher.tree import FolderTree

BOTH = ArchSet.of(Capability(12, 0), Capability(12, 1))
UTILS = """\
def get_device_sm():
    if not torch.cuda.is_initialized():
        sm = ask_the_driver()
        if sm is not None:
            return sm
    major, minor = torch.cuda.get_device_capability()
    return major * 10 + minor

def _version(majors, cuda):
    return get_device_sm() // 10 in majors and toolkit() >= cuda

is_sm90_supported = partial(_version, majors=[9], cuda=(12, 3))
is_sm100_supported = partial(_version, majors=[10], cuda=(12, 8))
is_sm120_supported = partial(_version, majors=[12], cuda=(12, 8))
is_blackwell_supported = partial(_version, majors=[10, 12], cuda=(12, 8))
"""
CONTEXT = """\
_PROBES = {"is_sm90": "is_sm90_supported", "is_sm100": "is_sm100_supported",
           "is_sm120": "is_sm120_supported", "is_cuda": "is_cuda"}

class Machine:
    def __init__(self):
        object.__setattr__(self, "_overrides", {})

    def __getattr__(self, name):
        probe = _PROBES.get(name)
        if probe is None:
            raise AttributeError(name)
        overrides = object.__getattribute__(self, "_overrides")
        if name in overrides:
            return overrides[name]
        from pkg import utils as _utils
        return getattr(_utils, probe)()

_MACHINE = Machine()

def get_machine():
    return _MACHINE
"""
FILES = {"pkg/__init__.py": "", "pkg/utils.py": UTILS, "pkg/context.py": CONTEXT}
HEAD = "from pkg.context import get_machine\n_is_cuda = is_cuda()\n"
OLD = """\
_is_sm90 = _is_cuda and get_machine().is_sm90
_is_sm100 = _is_cuda and get_machine().is_sm100
"""
USE = "def applies(size):\n    return ({}) and size > 0\n"


def test_a_property_that_is_found_by_its_name_is_what_its_probe_is(ask: Callable[..., object]
                                                                   ) -> None:
    asked = ask({**FILES, "pkg/a.py": HEAD})
    true, unknown = asked("get_machine().is_sm100")  # type: ignore[operator]
    assert true == []  # the toolkit decides, too
    assert unknown == ["10.0", "10.1", "10.3", "10.7"]
    assert asked("get_machine().is_sm120")[1] == ["12.0", "12.1"]  # type: ignore[operator]
    assert asked("get_machine().nothing_of_sm")[0] == []  # type: ignore[operator]


def _changed(tree: FolderTree, gate: str, open_: ArchSet = EMPTY, close: ArchSet = EMPTY) -> str:
    source = tree.read("pkg/a.py")
    made = rewrite(source, "pkg/a.py", GateSpec(gate, "", open_, close, 1, None),
                   Index(tree, "pkg"))
    assert made.status is Status.REWRITTEN, made.reason
    return apply_edits(source, made.edits).decode()


def test_a_variable_is_made_from_the_property_beside_its_own(
        write: Callable[[dict[str, str]], FolderTree]) -> None:
    tree = write({**FILES, "pkg/a.py": HEAD + OLD + USE.format("_is_sm90 or _is_sm100")})
    assert _changed(tree, "_is_sm100", BOTH) == (
        HEAD + OLD + "_is_sm120 = _is_cuda and get_machine().is_sm120\n"
        + USE.format("_is_sm90 or _is_sm100 or _is_sm120"))


@pytest.mark.parametrize(("before", "after"), [
    ("is_sm90_supported() or is_blackwell_supported()",
     "is_sm90_supported() or is_sm100_supported()"),
    ("is_blackwell_supported() or is_sm90_supported()",
     "is_sm100_supported() or is_sm90_supported()"),
])
def test_what_a_family_lets_pass_is_closed_by_the_predicate_that_lacks_it(
        write: Callable[[dict[str, str]], FolderTree], before: str, after: str) -> None:
    tree = write({**FILES, "pkg/a.py": UTILS + USE.format(before)})
    assert _changed(tree, before, close=BOTH) == UTILS + USE.format(after)


def test_without_such_a_predicate_nothing_is_closed(
        write: Callable[[dict[str, str]], FolderTree]) -> None:
    lacking = UTILS.replace("majors=[10],", "majors=[10, 11],")
    tree = write({**FILES, "pkg/a.py": lacking + USE.format(
        "is_sm90_supported() or is_blackwell_supported()")})
    made = rewrite(tree.read("pkg/a.py"), "pkg/a.py", GateSpec(
        "is_sm90_supported() or is_blackwell_supported()", "", EMPTY, BOTH, 1, None),
        Index(tree, "pkg"))
    assert made.status is Status.UNSUPPORTED
