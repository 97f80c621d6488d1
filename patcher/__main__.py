"""``python -m patcher`` is the console script."""

from __future__ import annotations

import sys

from patcher.cli import main

if __name__ == "__main__":
    sys.exit(main())
