"""Toolkits made of wheels, in miniature: skew, missing and mixed headers, link names.

The same on real wheels, with nvcc's own word for each, is in test_trees.py.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from patcher.doctor.run import examine
from patcher.toolchain.find import find_toolkits
from tests.doctor import mini
from tests.doctor.helpers import sm_patch, snapshot, wrong


def test_a_matching_complete_toolkit_has_no_warning(tmp_path: Path) -> None:
    mini.cuda(tmp_path)
    assert not mini.findings(tmp_path)


@pytest.mark.parametrize(("parts", "check", "cause", "command"), [
    ({"crt": "13.0"}, "toolkit-skew-compiler", "crt is 13.0",
     "pip install 'nvidia-cuda-nvcc==13.2.*' 'nvidia-cuda-crt==13.2.*' 'nvidia-nvvm==13.2.*'"),
    ({"nvvm": "13.0"}, "toolkit-skew-compiler", "nvvm is 13.0",
     "pip install 'nvidia-cuda-nvcc==13.2.*' 'nvidia-cuda-crt==13.2.*' 'nvidia-nvvm==13.2.*'"),
    ({"runtime": "13.0"}, "toolkit-skew-runtime", "the runtime headers are 13.0",
     "pip install 'nvidia-cuda-runtime==13.2.*'"),
])
def test_parts_of_two_releases(tmp_path: Path, parts: dict[str, str], check: str, cause: str,
                               command: str) -> None:
    mini.cuda(tmp_path, **parts)  # type: ignore[arg-type]
    found = mini.findings(tmp_path)
    assert found.keys() == {check}
    assert cause in found[check].summary
    assert found[check].repair.commands[0] == command


def test_the_headers_count_where_no_metadata_is(tmp_path: Path) -> None:
    """A tree that was copied together: only __cudaLaunch tells the release of crt."""
    home = mini.cuda(tmp_path)
    for info in tmp_path.glob("*.dist-info"):
        for file in info.iterdir():
            file.unlink()
        info.rmdir()
    assert not mini.findings(tmp_path)
    mini.write(home / "include/crt/host_runtime.h", "#define __cudaLaunch(fun, isTileKernel) f\n")
    assert mini.findings(tmp_path).keys() == {"toolkit-skew-compiler"}


@pytest.mark.parametrize(("cccl", "known"), [("3002000", True), ("3000001", False)])
def test_the_way_around_is_named_only_where_the_header_has_it(tmp_path: Path, cccl: str,
                                                              known: bool) -> None:
    mini.cuda(tmp_path, runtime="13.0", cccl=cccl)
    advice = mini.findings(tmp_path)["toolkit-skew-runtime"].repair.advice
    assert ("CCCL_DISABLE_CTK_COMPATIBILITY_CHECK" in " ".join(advice)) is known


def test_missing_headers_are_named_with_who_needs_them(tmp_path: Path) -> None:
    mini.cuda(tmp_path, cccl=None)
    found = mini.findings(tmp_path)["toolkit-headers"]
    assert "nv/target is missing, which include/cuda_fp16.h:1 includes" in found.summary
    assert found.repair.commands == ("pip install 'nvidia-cuda-cccl==13.2.*'",)
    assert found.repair.patchset is None  # nothing here has them to give
    mini.flashinfer(tmp_path)
    assert mini.findings(tmp_path)["toolkit-headers"].repair.patchset == "cuda-headers/cccl"


def test_a_partial_copy_is_called_one(tmp_path: Path) -> None:
    home = mini.cuda(tmp_path, cccl=None)
    mini.flashinfer(tmp_path)
    text = (tmp_path / "flashinfer/data/cccl/libcudacxx/include/nv/target").read_text()
    mini.write(home / "include/nv/target", text)
    found = mini.findings(tmp_path)["toolkit-headers"]
    assert "nv/detail/__target_macros is missing" in found.summary
    assert "partial copy" in found.summary


def test_the_patchsets_repair_and_are_undone_to_the_byte(tmp_path: Path) -> None:
    site = tmp_path / "site-packages"
    mini.cuda(site, cccl=None, links=False)
    mini.flashinfer(site)
    before = snapshot(site)
    assert mini.findings(site).keys() == {"toolkit-headers", "toolkit-lib64", "toolkit-cudart"}
    for line in dict.fromkeys(r.repair.lines[0] for r in mini.findings(site).values()):
        assert line.startswith("sm-patch apply cuda-")
        sm_patch(*line.split()[1:], "--root", site)
    assert not mini.findings(site)
    assert "already" in sm_patch("apply", "cuda-headers", "--group", "cccl", "--root", site)
    sm_patch("revert", "cuda-headers", "cuda-libraries", "--root", site)
    assert snapshot(site) == before


def test_headers_of_another_release_are_not_mixed_in(tmp_path: Path) -> None:
    site = tmp_path / "site-packages"
    mini.cuda(site)
    mini.flashinfer(site)
    before = snapshot(site)
    sm_patch("apply", "cuda-headers", "--group", "cccl", "--root", site, expect=3)
    sm_patch("apply", "--all", "--root", site)  # what does not fit is no obstacle to the rest
    assert snapshot(site) == before


def test_a_mixture_made_by_hand_is_found(tmp_path: Path) -> None:
    home = mini.cuda(tmp_path)
    mini.write(home / "include/cccl/cuda/std/newer", "")
    found = mini.findings(tmp_path)["toolkit-mixed-cccl"]
    assert found.evidence[1] == str(home / "include/cccl/cuda/std/newer")
    (home / "include/cccl/cuda/std/newer").unlink()
    mini.headers(home / "include", "3006000")
    found = mini.findings(tmp_path)["toolkit-mixed-cccl"]
    assert {line.split()[0] for line in found.evidence[1:3]} == {"3.2.0", "3.6.0"}


def test_broken_links_are_named_and_do_not_end_the_examination(tmp_path: Path) -> None:
    """What a pip upgrade leaves behind: our links, whose targets went."""
    home = mini.cuda(tmp_path)
    (home / "lib64").unlink()
    (home / "lib64").symlink_to("nowhere")
    (home / "lib/libcudart.so").unlink()
    (home / "lib/libcudart.so").symlink_to("libcudart.so.12")
    (home / "include/loop").symlink_to("loop")
    found = mini.findings(tmp_path)
    assert found.keys() == {"toolkit-lib64", "toolkit-cudart"}
    assert "a broken link to libcudart.so.12" in found["toolkit-cudart"].summary
    assert found["toolkit-lib64"].repair.commands == (f"ln -sfn lib {home}/lib64",)
    assert found["toolkit-lib64"].repair.patchset is None  # it would replace nothing


@pytest.mark.parametrize(("folders", "platform"), [
    (["targets/sbsa-linux"], "aarch64"), (["targets/x86_64-linux"], "x86_64"),
])
def test_the_platform_is_that_of_the_toolkits_only_target(tmp_path: Path, folders: list[str],
                                                          platform: str) -> None:
    """A DGX Spark's toolkit (sbsa-linux) looked at from another machine."""
    home = mini.cuda(tmp_path)
    for folder in folders:
        (home / "include").rename(mini.write(home / folder / ".keep").parent / "include")
    (toolkit,) = mini.surroundings(tmp_path).toolkits
    assert (toolkit.platform, toolkit.version) == (platform, "13.2")


@pytest.mark.parametrize(("torch", "warned"), [("12.8", True), ("13.0", False)])
def test_torch_and_nvcc_of_two_major_versions(tmp_path: Path, torch: str, warned: bool) -> None:
    """torch.utils.cpp_extension refuses to build then."""
    mini.cuda(tmp_path)
    mini.write(tmp_path / "torch/version.py", f"cuda: Optional[str] = '{torch}'\n")
    assert ("toolkit-torch" in mini.findings(tmp_path)) is warned


def test_patchsets_are_named_only_for_what_they_can_patch(tmp_path: Path) -> None:
    """A toolkit elsewhere (conda, /usr/local) gets commands alone."""
    home = mini.cuda(tmp_path, cccl=None, links=False)
    mini.flashinfer(tmp_path)
    other = tmp_path / "other"
    home.rename(other)
    found = wrong(examine(replace(mini.surroundings(tmp_path),
                                  toolkits=tuple(find_toolkits(str(other))))))
    assert {"toolkit-headers", "toolkit-lib64", "toolkit-cudart"} <= found.keys()
    assert not any(result.repair.patchset for result in found.values())
