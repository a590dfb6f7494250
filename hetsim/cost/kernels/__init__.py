"""Kernels in numbers: what one is, what it takes by a device's figures, which nodes join one."""
