"""Functions of this package as processes of their own: what starts one, and its end."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

from hetsim.version import package_folder


def own_program(module: str, function: str, *numbers: int) -> list[str]:
    """Return the words that call a function with `numbers` in a new interpreter.

    It finds this package where this process did, and imports nothing from the folder that it is
    started in.
    """
    start = (
        f"import sys; sys.path.insert(0, sys.argv[1]); from {module} import {function}; "
        f"{function}({', '.join(map(str, numbers))})"
    )
    return [sys.executable, "-P", "-c", start, str(package_folder().parent)]


def see_off(process: subprocess.Popen[Any], grace_s: float) -> None:
    """Wait for the end of a process that was told to; kill it after `grace_s` seconds."""
    try:
        process.wait(grace_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
