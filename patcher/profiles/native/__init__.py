"""Packages whose kernels are compiled ahead of time: by CMake, or by a setup.py."""

from patcher.profiles.native.cmake import CMakeBuild

__all__ = ["CMakeBuild"]
