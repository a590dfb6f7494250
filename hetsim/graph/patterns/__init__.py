"""Patterns of nodes: their text, and their matches in a graph."""
