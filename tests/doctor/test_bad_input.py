"""What cannot be read is said, and the rest goes on: closed, truncated, hostile, half unpacked."""

from __future__ import annotations

import json
import os
import pickle
import shlex
import shutil
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from patcher.binary.dynamic import read_dynamic
from patcher.doctor.model import Result, Status
from patcher.errors import InputError
from patcher.explain import explain
from tests.doctor import mini
from tests.doctor.helpers import bad, doctor, sm_patch
from tests.doctor.test_extensions import CHECK, build

NOBODY = 65534


def unprivileged(work: Callable[[], dict[str, Result]]) -> dict[str, Result]:
    """Do it as a user whom permissions bind; root reads everything."""
    receiver, sender = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            if os.geteuid() == 0:
                os.setgroups([])
                os.setresgid(NOBODY, NOBODY, NOBODY)
                os.setresuid(NOBODY, NOBODY, NOBODY)
            answer: object = work()
        except BaseException as error:  # noqa: BLE001 - told to the parent
            answer = repr(error)
        with os.fdopen(sender, "wb") as pipe:
            pickle.dump(answer, pipe)
        os._exit(0)
    os.close(sender)
    with os.fdopen(receiver, "rb") as pipe:
        found = pickle.load(pipe)
    os.waitpid(child, 0)
    assert isinstance(found, dict), found
    return found


@pytest.fixture
def open_site() -> Iterator[Path]:
    """A site-packages that others may enter (pytest's own folders are closed to them)."""
    folder = Path(tempfile.mkdtemp(prefix="sm-patch-test-"))
    folder.chmod(0o755)
    site = folder / "site-packages"
    built_with = folder / "older"
    build(built_with / "libc10.so", CHECK.format("int", " {}"))
    build(site / "torch/lib/libc10.so", CHECK.format("unsigned", " {}"))
    mini.dist(site, "torch", "2.11.0", "torch/lib/libc10.so")
    for name in ("ext", "other"):
        build(site / f"{name}/ops.so", CHECK.format("int", ";") + "void f() { "
              "c10::cuda::c10_cuda_check_implementation(1, 0, 0, 1, true); }",
              f"-L{built_with}", "-lc10", "-Wl,-rpath,$ORIGIN/../torch/lib")
        mini.dist(site, name, "1.0", f"{name}/ops.so")
    mini.cuda(site)
    mini.flashinfer(site)
    yield site
    for path in [folder, *folder.rglob("*")]:
        if path.is_dir() and not path.is_symlink():
            path.chmod(0o755)
    shutil.rmtree(folder)


def test_nothing_is_closed(open_site: Path) -> None:
    assert unprivileged(lambda: mini.findings(open_site)).keys() == {"abi-ext", "abi-other"}


CLOSED = [  # a place, and what may not be judged any more
    ("ext", {"abi-ext"}), ("ext/ops.so", set()), ("ext-1.0.dist-info", set()),
    ("ext-1.0.dist-info/RECORD", {"abi-ext"}), ("torch", {"abi-ext", "abi-other"}),
    ("torch/lib", set()), ("torch/lib/libc10.so", set()), ("nvidia", set()),
    ("nvidia/cu13", set()), ("nvidia/cu13/bin", set()), ("nvidia/cu13/bin/nvcc", set()),
    ("nvidia/cu13/include", set()), ("nvidia/cu13/lib", set()), ("flashinfer", set()),
    ("", {"abi-ext", "abi-other"}),
]


@pytest.mark.parametrize(("place", "unjudged"), CLOSED, ids=[row[0] or "." for row in CLOSED])
def test_what_is_closed_is_named_and_the_rest_goes_on(open_site: Path, place: str,
                                                      unjudged: set[str]) -> None:
    mini.findings(open_site)  # so that nothing is left to be imported
    (open_site / place).chmod(0)
    found = unprivileged(lambda: mini.findings(open_site))
    assert str(open_site / place) in found["permissions"].evidence
    assert explain([found["permissions"].evidence[-1]])
    assert "installs" not in found  # closed is not missing
    assert not unjudged & found.keys()
    if place not in ("", "torch", "torch/lib", "torch/lib/libc10.so"):
        assert found["abi-other"].status is Status.ERROR
    if place.startswith("torch/lib"):  # no torch, no verdict: never a wrong one
        assert found["abi-other"].status is Status.WARNING
        assert "is not judged: torch is not whole" in found["abi-other"].summary
    if place == "ext/ops.so":
        assert "ops.so cannot be read" in found["abi-ext"].summary


@pytest.mark.skipif(os.geteuid() != 0, reason="needs to become another user")
def test_a_closed_environment_is_an_error_in_one_line(open_site: Path) -> None:
    open_site.parent.chmod(0o700)
    assert "permissions" in unprivileged(lambda: mini.findings(open_site))


@pytest.mark.parametrize("state", ["no metadata", "a library is missing", "a library is cut"])
def test_a_torch_that_is_still_being_unpacked_judges_nobody(open_site: Path, state: str) -> None:
    """Against half a torch every extension would look wrong."""
    if state == "no metadata":
        shutil.rmtree(open_site / "torch-2.11.0.dist-info")
    elif state == "a library is missing":
        (open_site / "torch-2.11.0.dist-info/RECORD").write_text(
            "torch/lib/libc10.so,,\ntorch/lib/libtorch.so,,\n")
    else:
        library = open_site / "torch/lib/libc10.so"
        library.write_bytes(library.read_bytes()[:900])
    found = mini.findings(open_site)["abi-ext"]
    assert found.status is Status.WARNING
    assert "ext is not judged: torch " in found.summary
    text = sm_patch("abi", "ext", "--root", open_site)
    assert "cannot be read: torch " in text
    assert "does not fit" not in text
    sm_patch("abi", "ext", "--root", open_site, "--fail-on", "error", expect=1)


def elf(tables: bytes, entries: list[tuple[int, int]], size: int = 0) -> bytes:
    """A shared object of one segment: header, program headers, dynamic section, tables.

    Addresses equal offsets; ``entries`` may name the place of the tables as -1.
    """
    start = 64 + 2 * 56
    rows = [(tag, start + 16 * (len(entries) + 1) if value == -1 else value)
            for tag, value in entries]
    dynamic = b"".join(struct.pack("<qQ", *row) for row in [*rows, (0, 0)])
    whole = size or start + len(dynamic) + len(tables)
    header = struct.pack("<16sHHIQQQIHHHHHH", b"\x7fELF\x02\x01\x01", 3, 62, 1, 0, 64, 0, 0, 64,
                         56, 2, 64, 0, 0)
    load = struct.pack("<IIQQQQQQ", 1, 5, 0, 0, 0, whole, whole, 4096)
    second = struct.pack("<IIQQQQQQ", 2, 4, start, start, 0, len(dynamic), len(dynamic), 8)
    return header + load + second + dynamic + tables


HASH, STRTAB, SYMTAB, STRSZ, GNU_HASH = 4, 5, 6, 10, 0x6FFFFEF5
HOSTILE = {
    # 2^32 - 1 symbols, of which the file has none
    "endless symbols": elf(struct.pack("<II", 1, 0xFFFFFFFF), [(HASH, -1), (SYMTAB, -1)]),
    "a string table past the end": elf(b"\0" * 8, [(STRTAB, -1), (STRSZ, 1 << 40)]),
    "a string table of 2^64 - 1": elf(b"\0" * 8, [(STRTAB, -1), (STRSZ, (1 << 64) - 1)]),
    "an address outside": elf(b"", [(STRTAB, 1 << 62), (STRSZ, 8)]),
    "many buckets": elf(struct.pack("<IIII", 0xFFFFFFFF, 1, 0, 0), [(GNU_HASH, -1), (SYMTAB, -1)]),
    "a chain without an end": elf(struct.pack("<IIIII", 1, 0, 0, 0, 5) + b"\0" * 4000,
                                  [(GNU_HASH, -1), (SYMTAB, -1)]),
}


@pytest.mark.parametrize("content", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_tables_end_soon_and_in_an_error(tmp_path: Path, content: bytes) -> None:
    library = tmp_path / "x.so"
    library.write_bytes(content)
    start = time.process_time()
    with pytest.raises(InputError):
        read_dynamic(library)
    assert time.process_time() - start < 1


def test_a_gigantic_symbol_table_is_bounded(tmp_path: Path) -> None:
    """8 million symbols that all name the same text: 200 MB, in a file with holes."""
    count = 8_000_000
    names = b"\0_ZN3c101aE\0"
    data = elf(names, [(STRTAB, -1), (STRSZ, len(names)), (SYMTAB, 4096), (HASH, 2048)],
               size=4096 + 24 * count)
    library = tmp_path / "x.so"
    with open(library, "wb") as file:
        file.write(data)
        file.seek(2048)
        file.write(struct.pack("<II", 1, count))
        file.truncate(4096 + 24 * count)
    start = time.process_time()
    with pytest.raises(InputError, match="too large"):
        read_dynamic(library)
    assert time.process_time() - start < 1


def test_every_cut_of_a_library_is_an_error_or_the_same(tmp_path: Path) -> None:
    """A wheel that is still being written: at any length no crash, and no invented names."""
    whole = build(tmp_path / "ext.so", "void f(); void g() { f(); }")
    full, data = read_dynamic(whole), whole.read_bytes()
    cut = tmp_path / "cut.so"
    for length in range(0, len(data), 97):
        cut.write_bytes(data[:length])
        try:
            found = read_dynamic(cut)
        except InputError:
            continue
        assert found.undefined <= full.undefined
        assert found.defined <= full.defined


@pytest.mark.parametrize("kind", ["pipe", "folder", "link to itself", "broken link", "device"])
def test_what_is_no_file_stops_nothing(open_site: Path, kind: str) -> None:
    place = open_site / "ext/ops.so"
    place.unlink()
    if kind == "pipe":
        os.mkfifo(place)
    elif kind == "folder":
        place.mkdir()
    elif kind == "device":
        place.symlink_to("/dev/zero")
    else:
        place.symlink_to("ops.so" if kind == "link to itself" else "gone")
    found = bad(doctor(open_site))
    assert "abi-other" in found
    assert "ext lacks libraries" in found["installs"]["summary"]


def test_a_fat_binary_that_lies_about_its_size(tmp_path: Path) -> None:
    """Entries that claim more than the file holds; found by chance in a damaged download."""
    unit = tmp_path / "k.s"
    unit.write_text(".section .nv_fatbin,\"a\"\n.quad 0x0010000100000000 + 0xBA55ED50\n"
                    ".quad 0x7fffffffffffffff\n.globl f\nf:\n")
    library = tmp_path / "site/ext/k.so"
    library.parent.mkdir(parents=True)
    subprocess.run(["gcc", "-shared", unit, "-o", library], check=True)
    mini.dist(tmp_path / "site", "ext", "1.0", "ext/k.so")
    found = mini.findings(tmp_path / "site")["gpu-code-ext"]
    assert "the GPU code of k.so cannot be read" in found.summary


EVIL = "x; touch ran\x1b]0;title\x07"


def test_names_of_packages_are_no_commands(open_site: Path, tmp_path: Path) -> None:
    """A printed command runs what it shows, and a terminal obeys no name."""
    (open_site / "ext-1.0.dist-info").rename(open_site / f"{EVIL}-1.0.dist-info")
    (open_site / f"{EVIL}-1.0.dist-info/RECORD").write_text("ext/ops.so,,\next/gone.so,,\n")
    mini.dist(open_site, "y; touch ran", "1.0", "ext/ops.so")
    text = sm_patch("doctor", "--root", open_site)
    assert "\x1b" not in text
    assert "\x07" not in text
    assert "no command can be shown" in text
    commands = [line.partition(": ")[2].strip() for line in text.splitlines()
                if line.lstrip().startswith(("repair:", "or:", "Next:"))]
    assert any("'y; touch ran'" in command for command in commands)
    for command in commands:  # as a shell takes them apart
        if not command.startswith("(") and " && " not in command:
            assert "touch" not in shlex.split(command)
    json.loads(sm_patch("doctor", "--root", open_site, "--format", "json"))


@pytest.mark.parametrize("text", ["../../../../etc/passwd.so,,\n", "/etc/x.so,,\n", "a" * 200_000,
                                  "\0\0\0", "ext/../../x.so,,\n", '"ext/ops.so', "\r\n" * 1000])
def test_a_record_that_lies_leads_nowhere_else(open_site: Path, text: str) -> None:
    (open_site / "ext-1.0.dist-info/RECORD").write_text(text + "\nother/ops.so,,\n")
    found = mini.findings(open_site)
    assert not any("passwd" in line for result in found.values() for line in result.evidence)
    assert "abi-other" in found


@pytest.mark.slow
@pytest.mark.parametrize("place", ["nvidia/cu13/bin/nvcc", "nvidia/cu13/nvvm/bin/cicc",
                                   "nvidia/cu13/include/cuda_runtime_api.h",
                                   "nvidia/cu13/include/crt/host_runtime.h",
                                   "nvidia/cu13/bin/nvcc.profile", "torch/version.py",
                                   "ext/__init__.py", "nvidia/cu13/include/cuda_fp16.h"])
@pytest.mark.parametrize("kind", ["pipe", "device", "empty"])
def test_files_of_strange_kinds_do_not_hold_the_doctor(open_site: Path, place: str, kind: str
                                                       ) -> None:
    """A pipe without a writer would be waited for until morning, /dev/zero read for ever."""
    path = open_site / place
    path.unlink(missing_ok=True)
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    else:
        path.write_bytes(b"")
    run = subprocess.run([sys.executable, "-m", "patcher", "doctor", "--root", open_site],
                         capture_output=True, text=True, timeout=60, check=False)
    assert run.returncode == 0, run.stderr
    assert "abi-other" in run.stdout
