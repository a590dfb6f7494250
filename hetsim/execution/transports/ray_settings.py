"""Environment variables for Ray, and what it changes in this process, undone."""

from __future__ import annotations

import contextlib
import importlib
import logging
import os
import secrets
import signal
import sys
import threading
from collections.abc import Iterator, Mapping
from typing import Any

from hetsim.errors import ClusterError
from hetsim.execution.transports.ray_starting import START_S

# Of a call that failed for a device's sake every value is an error that nobody asks for.
QUIET = {"RAY_IGNORE_UNHANDLED_ERRORS": "1"}
"""For every Ray that is joined or started."""

ENVIRONMENT = {
    **QUIET,
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    # Else its workers are 15 steps nicer than the rest: beside others' work a device would stand
    # still for most of the time.
    "RAY_worker_niceness": "0",
    # Who joins may run any code, as this user.
    "RAY_AUTH_MODE": "token",
    # Its processes wait for each other as long as this one waits for them.
    "RAY_gcs_server_port_wait_time_s": str(START_S),
    "RAY_gcs_rpc_server_connect_timeout_s": str(START_S),
    "RAY_raylet_start_wait_time_s": str(START_S),
    "RAY_agent_register_timeout_ms": str(START_S * 1000),
}
"""For a Ray that is started here."""


def private_environment() -> dict[str, str]:
    """Return the variables for a Ray of this process alone, with a new token.

    In the environment the token reaches the processes of that Ray and no file: not the home
    folder, where Ray would write one otherwise, nor a command line or log.
    """
    return {**ENVIRONMENT, "RAY_AUTH_TOKEN": secrets.token_hex(32)}


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
        if "RAY_AUTH_MODE" in settings:
            _read_login()


@contextlib.contextmanager
def protected() -> Iterator[None]:
    """Let the Ray that is started within be of use to nobody but this process.

    To be entered once Ray is loaded and the variables of ``private_environment`` are set, and
    left before they are undone. It then listens on the loopback device alone.

    Raises ClusterError where the installed Ray does not ask for a token.
    """
    _read_login()
    raylet: Any = importlib.import_module("ray._raylet")
    mode = getattr(raylet, "get_authentication_mode", None)
    if mode is None or mode() != raylet.AuthenticationMode.TOKEN:
        raise ClusterError(
            "no Ray for this process alone: the installed one cannot ask for a token",
            hint="install ray 2.52 or newer, or run with the executor 'threads'",
        )
    constants: Any = importlib.import_module("ray._private.ray_constants")
    several_machines = getattr(constants, "ENABLE_RAY_CLUSTER", True)
    # The switch by which Ray keeps to the loopback device on a Mac; its processes read the
    # variable, and this one has read it already.
    constants.ENABLE_RAY_CLUSTER = False
    os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"
    try:
        yield
    finally:
        constants.ENABLE_RAY_CLUSTER = several_machines


def _read_login() -> None:
    """Have Ray read anew whether a token is asked for, and which it is."""
    raylet: Any = importlib.import_module("ray._raylet")
    if hasattr(raylet, "AuthenticationTokenLoader"):
        raylet.Config.initialize("")
        raylet.AuthenticationTokenLoader.instance().reset_cache()
