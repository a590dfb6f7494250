"""Measured kernel times: profiles of runtimes, matched to the nodes of a model."""
