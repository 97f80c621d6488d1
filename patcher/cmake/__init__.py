"""What a CMake project would build, read without running CMake or anything else.

The language itself is interpreted (variables, lists, strings, conditions, loops,
functions, macros), so a project's own helpers mean what they mean to CMake. What asks
the machine (find_package, execute_process, downloads) gives an unknown value. Knows
nothing of packages and architectures.
"""
