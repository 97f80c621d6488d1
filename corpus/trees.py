"""CUDA toolkits as pip makes them: matching and skewed, complete and not, from real wheels.

    python corpus/trees.py                 every tree
    python corpus/trees.py 13.2 13.2-crt13.0
    python corpus/trees.py --list

pip downloads the wheels (about 550 MB) into corpus/trees/wheels; each is unpacked once and
hard-linked into the trees, so treat a tree as read-only and test on a copy. A tree is a
site-packages folder with ``nvidia/cu13`` and the metadata of its wheels.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

TREES = Path(__file__).resolve().parent / "trees"
WHEELS = TREES / "wheels"
UNPACKED = TREES / "unpacked"

# The parts of three releases. cccl is numbered by itself from 13.3 on: 13.3.5.0.6 is CCCL 3.5.0.
_PARTS = {
    "nvidia-cuda-nvcc": {"13.0": "13.0.88", "13.2": "13.2.78", "13.5": "13.5.37"},
    "nvidia-cuda-crt": {"13.0": "13.0.88", "13.2": "13.2.78", "13.5": "13.5.37"},
    "nvidia-nvvm": {"13.0": "13.0.88", "13.2": "13.2.78", "13.5": "13.5.37"},
    "nvidia-cuda-runtime": {"13.0": "13.0.96", "13.2": "13.2.75", "13.5": "13.5.37"},
    "nvidia-cuda-cccl": {"13.0": "13.0.85", "13.2": "13.2.75", "13.5": "13.3.5.0.6"},
}
# Before 13 each wheel has a folder of its own, and that of nvcc brings no nvcc.
_SPLIT = {"nvidia-cuda-nvcc-cu12": "12.9.86", "nvidia-cuda-runtime-cu12": "12.9.79",
          "nvidia-cuda-cccl-cu12": "12.9.27"}
_SBSA = "sbsa"  # the platform of Grace and of DGX Spark
_SHORT = {"nvcc": "nvidia-cuda-nvcc", "crt": "nvidia-cuda-crt", "nvvm": "nvidia-nvvm",
          "runtime": "nvidia-cuda-runtime", "cccl": "nvidia-cuda-cccl"}


def parts_of(name: str) -> dict[str, str]:
    """A tree's wheels by distribution, from its name.

    ``13.2`` is complete, ``13.2-bare`` lacks cccl (nothing requires it),
    ``13.2-crt13.0`` has one part of another release, ``13.0-sbsa`` is for aarch64
    and ``12.9`` has the layout from before 13.
    """
    release, _, deviation = name.partition("-")
    if release == "12.9":
        return dict(_SPLIT)
    parts = {dist: versions[release] for dist, versions in _PARTS.items()}
    if deviation == "bare":
        del parts["nvidia-cuda-cccl"]
    elif deviation and deviation != _SBSA:
        short = deviation.rstrip("0123456789.")
        parts[_SHORT[short]] = _PARTS[_SHORT[short]][deviation[len(short):]]
    return parts


NAMES = (*_PARTS["nvidia-cuda-nvcc"], "13.0-bare", "13.2-bare", "13.5-bare",
         "13.2-runtime13.0", "13.2-crt13.0", "13.2-nvvm13.0", "13.0-sbsa", "12.9")


def wheel(distribution: str, version: str, machine: str = "x86_64") -> Path:
    """The wheel, downloaded by pip when it is not here yet; raises CalledProcessError."""
    pattern = f"{distribution.replace('-', '_')}-{version}-*{machine}.whl"
    found = sorted(WHEELS.glob(pattern))
    if not found:
        WHEELS.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps",
                   "--disable-pip-version-check", "--only-binary=:all:", "--dest", str(WHEELS),
                   "--platform", f"manylinux2014_{machine}", "--platform",
                   f"manylinux_2_28_{machine}", f"{distribution}=={version}"]
        subprocess.run(command, check=True, stdout=sys.stderr)
        found = sorted(WHEELS.glob(pattern))
    return found[0]


def unpacked(distribution: str, version: str, machine: str = "x86_64") -> Path:
    """A wheel, unpacked once and shared by the trees."""
    suffix = "" if machine == "x86_64" else f"-{machine}"
    folder = UNPACKED / f"{distribution.replace('-', '_')}-{version}{suffix}"
    if not folder.is_dir():
        stage = folder.with_name(f".{folder.name}.{os.getpid()}")
        with zipfile.ZipFile(wheel(distribution, version, machine)) as archive:
            for info in archive.infolist():
                path = Path(archive.extract(info, stage))
                if mode := info.external_attr >> 16 & 0o777:  # programs must stay executable
                    path.chmod(mode)
        stage.rename(folder)
    return folder


def build(name: str, where: Path = TREES) -> Path:
    """The tree of this name below ``where``, made unless it is there."""
    tree = where / name
    if not tree.is_dir():
        stage = where / f".{name}.{os.getpid()}"
        machine = "aarch64" if name.endswith(_SBSA) else "x86_64"
        for distribution, version in parts_of(name).items():
            shutil.copytree(unpacked(distribution, version, machine), stage, copy_function=link,
                            dirs_exist_ok=True)
        stage.rename(tree)
    return tree


def link(source: str, target: str) -> str:
    """A hard link, or a copy on another file system; for shutil.copytree."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)
    return target


def main() -> int:
    """Build the trees that are named, or all."""
    parser = argparse.ArgumentParser(description="Build CUDA trees from pip's wheels.")
    parser.add_argument("names", nargs="*", metavar="NAME", default=[])
    parser.add_argument("--list", action="store_true", help="only print what there is to build")
    arguments = parser.parse_args()
    for name in arguments.names or NAMES:
        if arguments.list:
            print(name, *(f"{d}=={v}" for d, v in parts_of(name).items()))
        else:
            print(build(name))
    return 0


if __name__ == "__main__":
    sys.exit(main())
