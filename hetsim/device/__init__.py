"""Devices: node support, and compilation of subgraphs."""
