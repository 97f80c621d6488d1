"""Deciding a transaction: from applied patchsets and new ones to steps; it only reads.

    with writing(home, caches) as session:       # patcher.session: lock, recovery
        view = session.view(package)             # what plan may know of one package
        staged = session.stage(request, targets) # refusals, or steps and the next journal
        session.commit(staged, caches)           # intent, write, commit, invalidate
"""
