"""Linter of plans."""
