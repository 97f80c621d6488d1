"""From a name to a package: environments, wheels, source trees. Never imports or runs one."""

from patcher.package.model import Environment, Package, Poisoned, RecordEntry, RecordState

__all__ = ["Environment", "Package", "Poisoned", "RecordEntry", "RecordState"]
