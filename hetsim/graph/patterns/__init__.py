"""Patterns of nodes: their text, and where in a graph they fit."""
