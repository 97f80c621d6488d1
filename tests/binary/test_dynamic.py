"""Dynamic symbols, load-time resolution and ABI gaps, against nm, ldd and gcc."""

from __future__ import annotations

import struct
import subprocess
import sys
import sysconfig
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from patcher.binary.abi import Exports, describe_difference, missing_symbols, split_signature
from patcher.binary.demangle import readable
from patcher.binary.dynamic import read_dynamic
from patcher.binary.loader import Loader
from patcher.errors import InputError, PatcherError

REAL = sorted(
    {Path(p).resolve() for p in [sysconfig.get_config_var("LIBDIR") + "/libpython3.so"]}
    | set(Path("/usr/lib").glob("*-linux-gnu/libstdc++.so.6"))
    | set(Path("/usr/lib").glob("*-linux-gnu/libc.so.6"))
    | set(Path(sys.prefix).glob("lib/python3*/site-packages/libcst/*.so"))
)


def nm(path: Path, *flags: str) -> list[list[str]]:
    run = subprocess.run(["nm", "-D", *flags, path], capture_output=True, text=True, check=True)
    return [line.split() for line in run.stdout.splitlines()]


@pytest.mark.parametrize("path", [p for p in REAL if p.is_file()], ids=lambda p: p.name)
def test_symbols_equal_those_of_nm(path: Path) -> None:
    dynamic = read_dynamic(path)
    assert dynamic.defined == {row[-1].split("@")[0] for row in nm(path, "--defined-only")}
    undefined = nm(path, "--undefined-only")
    assert dynamic.undefined == {r[-1].split("@")[0] for r in undefined if r[-2] == "U"}
    assert dynamic.weak >= {r[-1].split("@")[0] for r in undefined if r[-2] in "wv"}


def said(*command: str | Path) -> str:
    """All that a command printed, whatever its exit code."""
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    return run.stdout + run.stderr


def build(folder: Path, name: str, source: str, *flags: str) -> Path:
    unit, library = folder / f"{name}.cc", folder / f"lib{name}.so"
    unit.write_text(source)
    command: list[str | Path] = ["g++", "-shared", "-fPIC", "-o", library, unit]
    subprocess.run([*command, f"-Wl,-soname,{library.name}", *flags], check=True)
    return library


def exports(*libraries: Path) -> Exports:
    return Exports.of(map(read_dynamic, libraries))


def test_a_changed_parameter_is_named(tmp_path: Path) -> None:
    user = build(tmp_path, "user", "namespace c10 { void check(int, const char*); void gone(); }"
                                   "void f() { c10::check(1, 0); c10::gone(); }")
    new = build(tmp_path, "new", "namespace c10 { void check(unsigned, const char*) {} }")
    old = build(tmp_path, "old", "namespace c10 { void check(int, const char*) {} void gone() {} }")
    assert missing_symbols(read_dynamic(user), exports(old)) == []
    gone, check = missing_symbols(read_dynamic(user), exports(new))
    assert check.readable == "c10::check(int, char const*)"
    assert check.difference == "parameter 1: int expected, unsigned int provided"
    assert gone.readable == "c10::gone()"
    assert not gone.nearest


def test_weak_references_are_not_missing(tmp_path: Path) -> None:
    user = build(tmp_path, "user", "namespace c10 { __attribute__((weak)) void maybe(); }"
                                   "void f() { if (c10::maybe) c10::maybe(); }")
    assert missing_symbols(read_dynamic(user), exports()) == []


def test_the_loader_finds_what_ldd_finds(tmp_path: Path) -> None:
    deep = tmp_path / "deep"
    deep.mkdir()
    build(deep, "base", "int base() { return 1; }")
    user = build(tmp_path, "user", "int base(); int f() { return base(); }",
                 f"-L{deep}", "-lbase", "-Wl,--enable-new-dtags,-rpath,$ORIGIN/deep")
    lost = build(tmp_path, "lost", "int base(); int f() { return base(); }", f"-L{deep}", "-lbase")
    assert Loader().load(user).missing == ()
    assert [m.name for m in Loader().load(lost).missing] == ["libbase.so"]
    assert "not found" in said("ldd", lost)
    assert "not found" not in said("ldd", user)
    assert Loader([str(deep)]).load(lost).missing == ()
    assert Loader(preloaded=[deep / "libbase.so"]).load(lost).missing == ()


def test_an_old_rpath_of_a_loader_serves_its_needs(tmp_path: Path) -> None:
    """DT_RPATH is inherited by what an object loads, DT_RUNPATH is not (ld.so(8))."""
    deep = tmp_path / "deep"
    deep.mkdir()
    build(deep, "leaf", "int leaf() { return 1; }")
    build(deep, "mid", "int leaf(); int mid() { return leaf(); }", f"-L{deep}", "-lleaf")
    for tags, lost in (("--disable-new-dtags", []), ("--enable-new-dtags", ["libleaf.so"])):
        top = build(tmp_path, "top", "int mid(); int f() { return mid(); }", f"-L{deep}", "-lmid",
                    f"-Wl,{tags},-rpath,$ORIGIN/deep", "-Wl,--allow-shlib-undefined")
        assert [m.name for m in Loader().load(top).missing] == lost
        ldd = said("ldd", top)
        assert ("libleaf.so => not found" in ldd) == bool(lost)


@pytest.mark.parametrize("cut", [0, 10, 63, 64, 200, 1000])
def test_truncated_files_are_refused_in_one_line(tmp_path: Path, cut: int) -> None:
    whole = build(tmp_path, "whole", "int f() { return 1; }").read_bytes()
    broken = tmp_path / "broken.so"
    broken.write_bytes(whole[:cut])
    with pytest.raises(InputError) as refusal:
        read_dynamic(broken)
    assert "broken.so" in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_signatures() -> None:
    assert split_signature("a::b<c(int)>(d<e, f>, g)") == ("a::b<c(int)>", ("d<e, f>", "g"))
    assert split_signature("a::x") == ("a::x", ())
    assert describe_difference(("int",), ("int", "bool")) == "one more parameter provided: bool"


def test_origin_is_where_the_object_was_found(tmp_path: Path) -> None:
    """A link's own folder counts, as dlopen shows."""
    for folder in ("deep", "real", "other/place"):
        (tmp_path / folder).mkdir(parents=True)
    build(tmp_path / "deep", "base", "int base() { return 1; }")
    user = build(tmp_path / "real", "user", "int base(); int f() { return base(); }",
                 f"-L{tmp_path / 'deep'}", "-lbase",
                 "-Wl,--enable-new-dtags,-rpath,$ORIGIN/../deep")
    link = tmp_path / "other" / "place" / "libuser.so"
    link.symlink_to(user)
    for path, lost in ((user, []), (link, ["libbase.so"])):
        assert [m.name for m in Loader().load(path).missing] == lost
        program = f"import ctypes; ctypes.CDLL({str(path)!r})"
        opened = said(sys.executable, "-c", program)
        assert ("libbase.so: cannot open" in opened) == bool(lost)


def test_a_process_keeps_what_it_loaded_and_its_fork_goes_its_own_way(tmp_path: Path) -> None:
    build(tmp_path, "base", "int base() { return 1; }")
    user = build(tmp_path, "user", "int base(); int f() { return base(); }", f"-L{tmp_path}",
                 "-lbase")
    first = Loader()
    second = first.fork()
    second.load(tmp_path / "libbase.so")
    assert second.load(user).missing == ()
    assert [m.name for m in first.load(user).missing] == ["libbase.so"]


def hostile(path: Path, strings: bytes, names: int) -> Path:
    """A shared object whose symbols point anywhere into a string table."""
    table = b"".join(struct.pack("<IBBHQQ", 1 + i, 0x10, 0, 0, 0, 0) for i in range(names))
    at_dynamic = 64 + 2 * 56
    at_strings = at_dynamic + 5 * 16
    at_symbols = at_strings + len(strings)
    size = at_symbols + len(table)
    header = struct.pack("<16sHHIQQQIHHHHHH", b"\x7fELF\x02\x01\x01", 3, 62, 1, 0, 64, 0, 0, 64, 56,
                         2, 64, 0, 0)
    segments = struct.pack("<IIQQQQQQ", 1, 4, 0, 0, 0, size, size, 8)
    segments += struct.pack("<IIQQQQQQ", 2, 4, at_dynamic, at_dynamic, 0, 80, 80, 8)
    at_hash = at_symbols  # its second word is read as the number of symbols
    rows = [(5, at_strings), (10, len(strings)), (6, at_symbols), (4, at_hash), (0, 0)]
    dynamic = b"".join(struct.pack("<qQ", tag, value) for tag, value in rows)
    table = struct.pack("<II", 0, names) + table[8:]
    path.write_bytes(header + segments + dynamic + strings + table)
    return path


@pytest.mark.parametrize(("strings", "names"), [
    (b"\0" + b"a" * 1_000_000, 300_000),  # no name ends
    (b"\0" + (b"a" * 60_000 + b"\0") * 16, 300_000),  # names that overlap: 9 GB of them
])
def test_names_that_do_not_end_are_bounded(tmp_path: Path, strings: bytes, names: int) -> None:
    start = time.process_time()
    with pytest.raises(InputError, match="names do not end"):
        read_dynamic(hostile(tmp_path / "hostile.so", strings, names))
    assert time.process_time() - start < 5


def test_the_hostile_shape_is_readable_when_it_is_honest(tmp_path: Path) -> None:
    """So that the refusals above are about the names."""
    found = read_dynamic(hostile(tmp_path / "honest.so", b"\0a\0bc\0", 4))
    assert found.undefined == {"", "bc", "c"}  # from bytes 2, 3, 4; the count stands in entry 1


@settings(max_examples=100, deadline=None,
          suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_damaged_files_end_in_one_line(tmp_path: Path, data: st.DataObject) -> None:
    whole = tmp_path / "libwhole.so"
    if not whole.exists():
        build(tmp_path, "whole", "extern int g(); int f() { return g(); }")
    content = bytearray(whole.read_bytes())
    for _ in range(data.draw(st.integers(1, 8))):
        at = data.draw(st.integers(0, min(len(content), 4096) - 9))
        content[at:at + 8] = data.draw(st.binary(min_size=8, max_size=8))
    damaged = tmp_path / "damaged.so"
    damaged.write_bytes(content)
    assert "\n" not in _complaint(damaged)


def _complaint(path: Path) -> str:
    """Any other exception than an expected one fails the test."""
    try:
        read_dynamic(path)
    except PatcherError as error:
        return str(error)
    return ""


# Of a kernel in sgl-kernel 0.3.21; cut, as a name that c++filt cannot read.
CUTLASS = ("_ZN7cutlass13device_kernelINS_4gemm6kernel13GemmUniversalINS1_10collective13"
           "CollectiveMmaINS1_48MainloopSm90ArrayTmaGmmaWarpSpecializedBlockwiseILi10ENS1_52"
           "KernelPtrArrayTmaWarpSpecializedPingpongFP8BlockwiseEEENS6_IJN")


@pytest.mark.parametrize(("name", "shown"), [
    ("_Z7guardedPf", "guarded(float*)"), ("plain_c", "plain_c"), ("_Z", "_Z"),
    (CUTLASS, ("MainloopSm90ArrayTmaGmmaWarpSpecializedBlockwise, "
               "KernelPtrArrayTmaWarpSpecializedPingpongFP8Blockwise")),
    ("_Z999999999999x", "_Z999999999999x"), ("_ZN" + "9" * 5000, ("_ZN" + "9" * 5000)[:120]),
])
def test_names_for_people(name: str, shown: str) -> None:
    assert readable(name) == shown
