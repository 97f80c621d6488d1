"""What stands for the device, for tables and for all that is unknown in a second opinion."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from patcher.arch import Target

_NUMBER = ("arch", "sm", "cc", "capability", "cuda_arch", "device_arch", "sm_version")


class Capability(NamedTuple):
    """As torch and vLLM give it."""

    major: int
    minor: int

    def to_int(self) -> int:
        return self.major * 10 + self.minor

    def as_version_str(self) -> str:
        return f"{self.major}.{self.minor}"


class Chance(Random):
    """Mostly true, mostly false or even, by its seed: some tests ask many things at once."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.bias = (0.5, 0.9, 0.1)[number % 3]


def _bias(chance: Random) -> float:
    return chance.bias if isinstance(chance, Chance) else 0.5


class Anything:
    """Whatever a name may be; so are its calls, attributes and items, each true by chance."""

    def __init__(self, chance: Random) -> None:
        self._chance, self._truth = chance, chance.random() < _bias(chance)

    def __bool__(self) -> bool:
        return self._truth  # always the same: ``a and b`` asks, and then gives ``a``

    def may_be(self, constant: object) -> bool:
        """Whether it is None, True or False: never one of the other truth."""
        return self._truth == bool(constant) and self._chance.random() < 0.7

    def __call__(self, *args: object, **keywords: object) -> Anything:
        return Anything(self._chance)

    def __getattr__(self, name: str) -> Anything:
        return Anything(self._chance)

    def __getitem__(self, key: object) -> Anything:
        return Anything(self._chance)

    def __iter__(self) -> Iterator[object]:
        return iter(())

    def __hash__(self) -> int:
        return 0

    def _answer(self, other: object) -> bool:
        return self._chance.random() < _bias(self._chance)

    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __contains__ = _answer

    def _same(self, other: object) -> Anything:
        return self

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __floordiv__ = __mod__ = _same


class Asked(dict[Any, Any]):
    """A table that notes whether what it was asked for is in it."""

    found: list[bool]

    def _note(self, key: object) -> bool:
        self.found.append(dict.__contains__(self, key))
        return self.found[-1]

    def __contains__(self, key: object) -> bool:
        return self._note(key)

    def __getitem__(self, key: object) -> Any:
        self._note(key)
        return dict.__getitem__(self, key)

    def get(self, key: object, default: Any = None) -> Any:
        return dict.__getitem__(self, key) if self._note(key) else default


class Loose(SimpleNamespace):
    """A namespace with some names; every other is anything."""

    def __getattr__(self, name: str) -> Any:
        return self.anything


def world(target: Target, chance: Random) -> dict[str, Any]:
    """The names that tell an architecture, on one target."""
    cc = Capability(target.capability.major, target.capability.minor)

    def number(asked: Any) -> int:
        return asked if isinstance(asked, int) else asked[0] * 10 + asked[1]

    anything = Anything(chance)
    cuda = Loose(anything=anything,
        get_device_capability=lambda *a, **k: cc, is_available=lambda: True,
        get_device_properties=lambda *a, **k: SimpleNamespace(major=cc.major, minor=cc.minor),
        get_device_name=lambda *a, **k: anything, current_device=lambda: 0)
    platform = Loose(anything=anything,
        get_device_capability=lambda *a, **k: cc, is_cuda=lambda: True, is_rocm=lambda: False,
        is_cuda_alike=lambda: True, is_xpu=lambda: False, is_cpu=lambda: False,
        has_device_capability=lambda asked, *a, **k: cc.to_int() >= number(asked),
        is_device_capability=lambda asked, *a, **k: cc.to_int() == number(asked),
        is_device_capability_family=lambda asked, *a, **k: cc.to_int() // 10 == asked // 10)
    torch = Loose(anything=anything, cuda=cuda, version=SimpleNamespace(cuda="13.0", hip=None))
    return {
        "torch": torch, "current_platform": platform, "get_platform": lambda: platform,
        "get_compute_capability": lambda *a, **k: cc, "get_device_capability": lambda *a, **k: cc,
        "get_device_sm": lambda *a, **k: cc.to_int(), "is_cuda": lambda: True,
        "is_hip": lambda: False, "is_npu": lambda: False, "is_cuda_alike": lambda: True,
    }


def parameter(name: str, target: Target) -> Any:
    """What a parameter of that name is given; None when it says nothing."""
    if name.endswith("capability") and "cuda_" not in name:
        return Capability(target.capability.major, target.capability.minor)
    if name == "sm_version":
        return f"sm_{target.number}"
    if name in _NUMBER or name.endswith("capability"):
        return target.number
    plain = {"major": target.capability.major, "minor": target.capability.minor}
    return plain.get(name.rpartition("_")[2])
