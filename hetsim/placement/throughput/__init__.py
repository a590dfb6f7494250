"""Stages with the least bottleneck: cuts, moves and what is proven of them."""
