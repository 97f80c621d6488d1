"""The registry of JIT and AOT caches, and their narrow invalidation.

Use, in this order:

    places = locate(environ)                       # registry.py
    actions = plan(touched, environ)               # invalidate.py
    with ModuleLocks(timeout) as locks:            # locks.py
        locks.take(actions)                        # LockHeld before any write
        ...write and commit...
        execute(plan(touched, environ), locks)     # dependencies recorded now
"""
