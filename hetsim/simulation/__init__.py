"""How long a plan takes: the verb ``simulate`` and the virtual clock."""
