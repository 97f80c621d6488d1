"""Architecture gates in Python source: find them, evaluate them, rewrite them.

Knows nothing of patchsets and packages. ``find.find_gates`` scans a tree,
``evaluate`` answers what an expression is on every architecture,
``match.match_gates`` finds the gates an anchor names, ``rewrite.rewrite`` makes
the edits (the only user of libcst).
"""
