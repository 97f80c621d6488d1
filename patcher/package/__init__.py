"""From a name to a package: environments, wheels, source trees. Never imports or runs one."""

from patcher.package.environment import find_environment
from patcher.package.find import find_package
from patcher.package.metadata import normalise
from patcher.package.model import Environment, Package, Poisoned, RecordEntry, RecordState

__all__ = ["Environment", "Package", "Poisoned", "RecordEntry", "RecordState",
           "find_environment", "find_package", "normalise"]
