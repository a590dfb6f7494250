"""Judges of results, independent of the code that made them."""
