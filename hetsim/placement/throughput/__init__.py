"""Stages of least bottleneck: cuts, moves and proofs."""
