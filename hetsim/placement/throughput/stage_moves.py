"""Moves of nodes, chains and kernels between stages, evaluated as by the clock."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hetsim.core import deadline
from hetsim.core.machine_code import machine_code
from hetsim.graph.dag import depth_first
from hetsim.placement.throughput.costs import Floats, kernels_of, moving_values
from hetsim.problem.parts import GRAPH_INPUT
from hetsim.problem.plan import Plan
from hetsim.problem.problem import Problem
from hetsim.simulation.clock.templates import flat

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class MoveArrays:
    """Arrays for the search that moves nodes between stages; ``*_at`` holds row offsets."""

    compute_s: Floats  # [n, P]: Seconds alone, divided by the streams; 0 if not supported
    lacks: NDArray[np.bool_]  # [n, P]: Whether a node is not supported individually
    shares_s: Floats  # [n, P]: ``problem.shared_seconds``, inf if not runnable
    dispatch_s: Floats  # [P]
    capacity: Floats
    touch_at: Ints
    touch: Ints  # Values that a node makes or reads; those that never move are omitted
    producer: Ints  # GRAPH_INPUT for a model input
    reader_at: Ints
    reader: Ints
    leaves: NDArray[np.bool_]  # Whether it must end on the host
    nbytes: Floats
    hold_at: Ints
    hold: Ints  # Constants by node
    constant_bytes: Floats
    in_at: Ints
    # Kernels by node, as ``costs.StageKernel``; those slower than their parts are omitted
    in_kernel: Ints
    member_at: Ints
    member: Ints
    kernel_device: Ints
    kernel_delta_s: Floats
    kernel_covers: Ints
    host: int  # -1 if there is none
    latency_s: Floats  # Of the route, and its links; none without contention
    per_byte_s: Floats
    route_at: Ints
    route: Ints
    links: int
    staged: int  # Staged tensors: 0: none; 1: all but model inputs and outputs; 2: all
    fetch_s: Floats  # [P]: Seconds per byte of a staged tensor
    store_s: Floats

    @classmethod
    def of(cls, problem: Problem) -> MoveArrays:
        """Return the arrays of a problem. O(n P + E + P^2)."""
        n, count = problem.seconds.shape
        streams = np.array(problem.streams, dtype=np.float64)
        hosted = problem.host is not None
        values = [problem.values[index] for index in moving_values(problem)]
        touches: list[list[int]] = [[] for _ in range(n)]
        for x, value in enumerate(values):
            for v in sorted({*value.consumers, value.producer} - {GRAPH_INPUT}):
                touches[v].append(x)
        kernels = kernels_of(problem)
        lacks = np.ascontiguousarray(~problem.supported)
        compute_s = np.ascontiguousarray(np.where(lacks, 0.0, problem.seconds) / streams)
        shares_s = np.where(problem.runnable, problem.shared_seconds, np.inf) / streams
        fifo = problem.contention == "fifo"
        pairs = [route for row in problem.routes for route in row]
        held = [
            route.resources if fifo and i % (count + 1) else () for i, route in enumerate(pairs)
        ]
        capacity, staging = problem.capacity_bytes, problem.staging
        rates = np.zeros((2, count))
        if staging is not None:
            rates = np.array([staging.fetch_s_per_byte, staging.store_s_per_byte]) / streams
        deltas = [
            k.seconds / streams[k.device] - compute_s[list(k.nodes), k.device].sum()
            for k in kernels
        ]
        # All in one memory layout: another would compile the searches again.
        return cls(
            compute_s=compute_s,
            lacks=lacks,
            shares_s=np.ascontiguousarray(shares_s),
            dispatch_s=np.array(problem.dispatch_s) / streams,
            capacity=np.full(count, np.inf) if capacity is None else np.array(capacity, np.float64),
            **_rows("touch", touches),
            producer=_ints(value.producer for value in values),
            **_rows("reader", [value.consumers for value in values]),
            leaves=np.array([value.is_output and hosted for value in values], dtype=np.bool_),
            nbytes=np.array([value.nbytes for value in values], dtype=np.float64),
            **_rows("hold", problem.constants_of),
            constant_bytes=np.array([c.nbytes for c in problem.constants], dtype=np.float64),
            **_rows("in", by_member(n, [kernel.nodes for kernel in kernels]), "in_kernel"),
            **_rows("member", [kernel.nodes for kernel in kernels]),
            kernel_device=_ints(k.device for k in kernels),
            kernel_delta_s=np.array(deltas, dtype=np.float64),
            kernel_covers=_ints(int(lacks[list(k.nodes), k.device].sum()) for k in kernels),
            host=-1 if problem.host is None else problem.host,
            latency_s=np.array([route.latency_s for route in pairs]),
            per_byte_s=np.array([1.0 / route.bytes_per_s for route in pairs]),
            **_rows("route", held),
            links=len(problem.link_names) if fifo else 0,
            staged=0 if staging is None else 1 + staging.ends,
            fetch_s=rates[0],
            store_s=rates[1],
        )


def _ints(numbers: Iterable[int]) -> Ints:
    return np.array(list(numbers), dtype=np.int64)


def _rows(name: str, table: Sequence[Sequence[int]], entries: str = "") -> dict[str, Any]:
    at, row = flat(table)
    return {f"{name}_at": _ints(at), entries or name: _ints(row)}


def by_member(count: int, sets: Sequence[Sequence[int]]) -> list[list[int]]:
    """Return by member the ascending indices of the `sets` that contain it."""
    found: list[list[int]] = [[] for _ in range(count)]
    for index, members in enumerate(sets):
        for v in members:
            found[v].append(index)
    return found


def blocked(feeds: NDArray[np.int64], waits: NDArray[np.int64]) -> int:
    """Return the number of vertices blocked by a cycle, 0 without one. O(k^3)."""
    count = len(waits)
    for v in range(count):
        waits[v] = 0
        for u in range(count):
            if u != v and feeds[u, v] > 0:
                waits[v] += 1
    left = count
    some = True
    while some:
        some = False
        for u in range(count):
            if waits[u] == 0:
                waits[u] = -1
                left -= 1
                some = True
                for v in range(count):
                    if v != u and feeds[u, v] > 0:
                        waits[v] -= 1
    return left


SIDE_WEIGHT = 0.02
"""Weight of the loads below the largest, so that moves which make room count as progress."""

HOTTEST = 0.05
"""Initial temperature, as a share of the largest load."""


def anneal(  # type: ignore[no-untyped-def]
    compute_s, lacks, dispatch_s, capacity,
    touch_at, touch, producer, reader_at, reader, leaves, nbytes,
    hold_at, hold, constant_bytes,
    in_at, in_kernel, kernel_device, kernel_size, kernel_delta_s, kernel_covers,
    host, latency_s, per_byte_s, route_at, route, links, staged, fetch_s, store_s,
    near_at, near, bundle_at, bundle, device_of, ordered,
    goal, at, load, memory, count, uses, uses_slot, placed, held, inside, feeds, who, back, waits,
    moves, state, best,
):  # fmt: skip
    """Improve `best`, the stage by node, in place; return its largest load, or inf."""
    n, devices = compute_s.shape
    slots = len(device_of)
    bundles = len(bundle_at) - 1
    lacking = 0
    now_score = np.inf
    now_bad = np.inf
    best_load = np.inf
    hottest = 0.0
    for step in range(-1, moves):
        size = 0
        if step < 0:
            size = n
            for v in range(n):
                who[v] = v
        else:
            state = (state * 1103515245 + 12345) & 0x3FFFFFFFFFFF
            draw = state >> 16
            if draw % (16 * n) == 0:
                state = (state * 1103515245 + 12345) & 0x3FFFFFFFFFFF
                a = (state >> 16) % slots
                state = (state * 1103515245 + 12345) & 0x3FFFFFFFFFFF
                b = (state >> 16) % slots
                if a == b:
                    continue
                for v in range(n):
                    if at[v] == a or at[v] == b:
                        who[size] = v
                        goal[v] = a + b - at[v]
                        size += 1
            else:
                state = (state * 1103515245 + 12345) & 0x3FFFFFFFFFFF
                pick = state >> 16
                if draw & 1 and bundles > 0:
                    k = pick % bundles
                    for i in range(bundle_at[k], bundle_at[k + 1]):
                        who[size] = bundle[i]
                        size += 1
                else:
                    who[0] = pick % n
                    size = 1
                state = (state * 1103515245 + 12345) & 0x3FFFFFFFFFFF
                pick = state >> 16
                b = (pick >> 1) % slots
                if pick & 1:
                    v = who[(pick >> 1) % size]
                    if near_at[v] < near_at[v + 1]:
                        k = near[near_at[v] + (pick >> 8) % (near_at[v + 1] - near_at[v])]
                        b = at[k]
                for i in range(size):
                    goal[who[i]] = b
            some = False
            for i in range(size):
                some = some or at[who[i]] != goal[who[i]]
            if not some:
                continue
        for back_again in range(2):
            for i in range(size):
                v = who[i]
                a = at[v]
                b = back[i] if back_again else goal[v]
                back[i] = a
                if a == b:
                    continue
                if a >= 0:
                    p = device_of[a]
                    load[p] -= compute_s[v, p]
                    lacking -= lacks[v, p]
                    count[a] -= 1
                    if count[a] == 0:
                        load[p] -= dispatch_s[p]
                q = device_of[b]
                load[q] += compute_s[v, q]
                lacking += lacks[v, q]
                if count[b] == 0:
                    load[q] += dispatch_s[q]
                count[b] += 1
                for k in range(in_at[v], in_at[v + 1]):
                    kernel = in_kernel[k]
                    if a >= 0:
                        if inside[kernel, a] == kernel_size[kernel] and (
                            device_of[a] == kernel_device[kernel]
                        ):
                            load[device_of[a]] -= kernel_delta_s[kernel]
                            lacking += kernel_covers[kernel]
                        inside[kernel, a] -= 1
                    inside[kernel, b] += 1
                    if inside[kernel, b] == kernel_size[kernel] and q == kernel_device[kernel]:
                        load[q] += kernel_delta_s[kernel]
                        lacking -= kernel_covers[kernel]
                for k in range(hold_at[v], hold_at[v + 1]):
                    c = hold[k]
                    if a >= 0:
                        held[c, device_of[a]] -= 1
                        if held[c, device_of[a]] == 0:
                            memory[device_of[a]] -= constant_bytes[c]
                    if held[c, q] == 0:
                        memory[q] += constant_bytes[c]
                    held[c, q] += 1
                for sign in range(-1, 2, 2):
                    if sign > 0:
                        at[v] = b
                    for k in range(touch_at[v], touch_at[v + 1]):
                        x = touch[k]
                        u = producer[x]
                        if sign > 0 and u != v:
                            if a >= 0:
                                uses[x, device_of[a]] -= 1
                                placed[x] -= 1
                                if staged:
                                    uses_slot[x, a] -= 1
                            uses[x, q] += 1
                            placed[x] += 1
                            if staged:
                                uses_slot[x, b] += 1
                        home = host
                        if u >= 0:
                            if at[u] < 0:
                                continue
                            home = device_of[at[u]]
                        if links > 0:
                            for p in range(devices):
                                if p != home and (uses[x, p] > 0 or (leaves[x] and p == host)):
                                    pair = home * devices + p
                                    took = latency_s[pair] + nbytes[x] * per_byte_s[pair]
                                    for r in range(route_at[pair], route_at[pair + 1]):
                                        load[devices + route[r]] += sign * took
                        if staged:
                            leaving = leaves[x] and staged == 2
                            if u >= 0 and (leaving or placed[x] > uses_slot[x, at[u]]):
                                load[home] += sign * store_s[home] * nbytes[x]
                            for s in range(slots):
                                fetched = staged == 2 if u < 0 else s != at[u]
                                if uses_slot[x, s] > 0 and fetched:
                                    load[device_of[s]] += sign * fetch_s[device_of[s]] * nbytes[x]
                        if ordered and u >= 0:
                            if u != v:
                                if at[v] >= 0:
                                    feeds[at[u], at[v]] += sign
                            elif at[v] >= 0:
                                for r in range(reader_at[x], reader_at[x + 1]):
                                    if at[reader[r]] >= 0:
                                        feeds[at[v], at[reader[r]]] += sign
            if back_again:
                break
            over = 0.0
            for p in range(devices):
                if memory[p] > capacity[p]:
                    over += (memory[p] - capacity[p]) / max(capacity[p], 1.0)
            stuck = blocked(feeds, waits) if ordered else 0
            bad = lacking + over + stuck
            largest = 0.0
            squares = 0.0
            for r in range(devices + links):
                largest = max(largest, load[r])
                squares += load[r] * load[r]
            score = largest + SIDE_WEIGHT * np.sqrt(squares)
            if step < 0:
                now_score, now_bad = score, bad
                hottest = HOTTEST * largest
                if bad == 0.0:
                    best_load = largest
                break
            if bad > now_bad:
                continue
            if bad == now_bad and score > now_score:
                state = (state * 1103515245 + 12345) & 0x3FFFFFFFFFFF
                chance = ((state >> 16) & 0xFFFFFF) / 16777216.0
                heat = hottest * (1.0 - step / moves) ** 3
                if heat <= 0.0 or chance >= np.exp((now_score - score) / heat):
                    continue
            now_score, now_bad = score, bad
            if bad == 0.0 and largest < best_load * (1.0 - 1e-12):
                best_load = largest
                for v in range(n):
                    best[v] = at[v]
            break
    return best_load


compiled = machine_code(anneal, blocked, inline=True, forced=False)


LONGEST = 64
"""Maximum number of nodes of a chain that move together."""

LOAD_S = 3.0
"""CPU seconds before a deadline from which loading numba and machine code pays off."""

MOST_STAGES = 60
"""Maximum number of stages, if a device may have several."""


@dataclass(frozen=True, slots=True)
class StageLayout:
    """Stages and their nodes."""

    stage: tuple[int, ...]  # By node
    device: tuple[int, ...]  # By stage; some stages may be empty
    load_s: float  # Largest load of a device or link; inf if not feasible

    @property
    def assignment(self) -> list[int]:
        """Device by node."""
        return [self.device[stage] for stage in self.stage]


class StageMoves:
    """Simulated annealing over moves of nodes between the stages of one problem.

    Loads are those of the clock, weights fit memory, and the graph of stages is acyclic. A device
    has one stage, or up to three without `contiguous`; if, in addition, subgraphs start at no cost
    and nothing is fused or staged, any assignment counts. `by_device`: a staged tensor may count
    once per device, as in ``max_load``, instead of once per subgraph, as on the clock.
    """

    def __init__(self, problem: Problem, *, contiguous: bool, by_device: bool = False) -> None:
        count = len(problem.devices)
        free = not any(problem.dispatch_s) and not problem.fused
        self.problem = problem
        self.network = MoveArrays.of(problem)
        self.apart = not contiguous and free and (by_device or problem.staging is None)
        copies = 1 if contiguous or self.apart else max(1, min(3, MOST_STAGES // count))
        self.device = tuple(range(count)) * copies
        self.ordered = not self.apart
        near = [[*problem.dag.preds[v], *problem.dag.succs[v]] for v in range(problem.n)]
        self._near = _rows("near", near).values()
        bundles = sorted({kernel.nodes for kernel in problem.fused})
        self._bundles = _rows("bundle", bundles + _chains(problem)).values()

    def layout(self, assignment: Sequence[int]) -> StageLayout:
        """Return the layout with one stage per device."""
        return self.improved(StageLayout(tuple(assignment), self.device, float("inf")), 0, 0)

    def of_plan(self, plan: Plan) -> StageLayout | None:
        """Return the layout with one stage per subgraph of `plan`; None if these are too many."""
        if self.apart or len(plan.groups) == len(plan.devices_used):
            return self.layout(plan.assignment)
        room = MOST_STAGES - len(self.problem.devices)
        if not self.ordered or len(plan.groups) > room:
            return None
        stage = [0] * self.problem.n
        for index, group in enumerate(plan.groups):
            for v in group.nodes:
                stage[v] = index
        # Each device keeps a free stage.
        device = tuple(plan.problem.devices.index(group.device) for group in plan.groups)
        device += tuple(range(len(self.problem.devices)))
        return self.improved(StageLayout(tuple(stage), device, float("inf")), 0, 0)

    def improved(self, start: StageLayout, moves: int, seed: int) -> StageLayout:
        """Return the best layout found in `moves` steps, no worse than `start`."""
        n = self.problem.n
        if n == 0:
            return StageLayout((), start.device, 0.0)
        net = self.network
        best = np.array(start.stage, dtype=np.int64)
        # The search has its own random generator, which is the same in every process.
        state = int(np.random.default_rng(seed).integers(1, 2**44))
        slots, devices, values = len(start.device), len(net.capacity), len(net.producer)
        ints = partial(np.zeros, dtype=np.int64)
        load_s = _fitting()(
            net.compute_s, net.lacks, net.dispatch_s, net.capacity,
            net.touch_at, net.touch, net.producer, net.reader_at, net.reader, net.leaves,
            net.nbytes, net.hold_at, net.hold, net.constant_bytes,
            net.in_at, net.in_kernel, net.kernel_device, np.diff(net.member_at),
            net.kernel_delta_s, net.kernel_covers,
            net.host, net.latency_s, net.per_byte_s, net.route_at, net.route, net.links,
            net.staged, net.fetch_s, net.store_s,
            *self._near, *self._bundles, np.array(start.device, dtype=np.int64), self.ordered,
            best.copy(), np.full(n, -1, np.int64), np.zeros(devices + net.links), np.zeros(devices),
            ints(slots), ints((values, devices)), ints((values if net.staged else 0, slots)),
            ints(values), ints((len(net.constant_bytes), devices)),
            ints((len(net.kernel_covers), slots)), ints((slots, slots)), ints(n), ints(n),
            ints(slots), moves, state, best,
        )  # fmt: skip
        return StageLayout(tuple(int(stage) for stage in best), start.device, float(load_s))


def _fitting() -> Callable[..., float]:
    """Return ``anneal`` as machine code, or interpreted if there is no time to compile it."""
    if compiled.loaded or deadline.may_compile():
        return compiled
    kept = deadline.left_s() >= LOAD_S and compiled.kept
    return compiled if kept else anneal


def _chains(problem: Problem) -> list[tuple[int, ...]]:
    """Return half-overlapping windows of a depth-first order, with lengths doubling."""
    order = depth_first(problem.dag.preds, problem.dag.succs)
    found: list[tuple[int, ...]] = []
    length = 2
    while length <= min(LONGEST, problem.n // 2):
        step = length // 2
        found += [
            tuple(order[first : first + length]) for first in range(0, problem.n - length + 1, step)
        ]
        length *= 2
    return found
