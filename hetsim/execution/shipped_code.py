"""hetsim's own code for the nodes of a Ray cluster: what they compute with is what drives them."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def code_environment() -> dict[str, Any]:
    """Return the ``runtime_env`` for ``ray.init`` that brings this hetsim to every node.

    Ray stores the package once in the cluster, fetches it once a node, and puts it before
    what is installed there; the packages that hetsim needs must be installed on the nodes.
    Ray takes it for a whole job alone, not for one actor.
    """
    import hetsim

    package = Path(hetsim.__file__).parent
    return {"py_modules": [str(package)], "excludes": ["__pycache__"]}
