"""Python processes that hetsim starts: none of them imports from the working directory."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable
from typing import Any

from hetsim.version import package_folder


def own_environment() -> dict[str, str]:
    """Return the environment for a Python process that hetsim starts.

    Neither the working directory nor the folder of a script is on its path. An empty entry of
    ``PYTHONPATH``, as ``export PYTHONPATH=$PYTHONPATH:/opt/x`` makes one, is the working directory.
    """
    inherited = os.environ.get("PYTHONPATH", "")
    kept = () if sys.flags.ignore_environment else elsewhere(inherited.split(os.pathsep))
    return {**os.environ, "PYTHONSAFEPATH": "1", "PYTHONPATH": os.pathsep.join(kept)}


def elsewhere(path: Iterable[str]) -> list[str]:
    """Return the entries of a search path that are not the working directory, as absolute paths."""
    try:
        here = os.path.realpath(os.getcwd())
    except OSError:
        # It was removed: what is relative to it is nowhere.
        return [entry for entry in path if os.path.isabs(entry)]
    # Import hooks put words of their own on the path, which are no folders.
    absolute = [os.path.abspath(one) if os.path.exists(one or os.curdir) else one for one in path]
    return [entry for entry in absolute if os.path.realpath(entry) != here]


def started(module: str, function: str, *numbers: int, **how: Any) -> subprocess.Popen[Any]:
    """Start a process that calls a function of this package with `numbers`.

    It finds this package where this process did, and other modules where this process would, the
    working directory excepted. `how` is for ``Popen``.
    """
    start = (
        "import sys; sys.path.insert(0, sys.argv[1]); import hetsim; del sys.path[0]; "
        "sys.path += [entry for entry in sys.argv[2:] if entry not in sys.path]; "
        f"from {module} import {function}; {function}({', '.join(map(str, numbers))})"
    )
    command = [sys.executable, "-P", "-c", start, str(package_folder().parent)]
    return subprocess.Popen([*command, *elsewhere(sys.path)], env=own_environment(), **how)
