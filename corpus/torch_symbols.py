"""Build patcher/data/torch_symbols.json.xz from the libraries of real torch wheels.

    python corpus/torch_symbols.py 2.8.0=DIR/torch/lib 2.9.1=DIR/torch/lib ...

corpus/members.py fetches those libraries (libc10, libc10_cuda, libtorch_cpu, libtorch_cuda,
libtorch_python) without the rest of a wheel.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from patcher.binary.symbols import SHIPPED, exports, pack

if __name__ == "__main__":
    pairs = (argument.partition("=") for argument in sys.argv[1:])
    SHIPPED.write_bytes(pack({release: exports(Path(folder)) for release, _, folder in pairs}))
    print(f"{SHIPPED}: {SHIPPED.stat().st_size} bytes")
