"""Paths that a file names: they start from its own folder."""

from __future__ import annotations

from pathlib import Path


def model_at(given: str, base: Path) -> str:
    """Return the model that `given` means in a file of the folder `base`; zoo:NAME is itself."""
    return given if given.startswith("zoo:") else str(base / given)
