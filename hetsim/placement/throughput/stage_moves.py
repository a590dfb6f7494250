"""Stages improved by moves of nodes, chains and kernels, counted as the clock counts them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from hetsim.base import deadline
from hetsim.base.code_folder import is_kept
from hetsim.placement.loads.network import Network
from hetsim.placement.loads.orders import depth_first
from hetsim.placement.throughput.moves_kernel import anneal, compiled
from hetsim.placement.throughput.waiting import waiting_in_vain
from hetsim.plans.plan import Plan
from hetsim.problem.problem import Problem
from hetsim.simulation.clock.templates import flat

LONGEST = 64
"""Nodes of a chain that move together at most."""

LOAD_S = 3.0
"""CPU seconds before a deadline that are worth loading machine code, and numba with it."""

MOST_STAGES = 60
"""Stages in all, where a device may have several."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Stages and what is in them.

    Attributes
    ----------
    stage : tuple of int
        By node.
    device : tuple of int
        By stage; some may be empty.
    load_s : float
        The largest load of a device or link; inf where it is not feasible.
    """

    stage: tuple[int, ...]
    device: tuple[int, ...]
    load_s: float

    @property
    def assignment(self) -> list[int]:
        """Device by node."""
        return [self.device[stage] for stage in self.stage]


class StageMoves:
    """Simulated annealing over moves of nodes between the stages of one problem.

    Loads are those of the clock: what each device computes, starts and stages, and what each
    link carries. Weights fit the memory, kernels go whole where that saves time, and the graph
    of stages has no cycle, so that a stage is one subgraph. Where starting a subgraph is free
    and nothing fuses or is staged, nodes may as well be subgraphs of their own: then, with
    `contiguous` off, any assignment counts.

    Attributes
    ----------
    contiguous : bool
        Whether a device has one stage at most; else it has up to three.
    by_device : bool
        Whether a staged tensor may count once a device, as ``max_load`` has it, however many
        subgraphs the device has. The clock counts it once a subgraph, which is no less.
    """

    def __init__(self, problem: Problem, *, contiguous: bool, by_device: bool = False) -> None:
        count = len(problem.devices)
        free = not any(problem.dispatch_s) and not problem.fused
        self.problem = problem
        self.network = Network.of(problem)
        self.apart = not contiguous and free and (by_device or problem.staging is None)
        copies = 1 if contiguous or self.apart else max(1, min(3, MOST_STAGES // count))
        self.device = tuple(range(count)) * copies
        self.ordered = not self.apart
        near = [[*problem.dag.preds[v], *problem.dag.succs[v]] for v in range(problem.n)]
        self._near = [np.array(row, dtype=np.int64) for row in flat(near)]
        bundles = sorted({kernel.nodes for kernel in problem.fused})
        self._bundles = [np.array(row, dtype=np.int64) for row in flat(bundles + _chains(problem))]

    def layout(self, assignment: Sequence[int]) -> Layout:
        """Return the layout with one stage a device."""
        return self.improved(Layout(tuple(assignment), self.device, float("inf")), 0, 0)

    def of_plan(self, plan: Plan) -> Layout | None:
        """Return the layout with one stage a subgraph of `plan`; None where those are too many."""
        if self.apart or len(plan.groups) == len(plan.devices_used):
            return self.layout(plan.assignment)
        room = MOST_STAGES - len(self.problem.devices)
        if not self.ordered or len(plan.groups) > room:
            return None
        stage = [0] * self.problem.n
        for index, group in enumerate(plan.groups):
            for v in group.nodes:
                stage[v] = index
        # Each device keeps a stage that is free.
        device = tuple(plan.problem.devices.index(group.device) for group in plan.groups)
        device += tuple(range(len(self.problem.devices)))
        return self.improved(Layout(tuple(stage), device, float("inf")), 0, 0)

    def improved(self, start: Layout, moves: int, seed: int) -> Layout:
        """Return the best layout met in `moves` steps, no worse than `start`.

        Deterministic for a seed; O(moves x degree x P).
        """
        n = self.problem.n
        if n == 0:
            return Layout((), start.device, 0.0)
        net = self.network
        best = np.array(start.stage, dtype=np.int64)
        # The kernel draws its own numbers from a linear congruence, alike in every process.
        state = int(np.random.default_rng(seed).integers(1, 2**44))
        load_s = _fitting()(
            net.compute_s, net.lacks, net.dispatch_s, net.capacity,
            net.touch_at, net.touch, net.producer, net.reader_at, net.reader, net.leaves,
            net.nbytes, net.hold_at, net.hold, net.constant_bytes,
            net.in_at, net.in_kernel, net.kernel_device, np.diff(net.member_at),
            net.kernel_delta_s, net.kernel_covers,
            net.host, net.latency_s, net.per_byte_s, net.route_at, net.route, net.links,
            net.staged, net.fetch_s, net.store_s,
            *self._near, *self._bundles, np.array(start.device, dtype=np.int64), self.ordered,
            moves, state, best,
        )  # fmt: skip
        return Layout(tuple(int(stage) for stage in best), start.device, float(load_s))


def _fitting() -> Callable[..., float]:
    """Return ``anneal`` as machine code, or as it stands where there is no time to compile it."""
    if compiled.cache_info().currsize > 0 or deadline.may_compile():
        return compiled()
    kept = deadline.left_s() >= LOAD_S and is_kept(anneal, waiting_in_vain)
    return compiled() if kept else anneal


def _chains(problem: Problem) -> list[tuple[int, ...]]:
    """Return stretches of a depth-first order, each length twice the last, half overlapping."""
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
