"""Bounds linear in counts, which exclude vectors for all policies."""
