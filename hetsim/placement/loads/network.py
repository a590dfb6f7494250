"""A problem as the arrays by which throughput is counted exactly: devices, links, memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hetsim.placement.loads.costs import Floats
from hetsim.problem.parts import GRAPH_INPUT
from hetsim.problem.problem import Problem
from hetsim.simulation.clock.templates import flat

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Network:
    """Arrays for the kernels that move nodes between stages.

    Rows of varying length are an array of offsets, ``*_at``, and one of entries.

    Attributes
    ----------
    compute_s : float array [n, P]
        Alone, divided by the streams as all times of devices here; 0 where not supported alone.
    lacks : bool array [n, P]
        Whether a node is not supported alone.
    shares_s : float array [n, P]
        ``problem.shared_seconds``, inf where not runnable.
    dispatch_s, capacity : float array [P]
    touch : rows by node
        Values that it makes or reads; those that never move are left out.
    producer, reader, leaves, nbytes : by value
        GRAPH_INPUT for an input; rows of readers; whether it must end on the host.
    hold, constant_bytes
        Constants by node.
    in_kernel, kernel_device, kernel_size, kernel_delta_s, kernel_covers
        Kernels by node, and as ``costs.Kernel``; those dearer than their parts are
        left out.
    host : int
        -1 where there is none.
    latency_s, per_byte_s, route : by pair of devices, source first
        Of the route, and the links that it holds; none without contention.
    links : int
    staged : int
        0: no tensors are; 1: all but inputs and outputs of the model; 2: those, too.
    fetch_s, store_s : float array [P]
        A byte, where tensors are staged.
    """

    compute_s: Floats
    lacks: NDArray[np.bool_]
    shares_s: Floats
    dispatch_s: Floats
    capacity: Floats
    touch_at: Ints
    touch: Ints
    producer: Ints
    reader_at: Ints
    reader: Ints
    leaves: NDArray[np.bool_]
    nbytes: Floats
    hold_at: Ints
    hold: Ints
    constant_bytes: Floats
    in_at: Ints
    in_kernel: Ints
    member_at: Ints
    member: Ints
    kernel_device: Ints
    kernel_delta_s: Floats
    kernel_covers: Ints
    host: int
    latency_s: Floats
    per_byte_s: Floats
    route_at: Ints
    route: Ints
    links: int
    staged: int
    fetch_s: Floats
    store_s: Floats

    @classmethod
    def of(cls, problem: Problem) -> Network:
        """Gather them. O(n P + E + P^2)."""
        n, count = problem.seconds.shape
        streams = np.array(problem.streams, dtype=np.float64)
        hosted = problem.host is not None
        values = [
            value
            for value in problem.values
            if (value.consumers and (value.producer != GRAPH_INPUT or hosted))
            or (value.is_output and hosted)
        ]
        touches: list[list[int]] = [[] for _ in range(n)]
        for x, value in enumerate(values):
            for v in sorted({*value.consumers, value.producer} - {GRAPH_INPUT}):
                touches[v].append(x)
        kernels = [
            kernel
            for kernel in problem.fused
            if kernel.seconds <= float(sum(problem.seconds[v, kernel.device] for v in kernel.nodes))
        ]
        within: list[list[int]] = [[] for _ in range(n)]
        for k, kernel in enumerate(kernels):
            for v in kernel.nodes:
                within[v].append(k)
        lacks = ~problem.supported
        compute_s = np.where(lacks, 0.0, problem.seconds) / streams
        fifo = problem.contention == "fifo"
        pairs = [route for row in problem.routes for route in row]
        held = [
            route.resources if fifo and i % (count + 1) else () for i, route in enumerate(pairs)
        ]
        capacity = problem.capacity_bytes
        staging = problem.staging
        rates = np.zeros((2, count))
        if staging is not None:
            rates = np.array([staging.fetch_s_per_byte, staging.store_s_per_byte]) / streams

        def rows(table: list[Any]) -> list[Ints]:
            return [np.array(part, dtype=np.int64) for part in flat(table)]

        touch_at, touch = rows(touches)
        reader_at, reader = rows([value.consumers for value in values])
        hold_at, hold = rows(list(problem.constants_of))
        in_at, in_kernel = rows(within)
        member_at, member = rows([kernel.nodes for kernel in kernels])
        route_at, route = rows(held)
        # Of one layout in memory each: for another the searches would be compiled once more.
        return cls(
            compute_s=np.ascontiguousarray(compute_s),
            lacks=np.ascontiguousarray(lacks),
            shares_s=np.ascontiguousarray(
                np.where(problem.runnable, problem.shared_seconds, np.inf) / streams
            ),
            dispatch_s=np.array(problem.dispatch_s) / streams,
            capacity=np.full(count, np.inf) if capacity is None else np.array(capacity, np.float64),
            touch_at=touch_at,
            touch=touch,
            producer=np.array([value.producer for value in values], dtype=np.int64),
            reader_at=reader_at,
            reader=reader,
            leaves=np.array([value.is_output and hosted for value in values], dtype=np.bool_),
            nbytes=np.array([value.nbytes for value in values], dtype=np.float64),
            hold_at=hold_at,
            hold=hold,
            constant_bytes=np.array([c.nbytes for c in problem.constants], dtype=np.float64),
            in_at=in_at,
            in_kernel=in_kernel,
            member_at=member_at,
            member=member,
            kernel_device=np.array([k.device for k in kernels], dtype=np.int64),
            kernel_delta_s=np.array(
                [
                    k.seconds / streams[k.device] - compute_s[list(k.nodes), k.device].sum()
                    for k in kernels
                ],
                dtype=np.float64,
            ),
            kernel_covers=np.array(
                [int(lacks[list(k.nodes), k.device].sum()) for k in kernels], dtype=np.int64
            ),
            host=-1 if problem.host is None else problem.host,
            latency_s=np.array([route.latency_s for route in pairs]),
            per_byte_s=np.array([1.0 / route.bytes_per_s for route in pairs]),
            route_at=route_at,
            route=route,
            links=len(problem.link_names) if fifo else 0,
            staged=0 if staging is None else 1 + staging.ends,
            fetch_s=rates[0],
            store_s=rates[1],
        )
