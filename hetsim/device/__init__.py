"""Devices: node support, and kernels of subgraphs."""
