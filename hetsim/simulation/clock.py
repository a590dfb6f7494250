"""The verb ``simulate``: play a plan on the virtual clock."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hetsim.errors import PlanError, UsageError
from hetsim.plans import Plan
from hetsim.problem import Contention, check_contention
from hetsim.simulation import kernel
from hetsim.simulation.lowering import Template, flat, lower
from hetsim.simulation.memory import check_capacity, curves, resident_weights
from hetsim.simulation.metrics import summarise
from hetsim.timeline import Timeline

COMPILE_FROM = 100_000
"""Task events from which loading the machine code costs less CPU time than it saves."""


@dataclass(frozen=True, eq=False)
class Recording:
    """What the engine saw.

    Attributes
    ----------
    arrival, finish : float array [requests]
    start, end : float array [requests, tasks]
    sequence : int array [requests, tasks]
        The how-manieth start it was.
    stream : int array [requests, tasks]
        The stream that ran a subgraph; 0 for transfers.

    The last four have no rows where no trace was recorded.
    """

    arrival: NDArray[np.float64]
    finish: NDArray[np.float64]
    start: NDArray[np.float64]
    end: NDArray[np.float64]
    sequence: NDArray[np.int64]
    stream: NDArray[np.int64]


def simulate(
    plan: Plan,
    requests: int = 1,
    *,
    arrivals_s: Sequence[float] | None = None,
    contention: Contention | None = None,
    trace: bool = True,
) -> Timeline:
    """Play `plan` on the virtual clock and return what happened and what it cost.

    Parameters
    ----------
    plan : Plan
    requests : int
        How many requests run the plan, all arriving at 0.
    arrivals_s : sequence of float, optional
        When each request arrives, ascending; in place of `requests`.
    contention : "fifo" or "none", optional
        How links behave; absent: as the problem says.
    trace : bool
        Whether to give events and their critical path. Without, and with several requests,
        memory over time is not followed: `peak_memory_bytes` is empty and only the weights
        are checked against the capacity.

    Raises
    ------
    UsageError
        Where the number of requests or the arrivals make no sense.
    PlanError
        Where the plan is not a valid partition in executable order.
    UnsupportedNode
        Where a device cannot run what the plan gives it.
    OutOfMemory
        Where weights and live activations exceed a device's capacity.

    Complexity: O(E log A) for E subgraphs and transfers of all requests, A in flight. Space
    O(requests + A tasks), with a trace O(E).
    """
    arrival = arrivals(requests, arrivals_s)
    rule = plan.problem.contention if contention is None else check_contention(contention)
    template = lower(plan, rule)
    weights = resident_weights(template)
    check_capacity(plan.problem, weights, weights)
    recorded = trace or len(arrival) == 1
    recording = play(template, arrival, traced=recorded)
    peaks: list[int] | None = None
    if recorded:
        held = curves(template, recording.arrival, recording.finish, recording.start, recording.end)
        peaks = [int(amounts.max()) for _, amounts in held]
        check_capacity(plan.problem, peaks, weights)
    return summarise(template, recording, weights, peaks, trace=trace)


def play(
    template: Template,
    arrival: NDArray[np.float64],
    *,
    traced: bool,
    machine_code: bool | None = None,
) -> Recording:
    """Run the engine on `template`.

    Parameters
    ----------
    template : Template
    arrival : float array [requests]
    traced : bool
        Whether to record every start and end.
    machine_code : bool, optional
        Whether numba compiles the engine; absent: where the work is large. The recording is
        the same, bit for bit.

    Raises
    ------
    PlanError
        Where some subgraph never starts.
    """
    problem = template.plan.problem
    requests, tasks, groups = len(arrival), template.tasks, template.groups
    events = requests * tasks
    if machine_code is None:
        machine_code = events >= COMPILE_FROM
    followers: list[list[int]] = [[] for _ in range(tasks)]
    for task, before in enumerate(template.predecessors):
        for predecessor in before:
            followers[predecessor].append(task)
    turns: list[list[int]] = [[] for _ in problem.devices]
    for group, device in enumerate(template.group_device):
        turns[device].append(group)
    none_held: list[tuple[int, ...]] = [()] * groups
    successor_at, successors = flat(followers)
    issue_at, issue = flat(turns)
    held_at, held = flat(none_held + [transfer.resources for transfer in template.transfers])
    structure = (
        successor_at, successors, template.group_device, issue_at, issue, problem.streams,
        held_at, held,
    )  # fmt: skip
    waits = [len(before) for before in template.predecessors]
    size = events if traced else 0
    if machine_code:
        finish = np.full(requests, np.nan)
        times = np.zeros((2, size))
        orders = np.zeros((2, size), dtype=np.int64)
        finished = kernel.compiled()(
            groups,
            len(template.links),
            template.duration,
            *(np.array(array, dtype=np.int64) for array in (waits, *structure)),
            arrival,
            finish,
            traced,
            *times,
            *orders,
        )
    else:
        finish_list = [math.nan] * requests
        lists = ([0.0] * size, [0.0] * size, [0] * size, [0] * size)
        finished = kernel.play(
            groups,
            len(template.links),
            template.duration.tolist(),
            waits,
            *structure,
            arrival.tolist(),
            finish_list,
            traced,
            *lists,
        )
        finish = np.array(finish_list)
        times = np.array(lists[:2])
        orders = np.array(lists[2:], dtype=np.int64)
    if finished < requests:
        raise PlanError(
            "its subgraphs wait for each other and never start",
            where=f"plan '{template.plan.strategy}'",
            hint="order every group after the groups that feed it",
        )
    rows = requests if traced else 0
    return Recording(
        arrival,
        finish,
        *times.reshape(2, rows, tasks),
        *orders.reshape(2, rows, tasks),
    )


def arrivals(requests: int, arrivals_s: Sequence[float] | None) -> NDArray[np.float64]:
    """Return when each request arrives. Raises UsageError where that makes no sense."""
    try:
        count = operator.index(requests)
    except TypeError:
        raise UsageError(f"requests is {requests!r}", hint="give a whole number") from None
    if count < 1:
        raise UsageError(f"{count} requests to simulate", hint="give 1 or more")
    if arrivals_s is None:
        return np.zeros(count)
    try:
        arrival = np.array(arrivals_s, dtype=np.float64)
    except (TypeError, ValueError):
        raise UsageError("arrivals_s are not numbers", hint="give seconds") from None
    if arrival.ndim != 1 or len(arrival) == 0:
        raise UsageError(
            f"arrivals_s has shape {arrival.shape}", hint="give one time a request, 1 or more"
        )
    if count not in (1, len(arrival)):
        raise UsageError(
            f"{count} requests but {len(arrival)} arrivals", hint="give one of the two"
        )
    if not np.isfinite(arrival).all() or (arrival < 0).any():
        raise UsageError("arrivals_s has a negative or infinite time", hint="start at 0 or later")
    late = np.flatnonzero(np.diff(arrival) < 0)
    if len(late):
        raise UsageError(
            f"arrivals_s does not ascend at index {late[0] + 1}", hint="sort the arrivals"
        )
    return arrival
