"""Version of hetsim, and the location of its code.

It imports nothing, so that any file can import it; ``pyproject.toml`` reads the version from here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

__version__ = "0.1.0"


def package_folder() -> Path:
    """Folder of the package: the one that contains this file."""
    from pathlib import Path

    return Path(__file__).parent
