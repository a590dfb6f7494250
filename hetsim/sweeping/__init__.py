"""Sweeps: the cross product of models, platforms, strategies and workloads."""
