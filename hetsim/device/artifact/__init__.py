"""A compiled subgraph as a file: written by one process, checked and opened by another."""
