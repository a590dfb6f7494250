"""Task by task over many requests: the quickest way where the order of one template is certain.

A *stage* is a task, or several of one request that follow one another on one stream or route
without a gap. Where no two stages share a resource, each can be played over all requests of a
block before the next: its times are a recursion of their own.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, MutableSequence, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hetsim.base.machine_code import machine_code
from hetsim.simulation.orders import Order, rows_of

Ints = MutableSequence[int]
Floats = MutableSequence[float]

BLOCK = 512
"""Requests played before the next stage is: their times stay in a processor's nearest caches."""


class Stages(NamedTuple):
    """The stages of one template, in an order in which each comes after what it waits for.

    Tasks are numbered within the template.

    Attributes
    ----------
    task_at, tasks : int array [stages + 1], [tasks]
        Stage k has tasks ``tasks[task_at[k]:task_at[k + 1]]``.
    waits_at, waits : int array [stages + 1], [dependencies]
        Tasks that the first of them waits for.
    held_at, held : int array [stages + 1], [holds]
        Resources that it holds.
    last : int array [...]
        Tasks that nothing waits for.
    """

    task_at: NDArray[np.int64]
    tasks: NDArray[np.int64]
    waits_at: NDArray[np.int64]
    waits: NDArray[np.int64]
    held_at: NDArray[np.int64]
    held: NDArray[np.int64]
    last: NDArray[np.int64]


def stages_of(order: Order, template: int) -> Stages | None:
    """Return the stages of a template, or None where some share a resource or are watched.

    Complexity: O(tasks and what they hold).
    """
    first, end = int(order.first[template]), int(order.first[template + 1])
    waits = [
        (order.waits[order.waits_at[i] : order.waits_at[i + 1]] - first).tolist()
        for i in range(first, end)
    ]
    held = [
        tuple(order.held[order.held_at[i] : order.held_at[i + 1]].tolist())
        for i in range(first, end)
    ]
    stages: list[list[int]] = []
    stage_of: dict[int, int] = {}
    for task, resources in enumerate(held):
        found = {stage_of[resource] for resource in resources if resource in stage_of}
        if not found:
            stage_of.update(dict.fromkeys(resources, len(stages)))
            stages.append([task])
            continue
        stage = stages[found.pop()]
        # Certain order and one stream: what follows on it is there when the one before ends.
        if found or held[stage[0]] != resources or order.width[resources[0]] > 1:
            return None
        stage.append(task)
    if any(order.watched[resource] for resource in stage_of):
        return None
    followed = set().union(*waits)
    return Stages(
        *rows_of(stages),
        *rows_of([waits[stage[0]] for stage in stages]),
        *rows_of([held[stage[0]] for stage in stages]),
        np.array([task for task in range(len(held)) if task not in followed], dtype=np.int64),
    )


def serve_in_rows(
    task_at: Sequence[int],
    tasks: Sequence[int],
    waits_at: Sequence[int],
    waits: Sequence[int],
    held_at: Sequence[int],
    held: Sequence[int],
    last: Sequence[int],
    duration: Sequence[float],
    stream_at: Sequence[int],
    free: Floats,
    head: Ints,
    rows: Floats,
    arrival: Sequence[float],
    begun: Floats,
    finish: Floats,
) -> None:
    """Play requests of one template, BLOCK at a time.

    Parameters
    ----------
    task_at, tasks, waits_at, waits, held_at, held, last
        As ``Stages`` has them.
    duration : [tasks]
        Seconds, of the template's tasks.
    stream_at, free, head, arrival, begun, finish
        As ``kernel.serve`` has them.
    rows : [tasks * BLOCK]
        Room for when tasks end.

    Complexity: O(tasks, what they wait for and hold) a request.
    """
    for begin in range(0, len(arrival), BLOCK):
        count = min(BLOCK, len(arrival) - begin)
        for r in range(count):
            begun[begin + r] = arrival[begin + r]
            finish[begin + r] = arrival[begin + r]
        opened = False
        resource = 0
        for k in range(len(task_at) - 1):
            lead = tasks[task_at[k]]
            row = lead * BLOCK
            seconds = duration[lead]
            root = waits_at[k] == waits_at[k + 1]
            alone = task_at[k] + 1 == task_at[k + 1]
            if held_at[k] == held_at[k + 1]:
                streams = 0
                at = 0
            else:
                resource = held[held_at[k]]
                at = stream_at[resource]
                streams = stream_at[resource + 1] - at
            if alone and streams == 1 and waits_at[k] + 1 == waits_at[k + 1]:
                # As below, in one pass: what most stages are.
                other = waits[waits_at[k]] * BLOCK
                clear = free[at]
                for r in range(count):
                    ready = rows[other + r]
                    clear = (clear if clear > ready else ready) + seconds
                    rows[row + r] = clear
                for h in range(held_at[k], held_at[k + 1]):
                    free[stream_at[held[h]]] = clear
                continue
            if root:
                for r in range(count):
                    rows[row + r] = arrival[begin + r]
            else:
                other = waits[waits_at[k]] * BLOCK
                for r in range(count):
                    rows[row + r] = rows[other + r]
                for w in range(waits_at[k] + 1, waits_at[k + 1]):
                    other = waits[w] * BLOCK
                    for r in range(count):
                        end = rows[other + r]
                        ready = rows[row + r]
                        rows[row + r] = end if end > ready else ready
            # When each starts.
            if streams == 1:
                clear = free[at]
                if alone:
                    for r in range(count):
                        ready = rows[row + r]
                        start = clear if clear > ready else ready
                        clear = start + seconds
                        rows[row + r] = start
                else:
                    for r in range(count):
                        ready = rows[row + r]
                        start = clear if clear > ready else ready
                        rows[row + r] = start
                        clear = start
                        for j in range(task_at[k], task_at[k + 1]):
                            clear += duration[tasks[j]]
                for h in range(held_at[k], held_at[k + 1]):
                    free[stream_at[held[h]]] = clear
            elif streams > 1:
                # Ends ascend, so a stream is free as many requests later as there are streams.
                turn = head[resource]
                for r in range(count):
                    ready = rows[row + r]
                    clear = free[at + turn]
                    start = clear if clear > ready else ready
                    rows[row + r] = start
                    free[at + turn] = start + seconds
                    turn = turn + 1 if turn + 1 < streams else 0
                head[resource] = turn
            if root:
                for r in range(count):
                    start = rows[row + r]
                    if not opened or start < begun[begin + r]:
                        begun[begin + r] = start
                opened = True
            for r in range(count):
                rows[row + r] += seconds
            for j in range(task_at[k] + 1, task_at[k + 1]):
                next_row = tasks[j] * BLOCK
                seconds = duration[tasks[j]]
                for r in range(count):
                    rows[next_row + r] = rows[row + r] + seconds
                row = next_row
        for k in range(len(last)):
            row = last[k] * BLOCK
            for r in range(count):
                end = rows[row + r]
                if end > finish[begin + r]:
                    finish[begin + r] = end


@functools.cache
def compiled() -> Callable[..., None]:
    """Return `serve_in_rows` as machine code for int64 and float64 arrays."""
    return machine_code(serve_in_rows)
