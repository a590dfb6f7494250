"""Simulation: the verb ``simulate`` and the virtual clock."""
