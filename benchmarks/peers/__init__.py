"""Partitioners of other projects, called on the graphs that ours are measured on."""
