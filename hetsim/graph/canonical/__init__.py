"""Canonical model: optimised offline, with its nodes traced back to the file."""
