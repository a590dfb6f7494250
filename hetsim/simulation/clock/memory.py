"""Memory over time: weights that stay, and activations from when they exist to their last use."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hetsim.core.units import format_bytes
from hetsim.errors import OutOfMemory
from hetsim.problem.parts import GRAPH_INPUT
from hetsim.problem.problem import Problem
from hetsim.simulation.clock.metrics import Recording
from hetsim.simulation.clock.templates import PlanTasks, Template, flat

AT_ARRIVAL = AT_FINISH = -1
"""Markers for the arrival and the end of a request, instead of a task."""


class Holding(NamedTuple):
    """Bytes that each request holds on a device over [since, until).

    From the start of the task `since`, or AT_ARRIVAL, until all tasks of `until` have ended;
    ``(AT_FINISH,)``: until the end of the request.
    """

    device: int
    nbytes: int
    since: int
    until: tuple[int, ...]


def resident_weights(plan_tasks: PlanTasks) -> list[int]:
    """Return the bytes of weights by device, each constant once where a consumer runs.

    A device used by several replicas holds shared constants once. O(E) per replica.
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
    """Return the memory that one request holds besides weights, without empty holdings. O(V + E).

    - A value that leaves its subgraph is on its device from the start of the subgraph (a
      model input: on the host from the arrival) until the last subgraph there that reads it
      and the last transfer of it have ended, and at the destination of a transfer from the
      transfer's start until the last subgraph there that reads it has ended.
    - An output that is on the host, made there or moved there, stays until its request ends.
    - A value that never leaves its subgraph counts in that subgraph's peak: node by node in
      graph order, from its producer's step through its last reader's. The peak is held from
      the start to the end of the subgraph. A fused kernel's inner values are counted too.

    Without a host, inputs take no memory and outputs are freed when their subgraph ends.
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
    """Return by device the memory over time, weights included."""
    times = [[np.zeros(1)] for _ in plan_tasks.plan.problem.devices]
    deltas = [[np.array([nbytes])] for nbytes in resident_weights(plan_tasks)]
    for index, template in enumerate(plan_tasks.templates):
        served = np.flatnonzero(recording.template == index)
        # By request and task; the last columns are AT_ARRIVAL and AT_FINISH.
        tasks = recording.entry_at[served][:, None] + np.arange(template.tasks)
        start = np.column_stack([recording.start[tasks], recording.arrival[served]])
        end = np.column_stack([recording.end[tasks], recording.finish[served]])
        for device, held in groupby(sorted(holdings(template)), key=lambda one: one.device):
            _, nbytes, since, until = zip(*held, strict=True)
            at, last = flat(until)
            ends = np.maximum.reduceat(end[:, last], at[:-1], axis=1)
            amount = np.tile(nbytes, len(served))
            times[device] += [start[:, since].ravel(), ends.ravel()]
            deltas[device] += [amount, -amount]
    found: list[tuple[NDArray[np.float64], NDArray[np.int64]]] = []
    for instants, changes in zip(times, deltas, strict=True):
        at_s, place = np.unique(np.concatenate(instants), return_inverse=True)
        change = np.zeros(len(at_s), dtype=np.int64)
        np.add.at(change, place, np.concatenate(changes))
        found.append((at_s, np.cumsum(change)))
    return found


def check_capacity(problem: Problem, peaks: Sequence[int], weights: Sequence[int]) -> None:
    """Raise OutOfMemory for the first device whose peak exceeds its capacity."""
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
