"""Models that are loaded on demand, as the engine takes them: bytes, and how they are loaded."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from hetsim.errors import NoRoute
from hetsim.problem.plan import Plan
from hetsim.problem.problem import Problem
from hetsim.simulation.clock.templates import Template, Transfer
from hetsim.simulation.service.memory import Memory
from hetsim.simulation.service.resolving import Resolved, devices_of
from hetsim.simulation.serving.setup import Turns

LOADED = -1
"""In the place of the value that a transfer moves: weights."""


def turns_of(
    resolved: Sequence[Resolved], memory: Memory, templates: int
) -> tuple[Turns | None, tuple[Template, ...]]:
    """Return how models take turns, and the templates that load them, numbered from `templates`.

    Weights come from the host's memory, by the route that its tensors take, and hold its links.
    None where no model is loaded on demand, or each has all its weights on the host.

    Raises NoRoute where no route leads from the host to a device.
    """
    devices = len(memory.room)
    host = resolved[0].problem.host
    weight = np.zeros((len(resolved), devices), dtype=np.int64)
    fetch = np.full((len(resolved), devices), -1)
    loads: list[Template] = []
    for m, (one, held) in enumerate(zip(resolved, memory.held, strict=True)):
        if not one.on_demand:
            continue
        for p in range(devices):
            if p == host or not held.whole[p]:
                continue
            weight[m, p] = held.whole[p]
            if held.weights[p]:
                fetch[m, p] = templates + len(loads)
                loads.append(load_template(one, p, held.weights[p]))
    if not weight.any():
        return None, ()
    places = tuple(
        tuple(
            tuple(np.flatnonzero(weight[m] * used).tolist())
            for entry, rows in zip(one.served.instances, one.plans, strict=True)
            for used in [_used(one.problem, rows)]
            for _ in range(entry.count)
        )
        for m, one in enumerate(resolved)
    )
    return Turns(memory.room, weight, fetch, places), tuple(loads)


def load_s(problem: Problem, device: int, nbytes: int) -> float:
    """Return how long so many bytes take from the host to a device, where links are free."""
    assert problem.host is not None
    return problem.routes[problem.host][device].seconds(nbytes)


def _used(problem: Problem, rows: Sequence[Sequence[Plan]]) -> NDArray[np.bool_]:
    names = devices_of(rows)
    return np.array([name in names for name in problem.devices])


def load_template(one: Resolved, device: int, nbytes: int) -> Template:
    """Return what brings so many bytes of weights from the host to a device: one transfer.

    Raises NoRoute where no route leads there.
    """
    problem = one.problem
    assert problem.host is not None
    route = problem.routes[problem.host][device]
    seconds = load_s(problem, device, nbytes)
    if not math.isfinite(seconds):
        raise NoRoute(
            f"no route takes its weights from '{problem.devices[problem.host]}' "
            f"to '{problem.devices[device]}'",
            where=f"model '{one.served.model}'",
            hint="join the devices by a link, or leave loading: and autoscaling: out",
            source=problem.devices[problem.host],
            target=problem.devices[device],
        )
    fifo = problem.contention == "fifo"
    transfer = Transfer(
        LOADED, problem.host, device, -1, (), seconds, route.resources if fifo else ()
    )
    return Template(
        plan=one.plans[0][0][0],
        group_device=(),
        transfers=(transfer,),
        owner=(),
        duration=np.array([seconds]),
        predecessors=((),),
        links=problem.link_names if fifo else (),
    )
