"""The registry of JIT and AOT caches, and their narrow invalidation.

``registry`` is the atlas, ``environ`` the server's variables, ``invalidate`` plans and
reconciles, ``handler.CacheHandler`` is what a transaction is given, ``aot`` finds
prebuilt modules that win over patched source.
"""
