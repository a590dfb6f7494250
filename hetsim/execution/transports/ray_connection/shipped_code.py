"""hetsim's own code for the nodes of a Ray cluster: what they compute with is what drives them."""

from __future__ import annotations

from typing import Any

from hetsim.version import package_folder


def code_environment() -> dict[str, Any]:
    """Return the ``runtime_env`` for ``ray.init`` that brings this hetsim to every node.

    Ray stores the package once in the cluster, fetches it once a node, and puts it before
    what is installed there; the packages that hetsim needs must be installed on the nodes.
    Ray takes it for a whole job alone, not for one actor.
    """
    return {"py_modules": [str(package_folder())], "excludes": ["__pycache__"]}
