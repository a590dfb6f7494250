"""Kernels: their features, times by a device's figures, and fusion."""
