"""DeepGEMM: kernels that its own driver writes and compiles at run time, one per header.

The driver is C++ (``csrc/jit`` of the repository, ``_C.so`` of a wheel): it writes a source that
includes one header of ``impls`` and instantiates its kernel, and compiles it for the device with
the headers of the package alone. The arguments of the instantiation depend on shapes; which lines
are compiled does not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from patcher.arch import Target, target
from patcher.cuda.model import TranslationUnit
from patcher.package.model import Package
from patcher.profiles.base import JitModule, Resolved, Site, Template
from patcher.profiles.devices import parse_device
from patcher.profiles.flags import read_flags
from patcher.profiles.generic import Generic, guessed_units
from patcher.profiles.search import SearchPath
from patcher.toolchain.model import Toolkit
from patcher.tree import exists, walk

_INCLUDE = "deep_gemm/include"
_CUTLASS = "third-party/cutlass/include"  # a submodule; in wheels it is in _INCLUDE
_FLAGS = ("-std=c++20", "-O3", "--expt-relaxed-constexpr", "--expt-extended-lambda")
_IMPL = re.compile(rf"{_INCLUDE}/deep_gemm/impls/(\w+)\.cuh$")
_FAMILY = (12, 9)  # the first CUDA for which the driver asks for 100f


class DeepGEMM(Generic):
    """One module and one generated unit for each header of kernels."""

    name = "deep-gemm"

    def modules(self, package: Package, toolkit: Toolkit) -> list[JitModule]:
        """In the order of the headers' names; caches call a kernel ``kernel.NAME.DIGEST``."""
        return list(_modules(package))

    def translation_units(self, package: Package, toolkit: Toolkit) -> list[TranslationUnit]:
        """What the driver would compile, then every ``.cu`` with guessed folders."""
        flags = read_flags(_FLAGS)
        flags.include = [_INCLUDE, _CUTLASS] if package.source_tree else [_INCLUDE]
        configuration = SearchPath(toolkit).configuration("driver", flags, guessed=False)
        units = [TranslationUnit(template.path, configuration, (module.name,), template.content)
                 for module in _modules(package) for template in module.templates]
        return [*units, *guessed_units(package, toolkit)]

    def resolve_target(self, device: str, package: Package, toolkit: Toolkit) -> Resolved:
        """100f on 10.x but 10.1 where CUDA knows it, else 100a; the ``a`` target elsewhere."""
        resolved = super().resolve_target(device, package, toolkit)
        named = None if device == "auto" else parse_device(device)
        capability = resolved.target.capability
        if isinstance(named, Target) or capability.major != 10 or capability.minor == 1:
            return resolved
        name = "sm_100f" if toolkit.release >= _FAMILY else "sm_100a"
        return Resolved(target(name), f"{device} is {capability}: DeepGEMM with CUDA "
                        f"{toolkit.version} compiles for {name}", resolved.assumed)

    def about(self, package: Package) -> tuple[str, ...]:
        """Its row's sentence; and that C++ chooses among its kernels."""
        said = (self._known.wheel,) if self._known else ()
        if not any(_modules(package)):
            return super().about(package)
        choice = "csrc/apis" if package.source_tree else "its prebuilt library"
        chosen = (f"which kernel a device gets is decided in C++, in {choice}: that a kernel "
                  "compiles for a device does not say that it is chosen there")
        return (*said, chosen)


def _modules(package: Package) -> Iterator[JitModule]:
    for path in walk(package.tree, f"{_INCLUDE}/deep_gemm/impls", (".cuh",)):
        found = _IMPL.match(path)
        if not found:
            continue
        name = found[1]
        unit = f"@generated/{name}/kernel.cu"
        content = f"#include <deep_gemm/impls/{name}.cuh>\n".encode()
        writer = f"csrc/jit_kernels/impls/{name}.hpp"
        site = Site(writer if exists(package.tree, writer) else path, "generate_impl", 1)
        yield JitModule(name, rf"kernel\.{name}\..*", site, (unit,), _FLAGS, (_INCLUDE,),
                        templates=(Template(unit, site.path, content, 1),))
