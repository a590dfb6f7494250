"""Shared tools of all packages: argument checks, text, units, files, machine code."""
