"""Unpack compressed GPU code: LZ4 blocks and zstd frames.

The two formats were measured with nvcc 13.0 (``--compress-mode=speed`` gives the one, ``size``
and ``balance`` the other) and what comes out compared with what cuobjdump 13.5 extracts. The
libraries that unpack them are optional (``sm-patch[unpack]``): Python's own has neither format
before 3.14. Without them, and past the limits, packed code stays unknown.
"""

from __future__ import annotations

from enum import Enum

from patcher.errors import InputError

_MAX_BYTES = 256 << 20  # of one entry, unpacked; the largest known has 29 MB


class Packing(Enum):
    """How an entry of a fat binary is compressed."""

    LZ4 = "LZ4"
    ZSTD = "zstd"


class CannotUnpack(InputError):
    """The library for this format is not installed, or the result would be too large."""


def unpack(data: bytes, packing: Packing, size: int, where: str) -> bytes:
    """Exactly ``size`` bytes; raises CannotUnpack, or InputError when the data is damaged."""
    if size > _MAX_BYTES:
        raise CannotUnpack(f"{size} bytes of {packing.value} are too much", where=where)
    try:
        found = _lz4(data, size) if packing is Packing.LZ4 else _zstd(data, size)
    except ImportError as error:
        raise CannotUnpack(f"{packing.value} cannot be unpacked here", where=where,
                           next_step="pip install 'sm-patch[unpack]'") from error
    if found is None or len(found) != size:
        raise InputError(f"damaged {packing.value} data", where=where)
    return found


def _lz4(data: bytes, size: int) -> bytes | None:
    from lz4.block import LZ4BlockError, decompress

    try:
        found: bytes = decompress(data, uncompressed_size=size)
    except (LZ4BlockError, ValueError):
        return None
    return found


def _zstd(data: bytes, size: int) -> bytes | None:
    from zstandard import ZstdDecompressor, ZstdError

    try:
        # as a stream: a frame may claim any length for itself
        with ZstdDecompressor(max_window_size=_MAX_BYTES).stream_reader(data) as stream:
            return stream.read(size + 1)
    except (ZstdError, MemoryError):
        return None
