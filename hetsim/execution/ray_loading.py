"""A device's Ray actor made ready: created where it belongs, given weights, compiled."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import ray
from ray.exceptions import RayError

from hetsim.errors import ExecutionError
from hetsim.execution.actors import DeviceActor, file_facts
from hetsim.execution.failures import unanswered
from hetsim.execution.program import Program
from hetsim.execution.ray_errors import translated
from hetsim.execution.ray_placement import RESOURCE_PREFIX, placement

_CHUNK_BYTES = 64 * 2**20
_LOOK_S = 0.25
"""How often to see whether there still is a node for an actor that does not answer."""

Actor = Any


def create(device: str, devices: tuple[str, ...], streams: int) -> Actor:
    """Ask Ray for the actor of `device`, one of all the program's `devices`.

    Raises ExecutionError where other devices have a node of their own and this one has none.
    """
    where = placement(devices, _offered())[device]
    kind = ray.remote(DeviceActor).options(
        num_cpus=0,
        max_restarts=0,
        resources=where,
        # One thread more than streams, so that it can be told something while all of them work.
        max_concurrency=streams + 1,
        # Ray's head would remember every call: its memory would grow with each request.
        enable_task_events=False,
    )
    return kind.remote(device)


def load(
    device: str,
    actor: Actor,
    version: int,
    program: Program,
    timeout_s: float,
    *,
    look_for_weights: bool,
    given_up: Callable[[], bool],
) -> int:
    """Have an actor compile its subgraphs of `program`; return its process id when it has.

    Raises
    ------
    ExecutionError
        Where it fails or is not ready in time, or no node is left that could take it.
    """
    deadline = time.monotonic() + timeout_s

    def wait_for(reference: Any, doing: str) -> Any:
        while True:
            left = deadline - time.monotonic()
            ready, _ = ray.wait([reference], timeout=max(0.0, min(left, _LOOK_S)))
            if ready:
                try:
                    return ray.get(reference)
                except RayError as error:
                    raise translated(error, device) from error
            if left <= 0:
                raise unanswered((device,), doing, timeout_s)
            if given_up():
                raise ExecutionError("cancelled", where=f"device '{device}'")
            offered = _offered()
            if any(name.startswith(RESOURCE_PREFIX) for name in offered):
                placement((device,), offered)

    if look_for_weights and program.weights_dir is not None:
        _ship(program, program.weights_dir, device, actor, wait_for)
    steps = {index: program.steps[index] for index in program.steps_of(device)}
    loaded = actor.load.remote(version, program.code[device], steps, program.weights_dir)
    process: int = wait_for(loaded, "compiling subgraphs")
    return process


def _ship(
    program: Program,
    weights_dir: str,
    device: str,
    actor: Actor,
    wait_for: Callable[[Any, str], Any],
) -> None:
    """Send the weights where the actor's machine does not see the files."""
    locations = sorted({region.location for region in program.regions[device]})
    asked = actor.sees.remote(weights_dir, file_facts(weights_dir, locations))
    if wait_for(asked, "looking for the weights"):
        return
    for region in program.regions[device]:
        file = Path(weights_dir) / region.location
        for start in range(0, region.nbytes, _CHUNK_BYTES):
            offset = region.offset + start
            count = min(_CHUNK_BYTES, region.nbytes - start)
            data = np.fromfile(file, np.uint8, count, offset=offset)
            # One at a time, so that the object store need not hold the whole model.
            wait_for(actor.take_weights.remote(region.location, offset, data), "receiving weights")


def _offered() -> dict[str, float]:
    offered: dict[str, float] = ray.cluster_resources()  # type: ignore[no-untyped-call]
    return offered
