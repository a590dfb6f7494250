"""Real execution of plans: the verb ``run`` and sessions, on Ray actors or threads."""
