"""Environment variables for Ray, and what it changes in this process, undone."""

from __future__ import annotations

import contextlib
import importlib
import logging
import os
import signal
import sys
import threading
from collections.abc import Iterator, Mapping

# Of a call that failed for a device's sake every value is an error that nobody asks for.
QUIET = {"RAY_IGNORE_UNHANDLED_ERRORS": "1"}
"""For every Ray that is joined or started."""

ENVIRONMENT = {
    **QUIET,
    "RAY_USAGE_STATS_ENABLED": "0",
    # Otherwise a token is written into the home folder.
    "RAY_AUTH_MODE": "disabled",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
}
"""For a Ray that is started here."""


@contextlib.contextmanager
def restored(settings: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables for Ray, and undo at the end what it changes in this process."""
    environment = dict(os.environ)
    excepthook = sys.excepthook
    os.environ.update(settings)
    # Some are read, and the level of the log is set, when it is first imported.
    importlib.import_module("ray")
    logger = logging.getLogger("ray")
    level = logger.level
    logger.setLevel(logging.ERROR)
    in_main = threading.current_thread() is threading.main_thread()
    on_terminate = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        # The last user may be on another thread, which cannot set signal handlers.
        in_main = in_main and threading.current_thread() is threading.main_thread()
        if in_main and on_terminate is not None:
            signal.signal(signal.SIGTERM, on_terminate)
        logger.setLevel(level)
        sys.excepthook = excepthook
        for name in {*os.environ, *environment}:
            if name.startswith("RAY_") or name in {*settings, "PYTHONBREAKPOINT"}:
                if name in environment:
                    os.environ[name] = environment[name]
                else:
                    os.environ.pop(name, None)
