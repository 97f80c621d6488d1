"""Extensions built against another torch, and libraries the loader will not find."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from patcher.binary.abi import MissingSymbol, missing_symbols
from patcher.binary.dynamic import Dynamic, read_dynamic
from patcher.binary.loader import Loader, ld_cache
from patcher.doctor.model import Repair, Result, Status, Surroundings
from patcher.errors import PatcherError

EXTENSIONS = ("sgl_kernel", "vllm", "xformers", "flash_attn", "transformer_engine", "deep_gemm")
_DRIVER = ("libcuda.so.1", "libnvidia-ml.so.1")


def torch_abi(surroundings: Surroundings) -> Iterable[Result]:
    """Symbols each extension asks of torch against what the installed torch exports."""
    torch = surroundings.anywhere("torch")
    providers = list(_libraries(torch / "lib")) if torch else []
    for name in EXTENSIONS:
        folder = surroundings.installed(name)
        if folder is None:
            continue
        if not providers:
            yield Result(f"abi-{name}", Status.SKIPPED, f"{name}: there is no torch to compare with")
            continue
        yield from _compare(name, folder, providers, surroundings)


def _compare(
    name: str, folder: Path, providers: list[Dynamic], surroundings: Surroundings
) -> Iterator[Result]:
    clean = True
    for path in shared_objects(folder):
        try:
            lost = missing_symbols(read_dynamic(path), providers)
        except PatcherError as error:
            yield Result(f"abi-{name}", Status.WARNING, f"cannot be checked: {error}")
            continue
        if not lost:
            continue
        clean = False
        version = surroundings.version_of("torch") or "an unknown version"
        yield Result(
            f"abi-{name}", Status.ERROR,
            f"{path.relative_to(folder.parent)} was built for another torch than {version}: "
            f"{len(lost)} symbols are missing",
            (*(_shown(m) for m in lost[:6]),
             f"expect: ImportError: undefined symbol: {lost[0].symbol}"),
            Repair(commands=(f"sm-patch abi {name}",)),
        )
    if clean:
        yield Result(f"abi-{name}", Status.OK, f"{name}: every torch symbol it needs is there")


def _shown(lost: MissingSymbol) -> str:
    return f"{lost.readable} ({lost.difference})" if lost.difference else lost.readable


def needed_libraries(surroundings: Surroundings) -> Iterable[Result]:
    """DT_NEEDED as the loader resolves it after ``import torch``."""
    torch = surroundings.anywhere("torch")
    path = tuple((surroundings.variables.get("LD_LIBRARY_PATH") or "").split(":"))
    cache = ld_cache()
    preloaded = [torch / "lib" / "libtorch_python.so"] if torch else []
    for name in EXTENSIONS:
        folder = surroundings.installed(name)
        for library in shared_objects(folder) if folder else ():
            try:
                loader = Loader(path, cache, [p for p in preloaded if p.is_file()])
                missing = [m for m in loader.load(library).missing if m.name not in _DRIVER]
            except PatcherError:
                continue  # reported by the ABI check
            for lost in missing:
                yield _not_found(lost.name, lost.asker, surroundings)


def _not_found(name: str, asker: Path, surroundings: Surroundings) -> Result:
    stem, _, major = name.partition(".so.")
    present = [
        p for site in surroundings.environment.site_packages
        for pattern in ("nvidia/*/lib", "torch/lib") for p in site.glob(f"{pattern}/{stem}.so*")
    ]
    evidence = (f"needed by {asker}",
                f"expect: ImportError: {name}: cannot open shared object file")
    if exact := next((p for p in present if p.name == name), None):
        return Result(
            "loader", Status.ERROR, f"{name} is installed but the loader will not find it",
            (*evidence, f"it is {exact}"),
            Repair(commands=(f"export LD_LIBRARY_PATH={exact.parent}:$LD_LIBRARY_PATH",)))
    if present:
        return Result(
            "loader", Status.ERROR,
            f"{name} is needed but only {present[0].name} is installed: the wheel was built for "
            f"CUDA {major}", (*evidence, f"found {present[0]}"),
            Repair(commands=(("install the wheel built for this CUDA major version; a symlink "
                             "between major versions crashes later"),)))
    return Result("loader", Status.WARNING, f"{name} is not on this machine", evidence)


def shared_objects(folder: Path) -> list[Path]:
    """The libraries of a package, links that leave it excluded."""
    return sorted(p for p in folder.rglob("*.so") if p.is_file() and not p.is_symlink())


def _libraries(folder: Path) -> Iterator[Dynamic]:
    for path in sorted(folder.glob("*.so")):
        try:
            yield read_dynamic(path)
        except PatcherError:
            continue
