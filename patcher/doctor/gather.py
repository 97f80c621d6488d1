"""What there is to examine: the environment, its toolkits, the GPUs, the server's variables."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace

from patcher.arch import Capability, Target, target
from patcher.caches.environ import read_environ
from patcher.doctor.model import Result, Status, Surroundings
from patcher.errors import PatcherError
from patcher.package.environment import find_environment
from patcher.package.find import find_package
from patcher.package.model import Environment
from patcher.profiles.devices import ASSUMED, AUTO, detect, parse_device
from patcher.toolchain.find import find_toolkits

# What decides how code is built and loaded; none of these holds a secret.
VARIABLES = frozenset({
    "PATH", "LD_LIBRARY_PATH", "CC", "CXX", "CPATH", "C_INCLUDE_PATH", "CUDA_HOME", "CUDA_PATH",
    "CONDA_PREFIX", "TORCH_CUDA_ARCH_LIST", "FLASHINFER_CUDA_ARCH_LIST", "CUTE_DSL_ARCH",
    "TRITON_PTXAS_PATH", "TRITON_PTXAS_BLACKWELL_PATH", "TRITON_PTXAS-BLACKWELL_PATH",
    "TRITON_LIBCUDA_PATH",
    "FLASHINFER_DISABLE_VERSION_CHECK",
})


def gather(names: Sequence[str] = (), *, archs: Sequence[str] = (AUTO,), cuda: str | None = None,
           root: str | None = None, python: str | None = None, env_from: str | None = None,
           ) -> tuple[Surroundings, list[Result]]:
    """Surroundings, and results on the names that could not be found.

    Raises UsageError or InputError for options that name nothing.
    """
    variables = read_environ(env_from, VARIABLES)
    environment = find_environment(python, root)
    imports, results = [], []
    for name in names:
        try:
            environment, import_name = _named(name, environment)
            imports.append(import_name)
        except (PatcherError, OSError) as error:
            results.append(Result("package", Status.ERROR, f"{name} cannot be examined: {error}"))
    targets, gpus = resolve(archs)
    toolkits = find_toolkits(cuda, environment, environ=variables)
    assumed = not gpus and AUTO in archs
    return Surroundings(environment, tuple(toolkits), targets, variables, tuple(imports),
                        gpus, assumed), results


def _named(name: str, environment: Environment) -> tuple[Environment, str]:
    """The package's import name, in an environment whose search path has it first."""
    if (import_name := name.replace("-", "_")).isidentifier():
        # a folder in place is enough: the metadata of a broken package may be broken too
        for site in environment.site_packages:
            if os.path.isdir(site / import_name):
                return environment, import_name
    package = find_package(name, environment)
    package.locate(package.import_name)  # an archive has nothing to load
    sites = tuple(dict.fromkeys([package.root, *environment.site_packages]))
    return replace(environment, site_packages=sites), package.import_name


def resolve(archs: Sequence[str]) -> tuple[tuple[Target, ...], tuple[str, ...]]:
    """The targets meant, and what told of this machine's GPUs.

    A capability means its ``a`` target: what Triton and FlashInfer build for it.
    Raises UsageError for an unknown device.
    """
    found: dict[Target, None] = {}
    seen = list(detect())
    for text in archs:
        if text != AUTO:
            found[_target(parse_device(text))] = None
        elif seen:
            found |= dict.fromkeys(_target(capability) for capability, _ in seen)
        else:
            found[target(ASSUMED)] = None
    return tuple(found), tuple(f"{capability} ({said})" for capability, said in seen)


def _target(device: Capability | Target) -> Target:
    if isinstance(device, Target):
        return device
    return target(f"sm_{device.number}{'a' if device.major >= 9 else ''}")
