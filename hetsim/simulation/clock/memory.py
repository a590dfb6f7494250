"""Memory over time: weights that stay, and activations from when they exist to their last use."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hetsim.core.units import format_bytes
from hetsim.errors import OutOfMemory
from hetsim.problem.parts import GRAPH_INPUT
from hetsim.problem.problem import Problem
from hetsim.simulation.clock.metrics import Recording
from hetsim.simulation.clock.templates import PlanTasks, Template

AT_ARRIVAL = -1
AT_FINISH = -2


@dataclass(frozen=True, slots=True)
class Holding:
    """Bytes that each request keeps on a device over [from, to).

    Attributes
    ----------
    device, nbytes : int
    since : int
        The task at whose start it begins, or AT_ARRIVAL.
    until : tuple of int
        The tasks at whose last end it goes; ``(AT_FINISH,)``: it stays until the request ends.
    """

    device: int
    nbytes: int
    since: int
    until: tuple[int, ...]


def resident_weights(plan_tasks: PlanTasks) -> list[int]:
    """Return bytes of weights by device: each constant once where a consumer runs.

    A device that several replicas use holds what they share once. O(E) a replica.
    """
    problem = plan_tasks.plan.problem
    resident = [0] * len(problem.devices)
    for constant in problem.constants:
        for device in {
            template.group_device[template.owner[v]]
            for template in plan_tasks.templates
            for v in constant.consumers
        }:
            resident[device] += constant.nbytes
    return resident


def holdings(template: Template) -> list[Holding]:
    """List what one request holds beside the weights, empty holdings left out. O(V + E).

    - A value that leaves its subgraph is on its device from the start of the subgraph (a
      model input: on the host from the arrival) until the last subgraph there that reads it
      and the last transfer of it have ended, and at the destination of a transfer from the
      transfer's start until the last subgraph there that reads it has ended.
    - An output that is on the host, made there or moved there, stays until its request ends.
    - A value that never leaves its subgraph counts in that subgraph's peak: node by node in
      graph order, from its producer's step through its last reader's. The peak is held from
      the start to the end of the subgraph. A fused kernel's inner values are counted too.

    Without a host, inputs weigh nothing and outputs are gone when their subgraph ends.
    """
    problem = template.plan.problem
    owner = template.owner
    leaving: dict[int, list[int]] = {}
    found: list[Holding] = []
    for task, transfer in enumerate(template.transfers, start=template.groups):
        leaving.setdefault(transfer.value, []).append(task)
        value = problem.values[transfer.value]
        stays = value.is_output and transfer.target == problem.host
        until = (AT_FINISH,) if stays else (task, *transfer.receivers)
        found.append(Holding(transfer.target, value.nbytes, task, until))
    inner: list[list[int]] = [[] for _ in range(template.groups)]
    for index, value in enumerate(problem.values):
        readers = {owner[v] for v in value.consumers}
        if value.producer == GRAPH_INPUT:
            if problem.host is None:
                continue
            device, since, ends = problem.host, AT_ARRIVAL, set(leaving.get(index, ()))
        else:
            since = owner[value.producer]
            device, ends = template.group_device[since], {since, *leaving.get(index, ())}
            if readers <= {since} and not value.is_output:
                inner[since].append(index)
                continue
        ends.update(group for group in readers if template.group_device[group] == device)
        stays = value.is_output and device == problem.host
        until = (AT_FINISH,) if stays else tuple(sorted(ends))
        found.append(Holding(device, value.nbytes, since, until))
    for group, values in enumerate(inner):
        peak = _peak_inside(problem, template.plan.groups[group].nodes, values)
        found.append(Holding(template.group_device[group], peak, group, (group,)))
    return [held for held in found if held.nbytes and held.until]


def _peak_inside(problem: Problem, nodes: Sequence[int], values: Sequence[int]) -> int:
    step = {node: at for at, node in enumerate(nodes)}
    change = [0] * (len(nodes) + 1)
    for index in values:
        value = problem.values[index]
        first = step[value.producer]
        change[first] += value.nbytes
        change[max((step[v] for v in value.consumers), default=first) + 1] -= value.nbytes
    live = peak = 0
    for delta in change:
        live += delta
        peak = max(peak, live)
    return peak


def curves(
    plan_tasks: PlanTasks, recording: Recording
) -> list[tuple[NDArray[np.float64], NDArray[np.int64]]]:
    """Return memory over time, weights included, by device."""
    devices = len(plan_tasks.plan.problem.devices)
    weights = resident_weights(plan_tasks)
    times: list[list[NDArray[np.float64]]] = [[np.zeros(1)] for _ in range(devices)]
    deltas: list[list[NDArray[np.int64]]] = [
        [np.array([weights[d]], dtype=np.int64)] for d in range(devices)
    ]
    for index, template in enumerate(plan_tasks.templates):
        served = np.flatnonzero(recording.template == index)
        rows = recording.entry_at[served]
        for held in holdings(template):
            if held.since == AT_ARRIVAL:
                since = recording.arrival[served]
            else:
                since = recording.start[rows + held.since]
            if held.until == (AT_FINISH,):
                until = recording.finish[served]
            else:
                until = recording.end[rows[:, None] + np.array(held.until)].max(axis=1)
            amount = np.full(len(served), held.nbytes, dtype=np.int64)
            times[held.device] += [since, until]
            deltas[held.device] += [amount, -amount]
    found: list[tuple[NDArray[np.float64], NDArray[np.int64]]] = []
    for d in range(devices):
        instants, place = np.unique(np.concatenate(times[d]), return_inverse=True)
        change = np.zeros(len(instants), dtype=np.int64)
        np.add.at(change, place, np.concatenate(deltas[d]))
        found.append((instants, np.cumsum(change)))
    return found


def peaks_of_one(plan_tasks: PlanTasks, recording: Recording) -> list[int]:
    """Return the most bytes that each device holds, weights included, while one request runs.

    The same as the largest of ``curves``, without arrays. Complexity: O(K log K) for K holdings.
    """
    arrival_s, finish_s = float(recording.arrival[0]), float(recording.finish[0])
    start, end = recording.start.tolist(), recording.end.tolist()
    steps: list[list[tuple[float, int]]] = [[] for _ in plan_tasks.plan.problem.devices]
    for held in holdings(plan_tasks.templates[int(recording.template[0])]):
        since = arrival_s if held.since == AT_ARRIVAL else start[held.since]
        until = finish_s if held.until == (AT_FINISH,) else max(end[task] for task in held.until)
        if until > since:
            steps[held.device] += [(since, held.nbytes), (until, -held.nbytes)]
    peaks = resident_weights(plan_tasks)
    for device, changes in enumerate(steps):
        # At one instant what goes stands before what comes.
        changes.sort()
        live = highest = 0
        for _, change in changes:
            live += change
            highest = max(highest, live)
        peaks[device] += highest
    return peaks


def check_capacity(problem: Problem, peaks: Sequence[int], weights: Sequence[int]) -> None:
    """Raise OutOfMemory where a device's peak is above its capacity; the first such device."""
    if problem.capacity_bytes is None:
        return
    columns = zip(problem.devices, problem.capacity_bytes, peaks, weights, strict=True)
    for p, (name, capacity, peak, weight) in enumerate(columns):
        if peak > capacity:
            capacity, peak, weight = (
                problem.held_bytes(p, nbytes) for nbytes in (capacity, peak, weight)
            )
            raise OutOfMemory(
                f"needs {format_bytes(peak)} ({peak} bytes; weights {format_bytes(weight)}) "
                f"and has {format_bytes(capacity)} ({capacity} bytes)",
                where=f"device '{name}'",
                hint="assign fewer nodes to it"
                if weight > capacity
                else "assign fewer nodes to it, or allow fewer requests in flight",
                device=name,
                needed_bytes=peak,
                held_bytes=capacity,
            )
