"""Chunks of work as Ray tasks: a few in flight per core, failed ones retried."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol, TypeVar

from hetsim.errors import ClusterError
from hetsim.execution.transports.ray_connection import ray_connection

Chunk = TypeVar("Chunk")
Result = TypeVar("Result")
Taken = TypeVar("Taken", contravariant=True)

IN_FLIGHT = 4
"""Tasks in flight per core: one that runs, and others to hide latency."""

RETRIES = 3
"""Number of retries of a task whose worker or node was lost."""

STORE_BYTES = 128 * 2**20
"""Object store size of a private Ray, whose shared data is a grid and its platforms."""

_COUNT_EVERY_S = 2.0
_WAIT_S = 1.0


class DistributedWork(Protocol[Chunk, Taken]):
    """Work to distribute, with callbacks for its progress."""

    def take(self, cores: int) -> Chunk | None:
        """Return the next chunk, or None if there is none at the moment."""

    def give(self, chunk: Chunk, result: Taken) -> None:
        """Process the result of a chunk."""

    def lost(self, chunk: Chunk, why: str) -> None:
        """Handle a chunk whose worker died on each attempt."""


def spread(
    function: Callable[[Any, Chunk], Result],
    shared: object,
    work: DistributedWork[Chunk, Result],
    *,
    address: str | None = None,
    started: Callable[[Path | None], None] | None = None,
) -> None:
    """Run ``function(shared, chunk)`` for every chunk of `work`, as Ray tasks.

    `function` is defined at the top level of a module; `shared` is sent to every node once. Without
    `address` a private Ray on all cores runs them, and `started` gets the folder of its files. A
    task whose worker or node is lost runs again elsewhere; exceptions of the function are raised
    here. Raises ClusterError if the cluster ends.
    """
    own = os.cpu_count() or 1
    with ray_connection(address, store_bytes=STORE_BYTES, cpus=own) as connection:
        import ray
        from ray.exceptions import OutOfMemoryError, RayError, RayTaskError, WorkerCrashedError

        from hetsim.execution.transports.ray_actor import out_of_store

        resources: Callable[[], dict[str, float]] = ray.cluster_resources

        if started is not None:
            started(connection.files)
        task = ray.remote(num_cpus=1, max_retries=RETRIES)(function)
        flying: dict[Any, Chunk] = {}
        cores, counted_s = 0, 0.0
        try:
            reference = ray.put(shared)
            while True:
                if connection.loss.error is not None:
                    raise connection.loss.error
                if time.monotonic() - counted_s >= _COUNT_EVERY_S:
                    # Nodes may join and leave.
                    cores = max(1, int(resources().get("CPU", own)))
                    counted_s = time.monotonic()
                while len(flying) < IN_FLIGHT * cores:
                    chunk = work.take(cores)
                    if chunk is None:
                        break
                    flying[task.remote(reference, chunk)] = chunk
                if not flying:
                    return
                done, _ = ray.wait(list(flying), num_returns=1, timeout=_WAIT_S)
                for each in done:
                    chunk = flying.pop(each)
                    try:
                        result = ray.get(each)
                    except RayTaskError as error:
                        raise _cause(error) from None
                    except (WorkerCrashedError, OutOfMemoryError) as error:
                        work.lost(chunk, str(error).strip().partition("\n")[0])
                    else:
                        work.give(chunk, result)
        except RayError as error:
            said = str(error).strip().partition("\n")[0]
            raise out_of_store(error, "what the work shares") or ClusterError(
                f"the Ray that runs the work is lost: {said}",
                where=address,
                hint="run it again: finished work is kept",
            ) from error
        finally:
            for each in flying if connection.loss.error is None else ():
                ray.cancel(each, force=False)


def spread_here(
    function: Callable[[Any, Chunk], Result], shared: object, work: DistributedWork[Chunk, Result]
) -> None:
    """Run ``function(shared, chunk)`` for every chunk of `work` in this process, in order."""
    while (chunk := work.take(1)) is not None:
        work.give(chunk, function(shared, chunk))


def _cause(error: Any) -> Exception:
    """Return the exception of the function, or the error that its result did not fit."""
    from hetsim.execution.transports.ray_actor import out_of_store

    cause: Exception = error.as_instanceof_cause()
    return out_of_store(cause, "what the work gave") or cause
