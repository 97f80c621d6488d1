"""Partial evaluation of Python source, without running it.

Build functions of a scanned package decide at run time what is compiled. This
interpreter walks their syntax trees with whatever is known; what depends on an
argument or on the machine stays unknown, and both ways of a decision on it are
explored. No code of the package is imported or executed, every run has a step
budget, and no operation here reads or writes outside the given tree.
"""

from patcher.profiles.partial.interpreter import Interpreter, Run
from patcher.profiles.partial.values import HOLE, Generated, Stopped, Symbol, Unknown

__all__ = ["HOLE", "Generated", "Interpreter", "Run", "Stopped", "Symbol", "Unknown"]
