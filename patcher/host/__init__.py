"""Run-time checks of the device's capability in C++ host code.

``find_host_gates`` reports them with the targets that pass; they are never
edited, because what they protect is chosen by the caller.
"""

from patcher.host.find import constants, constants_in, find_host_gates, worth_reading
from patcher.host.tags import Tag, find_tags

__all__ = ["Tag", "constants", "constants_in", "find_host_gates", "find_tags", "worth_reading"]
