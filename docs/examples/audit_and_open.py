"""Say what keeps a GPU out of a package, show the change that opens it, and apply it.

    python docs/examples/audit_and_open.py PACKAGE PATCHSET [--root DIR] [--write]
"""

from __future__ import annotations

import argparse
import sys

import patcher
from patcher.errors import PatcherError


def main() -> int:
    """0 when the patchset is in place or not needed, 1 when it waits for --write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("package")
    parser.add_argument("patchset")
    parser.add_argument("--arch", default="sm_120a")
    parser.add_argument("--root")
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()

    found = patcher.scan(given.package, arch=given.arch, root=given.root)
    for gate in found.findings:
        if gate.opened_by:
            print(f"{gate.severity.value:8}  {gate.location.path}:{gate.location.line}  "
                  f"opened by {gate.opened_by}")

    planned = patcher.plan(given.patchset, arch=given.arch, root=given.root)
    if not planned.changed:
        print("nothing to change")
        return 0
    print(planned.diff, end="")
    if not given.write:
        return 1
    done = patcher.apply(given.patchset, arch=given.arch, root=given.root, talk=print)
    for package in done.packages:
        print(f"{package.name}: {package.before[:12]} -> {package.after[:12]}")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except PatcherError as error:
        sys.exit(f"{error}\nnext: {error.next_step}")
