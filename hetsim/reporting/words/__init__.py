"""Figures, names and lists as a reader meets them."""
