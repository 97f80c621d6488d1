"""Names lead to definitions, across modules; a name alone proves nothing."""

from __future__ import annotations

from collections.abc import Callable

import pytest

Answer = Callable[[str], tuple[list[str], list[str]]]
Ask = Callable[..., Answer]
ALL = ["7.5", "8.0", "8.6", "8.7", "8.8", "8.9", "9.0", "10.0", "10.1", "10.3", "10.7", "11.0",
       "12.0", "12.1"]
BLACKWELL_DATACENTER = ["10.0", "10.1", "10.3", "10.7"]
COMMON = """
from functools import lru_cache, partial
import torch
from somewhere import is_hip

def is_cuda():
    return torch.version.cuda is not None and torch.cuda.is_available()

def _check(majors, release):
    if not is_cuda():
        return False
    return torch.cuda.get_device_capability()[0] in majors and release <= torch.version.cuda

is_blackwell_supported = is_blackwell = lru_cache(maxsize=1)(
    partial(_check, majors=[10, 12], release="12.8")
)
is_sm100_supported = lru_cache(maxsize=1)(partial(_check, majors=[10], release="12.8"))

def get_device_sm():
    if torch.cuda.is_available():
        major, minor = torch.cuda.get_device_capability()
        return major * 10 + minor
    return 0
"""


def test_a_partial_is_called_with_its_keywords(ask: Ask) -> None:
    asked = ask({"pkg/common.py": COMMON, "pkg/a.py": "from pkg.common import *\n"
                 "from .common import is_sm100_supported as s100, is_blackwell\n"
                 "_is_sm100_supported = s100()\n"})
    assert asked("_is_sm100_supported") == ([], BLACKWELL_DATACENTER)  # the rest: the CUDA release
    assert asked("is_blackwell()") == ([], [*BLACKWELL_DATACENTER, "12.0", "12.1"])


def test_a_half_open_range_on_a_computed_number(ask: Ask) -> None:
    asked = ask({"pkg/common.py": COMMON,
                 "pkg/a.py": "from .common import get_device_sm\n_device_sm = get_device_sm()\n"})
    assert asked("90 <= _device_sm < 120") == (["9.0", *BLACKWELL_DATACENTER, "11.0"], [])


def test_the_same_name_means_what_its_import_says(ask: Ask) -> None:
    platform = ("import torch\nclass Platform:\n    @classmethod\n"
                "    def is_blackwell(cls):\n"
                "        return torch.cuda.get_device_capability()[0] == 10\n")
    asked = ask({"pkg/common.py": COMMON, "pkg/platform.py": platform, "pkg/a.py":
                 "from .platform import Platform\nfrom .common import is_blackwell\n"})
    assert asked("Platform.is_blackwell()") == (BLACKWELL_DATACENTER, [])
    assert asked("is_blackwell()")[1] == [*BLACKWELL_DATACENTER, "12.0", "12.1"]


def test_a_misleading_attribute_is_what_it_was_given(ask: Ask) -> None:
    """vllm 0.16.0: ``self.is_sm100 = current_platform.has_device_capability(100)``."""
    text = ("from other import current_platform\nclass Experts:\n    def __init__(self):\n"
            "        self.is_sm100 = current_platform.has_device_capability(100)\n"
            "class Child(Experts):\n    pass\n")
    asked = ask({"pkg/a.py": text})
    assert asked("Child.is_sm100") == ([*BLACKWELL_DATACENTER, "11.0", "12.0", "12.1"], [])


@pytest.mark.parametrize(("expression", "true"), [
    ("current_platform.is_device_capability(100)", ["10.0"]),
    ("current_platform.is_device_capability((10, 3))", ["10.3"]),
    ("current_platform.is_device_capability_family(120)", ["12.0", "12.1"]),
    ("any(current_platform.is_device_capability_family(f) for f in (90, 120))",
     ["9.0", "12.0", "12.1"]),
    ("(9, 0) <= current_platform.get_device_capability() < (11, 0)",
     ["9.0", *BLACKWELL_DATACENTER]),
    ("current_platform.get_device_capability().major in [9, 10]", ["9.0", *BLACKWELL_DATACENTER]),
    ("current_platform.get_device_capability().to_int() == 121", ["12.1"]),
    ("torch.cuda.get_device_properties(0).major == 12", ["12.0", "12.1"]),
])
def test_calls_on_a_platform_nobody_can_see_into(ask: Ask, expression: str,
                                                 true: list[str]) -> None:
    assert ask({"pkg/a.py": "from other import current_platform\n"})(expression) == (true, [])


@pytest.mark.parametrize("expression", [
    "get_device_capability() >= (9, 4)",  # a ROCm number
    "current_platform.has_device_capability(94)",
    "a_major == 10", "k_major == 10", "CUDA_VERSION.major >= 12", "cudnn.major < 9",
    "sm_count > 100", "sm_scale == 1", "cap > 9", "model_arch in ['Llama']",
])
def test_traps_depend_on_no_architecture(ask: Ask, expression: str) -> None:
    """All targets have one answer: unknown everywhere."""
    true, unknown = ask({"pkg/a.py": "import torch\n"})(expression)
    assert (true, unknown) == ([], ALL)


def test_a_version_called_major_is_no_architecture(ask: Ask) -> None:
    text = ("import cudnn\ndef check():\n"
            "    major, minor = map(int, cudnn.__version__.split('.')[:2])\n"
            "    return (major, minor) < (1, 13)\n")
    assert ask({"pkg/a.py": text})("check()") == ([], ALL)


def test_rocm_branches_are_never_taken(ask: Ask) -> None:
    asked = ask({"pkg/a.py": "from other import is_hip, get_bool_env_var\n"
                 "_use_aiter = get_bool_env_var('X') and is_hip()\n"})
    assert asked("get_device_capability() >= (9, 0) and _use_aiter") == ([], [])


def test_strings_and_tables_of_names(ask: Ask) -> None:
    text = ("import pkg.common as common\n"
            "PROBES = {'is_sm100': 'is_sm100_supported', 'is_blackwell': 'is_blackwell'}\n"
            "class Platform:\n    def __getattr__(self, name):\n"
            "        probe = PROBES.get(name)\n"
            "        if probe is None:\n            raise AttributeError(name)\n"
            "        return getattr(common, probe)()\n")
    asked = ask({"pkg/common.py": COMMON, "pkg/a.py": text})
    assert asked("Platform.is_sm100") == ([], BLACKWELL_DATACENTER)
    assert asked("Platform.is_blackwell")[1] == [*BLACKWELL_DATACENTER, "12.0", "12.1"]


def test_a_raise_gives_no_value(ask: Ask) -> None:
    text = ("import torch\ndef get_compute_capability(device):\n"
            "    if device.type != 'cuda':\n        raise ValueError('no')\n"
            "    return torch.cuda.get_device_capability(device.index)\n"
            "def kind(device):\n    major, _ = get_compute_capability(device)\n"
            "    if major == 9:\n        return 'hopper'\n"
            "    elif major == 12:\n        return 'consumer'\n    raise ValueError(major)\n")
    asked = ask({"pkg/a.py": text})
    assert asked("kind(d) == 'consumer'") == (["12.0", "12.1"], [])
    assert asked("get_compute_capability(d) in ((10, 0), (12, 1))") == (["10.0", "12.1"], [])


def test_reassigned_names_are_unknown_where_they_differ(ask: Ask) -> None:
    text = ("import torch\nmajor = torch.cuda.get_device_capability()[0]\n"
            "if something():\n    major = 9\n")
    true, unknown = ask({"pkg/a.py": text})("major == 9")
    assert true == ["9.0"]
    assert "12.0" in unknown
