"""The same problem with fewer choices or less memory; its ids stay."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from hetsim.errors import UnsupportedNode
from hetsim.partitioning.deconflict import by_priority
from hetsim.problem.problem import Problem


def without_devices(problem: Problem, devices: tuple[int, ...]) -> Problem:
    """Return the problem with nothing to run on `devices`; inputs may still start there.

    Raises UnsupportedNode where a node runs nowhere else. O(n P).
    """
    open_to = np.ones((problem.n, len(problem.devices)), dtype=np.bool_)
    open_to[:, list(devices)] = False
    left = narrowed(problem, open_to)
    for node in np.flatnonzero(~left.runnable.any(axis=1)).tolist():
        names = ", ".join(problem.devices[p] for p in devices)
        raise UnsupportedNode(
            f"nothing but {names} supports it",
            where=f"node '{problem.node_names[node]}'",
            nodes=(problem.node_names[node],),
            ops=(problem.op_types[node],),
            devices=tuple(problem.devices[p] for p in devices),
        )
    return left


def only_devices(problem: Problem, names: Sequence[str]) -> Problem:
    """Return the problem with nothing to run but on the devices named; none means all."""
    if not names:
        return problem
    kept = {problem.device_index(name) for name in names}
    return without_devices(problem, tuple(sorted(set(range(len(problem.devices))) - kept)))


def with_less(problem: Problem, device: int, nbytes: int) -> Problem:
    """Return the problem with `nbytes` less on a device, which is closed where none are left.

    Raises UnsupportedNode where it is closed and a node runs nowhere else.
    """
    assert problem.capacity_bytes is not None
    held = list(problem.capacity_bytes)
    held[device] = max(held[device] - nbytes, 0)
    left = replace(problem, capacity_bytes=tuple(held))
    return left if held[device] else without_devices(left, (device,))


def narrowed(problem: Problem, open_to: NDArray[np.bool_]) -> Problem:
    """Return the problem where a device runs only what is open to it; kernels go whole."""
    return replace(
        problem,
        seconds=np.where(open_to, problem.seconds, np.inf),
        fused=tuple(k for k in problem.fused if open_to[list(k.nodes), k.device].all()),
    )


def check_runnable(problem: Problem) -> None:
    """Raise UnsupportedNode, with the devices' reasons, where a node runs nowhere."""
    if not problem.runnable.any(axis=1).all():
        by_priority(problem)
