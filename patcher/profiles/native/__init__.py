"""Packages whose kernels are compiled ahead of time: by CMake, or by a setup.py."""

from patcher.profiles.native.cmake import CMakeBuild
from patcher.profiles.native.setup import SetupBuild

__all__ = ["CMakeBuild", "SetupBuild"]
