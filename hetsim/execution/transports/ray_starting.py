"""Start of a private Ray's processes: apart from the driver's folder, and waited for longer."""

from __future__ import annotations

import contextlib
import importlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from hetsim.base.own_programs import own_environment

START_S = 180
"""Time that a Ray may take to start; its own limit, 30 s, is too short on a busy machine."""

_LOOK_S = 0.1


@contextlib.contextmanager
def started_apart(folder: Path) -> Iterator[None]:
    """Start Ray's processes in `folder`, without the driver's paths, and wait for them longer.

    Ray's API server is left out. Without the dashboard it only collects usage statistics: even
    where these are off, it asks the metadata address of three clouds which of them this is.
    """
    services: Any = importlib.import_module("ray._private.services")
    start, serve, find = (
        services.start_ray_process,
        services.start_api_server,
        services.get_node,
    )
    running: list[Any] = []

    def started(*words: Any, **options: Any) -> Any:
        environment = {**own_environment(), **(options.pop("env_updates", None) or {})}
        process = start(*words, **{**options, "env_updates": environment, "cwd": str(folder)})
        running.append(process.process)
        return process

    def found(*of: Any) -> Any:
        return patiently(lambda: find(*of), lambda: all(one.poll() is None for one in running))

    services.start_ray_process = started
    services.start_api_server = lambda *given, **options: ("", None)
    services.get_node = found
    try:
        yield
    finally:
        services.start_ray_process = start
        services.start_api_server = serve
        services.get_node = find


def patiently(find: Callable[[], Any], alive: Callable[[], bool]) -> Any:
    """Return the result of `find` once it no longer raises RuntimeError.

    Raises the error after ``START_S``, or as soon as a process is no longer `alive`.
    """
    deadline = time.monotonic() + START_S
    while True:
        try:
            return find()
        except RuntimeError:
            if time.monotonic() > deadline or not alive():
                raise
        time.sleep(_LOOK_S)
