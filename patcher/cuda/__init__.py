"""A preprocessor for all targets at once. It knows nothing of packages and patches.

``walk.Walker`` turns a ``model.TranslationUnit`` into a ``model.UnitReport``; ``directives``
has the #if ladders of one file with their bytes and the normal form of conditions,
``live`` the lines of a file that a world compiles.

From the bytes up: ``lexer`` finds directives, ``skeleton`` keeps what a walk needs of a
file, ``files`` loads each once, ``includes`` resolves headers, ``values`` and ``state``
hold macros in all worlds, ``tokens``, ``expand`` and ``expression`` compute a condition in
one world, ``conditions`` in all, ``ladder`` and ``unit`` walk, ``record`` remembers what a
header did, ``report`` collects, ``results`` and ``store`` keep it on disk.
"""
