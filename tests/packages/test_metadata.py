"""RECORD and metadata of packages that lie, and a real wheel installed for real."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from patcher.package import RecordState, find_environment, find_package, normalise
from patcher.package.metadata import parse_record
from patcher.profiles import profile_for
from patcher.toolchain.find import find_toolkit

WHEELS = Path(__file__).parents[2] / "corpus" / "wheels"


def test_record_paths_that_leave_the_root_are_dropped() -> None:
    found = parse_record("../../../bin/tool,,\n/etc/passwd,sha256=AA,1\na/../../b,,\n"
                         '"with,comma.py",,\nplain.py,,\n')
    assert list(found) == ["with,comma.py", "plain.py"]


@pytest.mark.parametrize("row", ["mini/b.py,sha256=x,\u00b2", "x" * 200_000 + ",,", "mini/b.py",
                                 'mini/b.py,"sha256=', "mini/b.py,md5=00,1", ",,"])
def test_a_row_that_makes_no_sense_hides_no_other(row: str) -> None:
    found = parse_record(f"mini/a.py,,\n{row}\nmini/c.py,,\n")
    assert "mini/a.py" in found
    assert row.startswith('mini/b.py,"') or "mini/c.py" in found  # an open quote goes on
    assert all(not entry.digest for entry in found.values())


def test_hashes_are_those_of_the_specification() -> None:
    """sha256 of nothing, in urlsafe base64 without padding, as the wheel format writes it."""
    found = parse_record("a,sha256=47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU,0\n"
                         "b,sha256=broken!,0\nc,md5=1B2M2Y8AsgTpgAmY7PhCfg,0\nd,sha256=QQ,x\n")
    assert found["a"].digest == ("e3b0c44298fc1c149afbf4c8996fb924"
                                 "27ae41e4649b934ca495991b7852b855")
    assert [found[n].digest for n in "bcd"] == ["", "", ""], "nothing is compared with these"
    assert (found["a"].size, found["d"].size) == (0, None)


@pytest.mark.parametrize("name", ["FlashInfer_Python", "flashinfer.python", "flashinfer--python"])
def test_names_compare_as_pep_503_says(name: str) -> None:
    assert normalise(name) == "flashinfer-python"


@pytest.mark.wheels
@pytest.mark.slow
def test_flashinfer_as_installed(uv: Callable[..., None], venv: Path, tmp_path: Path) -> None:
    """Both names, RECORD, and tvm-ffi's headers from the package's own environment."""
    wheels = [next(WHEELS.glob(f"{name}-*.whl"), None)
              for name in ("flashinfer_python-0.6.3", "apache_tvm_ffi")]
    if None in wheels:
        pytest.skip("the wheels are not here; run `make corpus`")
    uv("pip", "install", "--python", venv, "--no-deps", "--cache-dir", tmp_path / "cache",
       *[w for w in wheels if w])
    environment = find_environment(str(venv))
    package = find_package("flashinfer", environment)
    assert package.name == find_package("flashinfer-python", environment).name
    assert (package.import_name, package.version) == ("flashinfer", "0.6.3")
    assert package.differs_from_record("flashinfer/jit/comm.py") is RecordState.SAME
    toolkit = find_toolkit(None, environment)
    unit = next(u for u in profile_for(package).translation_units(package, toolkit)
                if u.path.endswith("/trtllm_allreduce.cu"))
    site = environment.site_packages[0]
    assert str(site / "tvm_ffi" / "include") in unit.configuration.system
    assert str(environment.include) == unit.configuration.system[0]
