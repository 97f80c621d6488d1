"""The real CMake on the same project: what it would build, with a harness around the project."""

from __future__ import annotations

import shutil
import subprocess
import sysconfig
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from patcher.cmake.model import Answer, Project, Settings
from patcher.cmake.project import configure, for_language
from patcher.tree import FolderTree

HERE = Path(__file__).parent
# torch.utils.cpp_extension.COMMON_NVCC_FLAGS of torch 2.9
TORCH = ("-D__CUDA_NO_HALF_OPERATORS__;-D__CUDA_NO_HALF_CONVERSIONS__;"
         "-D__CUDA_NO_BFLOAT16_CONVERSIONS__;-D__CUDA_NO_HALF2_OPERATORS__;"
         "--expt-relaxed-constexpr")
_MODULES = ("FetchContent", "CheckCXXCompilerFlag")  # what the harness defines instead


@dataclass
class Built:
    """A target: options and definitions, and both properties of each source."""

    options: list[str]
    definitions: list[str]
    sources: dict[str, list[str]] = field(default_factory=dict)


def cmake() -> str:
    """The cmake beside this interpreter, else the one on PATH; skips without one."""
    scripts = Path(sysconfig.get_path("scripts")) / "cmake"
    found = str(scripts) if scripts.exists() else shutil.which("cmake")
    if found is None:
        pytest.skip("no cmake here; it is one of the dev requirements")
    return found


def variables(archs: str, cuda: str) -> dict[str, str]:
    """What a machine with these architectures to build for would say."""
    flags = "".join(f" -gencode arch=compute_{a},code=sm_{a}" for a in archs.split())
    return {"CMAKE_CUDA_FLAGS": flags, "CMAKE_CUDA_COMPILER_VERSION": cuda, "CUDA_VERSION": cuda,
            "CUDA_FOUND": "TRUE", "VLLM_PYTHON_EXECUTABLE": "/usr/bin/python3",
            "CMAKE_SYSTEM_PROCESSOR": "x86_64", "CMAKE_CXX_COMPILER_ID": "GNU",
            "CMAKE_CXX_COMPILER_VERSION": "13.2",
            "CUTLASS_INCLUDE_DIR": "/@fetched/cutlass/include"}


def ours(project: Path, archs: str, cuda: str) -> Project:
    """Our reading."""
    answers = {"run_python": [Answer("COMMON_NVCC_FLAGS", 0, TORCH),
                              Answer("Py_GIL_DISABLED", 0, "0"), Answer("", 0, "")],
               "find_python_from_executable": []}
    return configure(FolderTree(project), "", Settings(variables(archs, cuda), answers=answers))


def theirs(project: Path, archs: str, cuda: str, folder: Path) -> dict[str, Built]:
    """CMake's, in a copy of the project below ``folder``."""
    home, fetched = folder / "project", folder / "fetched"
    shutil.copytree(project, home, ignore=shutil.ignore_patterns("vllm", "docs", "tests", ".git"))
    (home / "CMakeLists.txt").rename(home / "Project.cmake")
    shutil.copy(HERE / "harness.cmake", home / "CMakeLists.txt")
    for name in ("flashmla/flash_mla/flash_mla_interface.py", "cutlass/include/cutlass/cutlass.h",
                 *(f"../modules/{module}.cmake" for module in _MODULES)):
        (fetched / name).parent.mkdir(parents=True, exist_ok=True)
        (fetched / name).touch()
    lines = [f'set({name} "{value}")' for name, value in variables(archs, cuda).items()]
    lines += [f'set(TORCH_FLAGS "{TORCH}")', f"set(FETCHED {fetched})",
              f"set(CMAKE_MODULE_PATH {folder}/modules)", f"set(FETCHCONTENT_BASE_DIR {fetched})"]
    settings = folder / "settings.cmake"
    settings.write_text("\n".join(lines).replace("/@fetched", str(fetched)))
    done = subprocess.run(
        [cmake(), "-S", home, "-B", folder / "build", "-G", "Ninja",
         f"-DSETTINGS={settings}", f"-DRESULT={folder / 'result'}"],
        capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    text = (folder / "result").read_text().replace(str(fetched), "@fetched")
    return _read(text.replace(f"{home}/", "").replace(str(folder / "build"), "@build"))


def _read(text: str) -> dict[str, Built]:
    found: dict[str, Built] = {}
    for line in text.splitlines():
        kind, name, first, second = line.split("\t")
        if kind == "target":
            found[name] = last = Built(for_language([first]), [d for d in second.split(";") if d])
        else:
            last.sources[name] = sorted(for_language([first, second.replace(" ", ";")]))
    return found


def of_project(project: Project) -> dict[str, Built]:
    """Our reading in the same form."""
    found = {}
    for target in project.targets:
        own = {source: sorted(for_language(
            [option.text for option in project.source_options.get(source, ())]))
            for source in target.sources}
        found[target.name] = Built(for_language(target.options), target.definitions, own)
    return found
