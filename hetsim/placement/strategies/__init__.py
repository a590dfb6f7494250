"""Strategies, one per file."""
