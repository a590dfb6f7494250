"""A plan for real: the verb ``run`` and sessions, on Ray actors or threads."""
