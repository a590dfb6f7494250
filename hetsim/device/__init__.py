"""Devices: node support, compilation of subgraphs, and properties."""
