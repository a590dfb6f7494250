"""What hetsim asks of the operating system beyond what every Python has."""

from __future__ import annotations

import functools
import importlib
import operator
import os
import sys

from hetsim.errors import UsageError

THREADS = "run with the executor 'threads'"


def need(module: str, what: str, instead: str = "use Linux or macOS, or WSL on Windows") -> None:
    """Raise UsageError where the system lacks a `module` of Python's that `what` needs."""
    try:
        importlib.import_module(module)
    except ImportError:
        raise UsageError(
            f"{what} needs Python's module '{module}', which is not there on {sys.platform}",
            hint=f"{instead}; docs/limits.md says what works where",
        ) from None


def open_flags(*names: str) -> int:
    """Return these flags of `os.open` together, of those that the system has."""
    return functools.reduce(operator.or_, (getattr(os, name, 0) for name in names), 0)


def this_user() -> int:
    """Return the owner of what this process makes, as `os.stat` has it: 0 for all on Windows."""
    return os.geteuid() if hasattr(os, "geteuid") else 0
