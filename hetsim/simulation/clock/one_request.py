"""Latency of one request for many plans of the same problem."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hetsim.graph.dag import Ints, NodeRows
from hetsim.problem.columns import cached
from hetsim.problem.groups import Group
from hetsim.problem.parts import GRAPH_INPUT
from hetsim.problem.problem import Problem
from hetsim.simulation.clock.rules import Structure
from hetsim.simulation.clock.virtual_time import VirtualTime, pays

MOST_KEPT = 200_000
"""Number of cached subgraph seconds, and of cached plan ends."""


@cached
def one_request(problem: Problem) -> OneRequest:
    """Return the simulator for plans of `problem`, cached per problem."""
    return OneRequest(problem)


class OneRequest:
    """Simulator of one request at time 0 for plans of one problem, by the rules of the clock.

    Lays out tasks like ``templates`` and ``structure``, from arrays built once per problem. Plans
    are not checked, and memory is ignored.
    """

    def __init__(self, problem: Problem) -> None:
        # No reference to the problem, and none back, so that both are freed together.
        self._devices = {name: index for index, name in enumerate(problem.devices)}
        self._n, self._count, self._streams = problem.n, len(problem.devices), problem.streams
        self._host = problem.host
        self._fifo = problem.contention == "fifo"
        self._links = len(problem.link_names) if self._fifo else 0
        self._adds_up = not problem.fused and problem.staging is None
        """Whether the seconds of a subgraph are those of its nodes plus a dispatch."""
        self._group_seconds: dict[tuple[int, bytes], float] = {}
        self._ends: dict[bytes, float | None] = {}
        values = problem.value_arrays
        moves = values.producer != GRAPH_INPUT
        if problem.host is not None:
            moves = np.ones_like(moves)
        reads = moves[values.readers.owner]
        self._consumer = values.readers.node[reads]
        self._value = values.readers.owner[reads]
        self._producer = values.producer[self._value]
        leaves = values.leaves & (problem.host is not None)
        self._out_value = np.flatnonzero(leaves)
        self._out_producer = values.producer[leaves]
        self._nbytes = values.nbytes
        routes = problem.routes
        self._latency_s = np.array([[route.latency_s for route in row] for row in routes])
        self._bytes_per_s = np.array([[route.bytes_per_s for route in row] for row in routes])
        held = [route.resources if self._fifo else () for row in problem.routes for route in row]
        self._holds = _ints(map(len, held))
        self._hold_at = np.concatenate(([0], np.cumsum(self._holds)))
        self._held = _ints(chain.from_iterable(held))

    def latency_s(self, problem: Problem, groups: Sequence[Group], name: str) -> float | None:
        """Return when the last task of one request of `groups` of `problem` ends, in seconds.

        None if a device cannot run its nodes or a value has no route: the layout of ``templates``
        gives the reason. Raises PlanError with the plan's name if some subgraph never starts. O((V
        + E) log E).
        """
        return self.latency_of_owned(problem, *self.placed(groups), name)

    def latency_of_owned(
        self, problem: Problem, owner: Ints, device: Ints, name: str
    ) -> float | None:
        """Return ``latency_s`` of groups as arrays: group by node, and device by group.

        Results are cached, as searches and strategies return to the same plans.
        """
        placed = hashlib.blake2b(owner.tobytes(), digest_size=16)
        placed.update(device.tobytes())
        key = placed.digest()
        if key not in self._ends:
            if len(self._ends) > MOST_KEPT:
                self._ends.clear()
            seconds = self.seconds_of_owned(problem, owner, device)
            self._ends[key] = self._last_end_s(*self.laid_out(owner, device, seconds), name)
        return self._ends[key]

    def _last_end_s(self, structure: Any, duration: NDArray[np.float64], name: str) -> float | None:
        if not np.isfinite(duration).all():
            return None
        compiled = pays(len(duration))
        if not compiled:
            structure = Structure._make(
                part if isinstance(part, tuple) else part.tolist() for part in structure
            )
        clock = VirtualTime(
            structure,
            self._links,
            duration,
            np.zeros(1),
            np.zeros(1, dtype=np.int64),
            lines=0,
            arrays=compiled,
        )
        clock.run_out(name)
        return float(clock.finish[0])

    def placed(self, groups: Sequence[Group]) -> tuple[Ints, Ints]:
        """Return the group of each node, and the device of each group."""
        rows = NodeRows.of([group.nodes for group in groups])
        owner = np.full(self._n, -1, dtype=np.int64)
        owner[rows.node] = rows.owner
        devices = self._devices
        return owner, np.array([devices[group.device] for group in groups], dtype=np.int64)

    def laid_out(
        self, of_node: Ints, device: Ints, seconds: NDArray[np.float64]
    ) -> tuple[Any, NDArray[np.float64]]:
        """Return the Structure of a plan as int arrays, and its tasks' seconds."""
        count, total = self._count, len(device)
        # One extra entry for inputs: group -1, from the host.
        owner = np.append(of_node, -1)
        place = np.append(device, -1 if self._host is None else self._host)
        reader, sender = owner[self._consumer], owner[self._producer]
        target, source = place[reader], place[sender]
        across = target != source
        near = ~across & (sender != reader) & (sender >= 0)
        # Transfers by (sender, value, target).
        width = len(self._nbytes)
        crossing = ((sender[across] + 1) * width + self._value[across]) * count + target[across]
        keys = crossing
        if self._out_value.size:
            assert self._host is not None
            maker = owner[self._out_producer]
            leaves = place[maker] != self._host
            out = ((maker + 1) * width + self._out_value) * count + self._host
            keys = np.concatenate((crossing, out[leaves]))
        keys = _once(keys)
        goes_to = keys % count
        of_value = keys // count % max(width, 1)
        sent_by = keys // (count * max(width, 1)) - 1
        comes_from = place[sent_by]
        transfers = len(keys)
        tasks = total + transfers
        # Dependencies as (earlier, later).
        arriving = total + np.searchsorted(keys, crossing)
        sending = np.flatnonzero(sent_by >= 0)
        pairs = _once(
            np.concatenate(
                (
                    sender[near] * tasks + reader[near],
                    arriving * tasks + reader[across],
                    sent_by[sending] * tasks + total + sending,
                )
            )
        )
        earlier, later = pairs // max(tasks, 1), pairs % max(tasks, 1)
        waits = np.bincount(later, minlength=tasks)
        issue = np.argsort(device, kind="stable")
        way = comes_from * count + goes_to
        holds = self._holds[way]
        held_at = np.concatenate((np.zeros(total + 1, dtype=np.int64), np.cumsum(holds)))
        first = np.repeat(self._hold_at[way], holds)
        nth = np.arange(held_at[-1]) - np.repeat(held_at[total:-1], holds)
        roots = total + np.flatnonzero(waits[total:] == 0)
        structure: Any = (
            np.array([0, tasks]),
            waits,
            _starts(earlier, tasks),
            later,
            np.concatenate((device, -1 - goes_to)),
            _starts(device, count),
            issue,
            self._streams,
            held_at,
            self._held[first + nth],
            np.array([0, len(roots)]),
            roots,
        )
        moved_s = (
            self._latency_s[comes_from, goes_to]
            + self._nbytes[of_value] / self._bytes_per_s[comes_from, goes_to]
        )
        return Structure._make(structure), np.concatenate((seconds, moved_s))

    def seconds_of_owned(self, problem: Problem, owner: Ints, device: Ints) -> NDArray[np.float64]:
        """Return the seconds of each subgraph; see ``Problem.group_seconds``.

        If they are not sums over nodes they are cached: plans tried in sequence share most
        subgraphs.
        """
        placed = owner >= 0
        nodes, group = np.flatnonzero(placed), owner[placed]
        if self._adds_up:
            total = np.zeros(len(device))
            np.add.at(total, group, problem.seconds[nodes, device[group]])
            total += np.array(problem.dispatch_s)[device]
            return total
        rows = NodeRows.sorted_by(len(device), group, nodes)
        raw, wide, known = rows.node.tobytes(), rows.node.itemsize, self._group_seconds
        if len(known) > MOST_KEPT:
            known.clear()
        found: list[float] = []
        at = rows.at.tolist()
        for p, first, end in zip(device.tolist(), at[:-1], at[1:], strict=True):
            key = p, raw[first * wide : end * wide]
            seconds = known.get(key)
            if seconds is None:
                seconds = problem.group_seconds(p, tuple(rows.node[first:end].tolist()))
                known[key] = seconds
            found.append(seconds)
        return np.array(found)


def _ints(numbers: Any) -> Ints:
    return np.fromiter(numbers, dtype=np.int64)


def _once(numbers: Ints) -> Ints:
    """Return the distinct numbers in ascending order, faster than NumPy's unique."""
    numbers = np.sort(numbers)
    new = np.ones(len(numbers), dtype=bool)
    np.not_equal(numbers[1:], numbers[:-1], out=new[1:])
    once: Ints = numbers[new]
    return once


def _starts(sorted_or_not: Ints, count: int) -> Ints:
    """Return the offset of each of `count` numbers in sorted order, and the total."""
    return np.concatenate(([0], np.cumsum(np.bincount(sorted_or_not, minlength=count))))
