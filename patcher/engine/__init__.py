"""The transaction engine: from applied patchsets and new ones to steps, and safely to disk.

    with Session(home, ...) as session:          # lock, recovery
        view = session.view(package)             # plan.State of one package
        staged = session.stage(adds, drops)      # refusals, steps, the next journal
        session.commit(staged, caches)           # intent, write, commit record, invalidate

Only ``patcher.apply`` writes into a target; everything here decides or remembers.
"""
