"""Problems on faster hardware, and their plans by search from the present plan."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from hetsim.core import checks
from hetsim.core.progress import part
from hetsim.core.text import grouped
from hetsim.cost.model import WholeModelCost
from hetsim.cost.prices import Prices
from hetsim.cost.registry import cost_model
from hetsim.errors import UsageError, nearest
from hetsim.graph.work import graph_work
from hetsim.hardware.routes import build_routes
from hetsim.placement.constraints import Constrained, only_devices
from hetsim.placement.initial_plans import Start, prepared
from hetsim.placement.strategies.local_search import LocalSearch
from hetsim.problem.coarse import Coarse
from hetsim.problem.groups import Group
from hetsim.problem.parts import Z80, scaled
from hetsim.problem.plan import Plan
from hetsim.problem.problem import Problem

MOVES, WORK = 1_000, 40_000
"""Maximum moves of a search from the present plan, and tasks estimated over all of them."""

LOOKS = 2
"""Drafts that it simulates: the first that is estimated to be better, and the last."""

SEARCHED = "local-search"
"""Strategy name of such a plan."""


@dataclass(frozen=True, slots=True, eq=False)
class WarmStart:
    """Plan from which changed problems are searched, in its own tasks.

    - `limits`: constraints of the plan.
    - `groups`: groups of the plan, on tasks.
    - `usual`: ratio of its latency after such a search on the present problem to its latency.
    """

    limits: Constrained
    coarse: Coarse
    groups: tuple[Group, ...]
    usual: float

    @classmethod
    def of(cls, plan: Plan, cost_s: float) -> WarmStart | None:
        """Return the search state of a plan of one replica with its latency.

        Tasks that its subgraphs split are cut. With a limited number of devices it stays on those
        that it uses. None for replicas, or if nothing takes time.
        """
        limits = Constrained.of(plan)
        if plan.sizes or cost_s <= 0.0:
            return None
        coarse = prepared(_within(limits, plan.groups, plan.problem)).cut_by(plan.groups)
        groups = coarse.gathered(plan.groups)
        assert groups is not None
        found = cls(limits, coarse, groups, 1.0)
        with part(0.0, 0.0):
            usual = found._searched(coarse, cost_s) / cost_s
        return replace(found, usual=usual) if usual > 0.0 else None

    def cost_s(self, problem: Problem, kept_s: float) -> float:
        """Return the latency on a changed problem, on which the present plan has `kept_s`.

        The gain of the search on the present problem is deducted. O((V + E) moves).
        """
        coarse = self.coarse.on(_within(self.limits, self.groups, problem))
        return self._searched(coarse, kept_s) / self.usual

    def _searched(self, coarse: Coarse, kept_s: float) -> float:
        plan = Plan(coarse.fine, SEARCHED, coarse.spread(self.groups))
        moves = min(MOVES, WORK // max(coarse.problem.n, 1))
        start = Start(SEARCHED, plan, self.groups, kept_s)
        return LocalSearch(moves=moves).improve(coarse, start, LOOKS)[1]


def _within(limits: Constrained, groups: Sequence[Group], problem: Problem) -> Problem:
    """Return the problem within `limits`: only devices of `groups` if their number is limited."""
    problem = limits.narrow(problem)
    if limits.max_devices is None:
        return problem
    return only_devices(problem, sorted({group.device for group in groups}))


@dataclass(frozen=True, slots=True)
class Missing:
    """Op that a device cannot run individually, and its nodes."""

    device: int
    op: str
    nodes: tuple[int, ...]


def link_names(problem: Problem) -> tuple[str, ...]:
    """Return the links accepted by ``wider_link``: the platform's, or without one the routes'."""
    if problem.platform is not None:
        return tuple(link.name for link in problem.platform.links)
    return problem.link_names


@checks.takes(
    problem=checks.instance("hetsim.problem.problem:Problem"),
    name=checks.text,
    factor=checks.number(above=0),
)
def wider_link(problem: Problem, name: str, factor: float = 2.0) -> Problem:
    """Return the problem with the bandwidth of one link times `factor`.

    On a platform the routes are recomputed, so a faster link may attract others, and a route stays
    as narrow as its narrowest link. Raises UsageError for an unknown link.
    """
    names = link_names(problem)
    if name not in names:
        raise UsageError(f"no link '{name}' in {problem.name}", hint=nearest(name, names))
    if problem.platform is not None:
        links = tuple(
            replace(link, bytes_per_s=link.bytes_per_s * factor) if link.name == name else link
            for link in problem.platform.links
        )
        platform = replace(problem.platform, links=links)
        resources, routes = build_routes(platform)
        found = replace(problem, routes=routes, link_names=resources, platform=platform)
        # The platform's figures are those before any pessimistic setting.
        if problem.pessimistic:
            ones = np.ones(len(problem.devices))
            found = scaled(found, ones, np.exp(Z80 * found.uncertainty.route_sd))
        return replace(found, platform=problem.platform)
    index = problem.link_names.index(name)
    return replace(
        problem,
        routes=tuple(
            tuple(
                replace(route, bytes_per_s=route.bytes_per_s * factor)
                if index in route.resources
                else route
                for route in row
            )
            for row in problem.routes
        ),
    )


@checks.takes(
    problem=checks.instance("hetsim.problem.problem:Problem"),
    factor=checks.number(above=0),
)
def faster_device(problem: Problem, device: int, factor: float = 2.0) -> Problem:
    """Return the problem with a device's kernels `factor` times as fast; dispatch stays."""
    count = len(problem.devices)
    checks.whole(0, count - 1)(device, "device")
    factors = np.ones(count)
    factors[device] = 1.0 / factor
    made = scaled(problem, factors, np.ones((count, count)))
    return replace(problem, seconds=made.seconds, fused=made.fused, least_s=made.least_s)


def missing_ops(problem: Problem) -> tuple[Missing, ...]:
    """Return the ops of the graph that each device lacks, by device, then op. O(n P)."""
    found: list[Missing] = []
    for device in range(len(problem.devices)):
        lacking = np.flatnonzero(~problem.runnable[:, device]).tolist()
        by_op = grouped((problem.op_types[node], node) for node in lacking)
        found += [Missing(device, op, tuple(nodes)) for op, nodes in sorted(by_op.items())]
    return tuple(found)


@checks.takes(
    problem=checks.instance("hetsim.problem.problem:Problem"),
    nodes=checks.sequence(checks.whole(0)),
)
def with_nodes_on(problem: Problem, device: int, nodes: Sequence[int]) -> Problem:
    """Return the problem in which a device runs `nodes` that it does not support individually.

    Their times are ``supposed_seconds``; nodes without an estimate are unchanged. No new fusion is
    assumed. O(n P).
    """
    checks.whole(0, len(problem.devices) - 1)(device, "device")
    seconds = problem.seconds.copy()
    refusals = list(problem.refusals)
    for node, estimate in zip(nodes, supposed_seconds(problem, device, nodes), strict=True):
        if math.isfinite(estimate):
            seconds[node, device] = estimate
    if refusals:
        refusals[device] = {
            node: reason
            for node, reason in refusals[device].items()
            if not math.isfinite(seconds[node, device])
        }
    return replace(problem, seconds=seconds, refusals=tuple(refusals))


def supposed_seconds(problem: Problem, device: int, nodes: Sequence[int]) -> list[float]:
    """Return estimated seconds of `nodes` on a device that cannot run them, or inf.

    The cost model's estimate for that device; in a problem without a model, the least time
    elsewhere times the geometric mean ratio between this device and the best other one over the
    nodes that both run.
    """
    if not nodes:
        return []
    if problem.model is not None and problem.platform is not None:
        spec = problem.platform.devices[problem.devices[device]]
        graph = problem.model.graph
        by = cost_model(problem.cost)
        if isinstance(by, WholeModelCost):
            by = by.of_works(graph_work(graph), problem.evidence[device].likely)
        prices = Prices(spec, by)
        worse = math.exp(Z80 * problem.evidence[device].sd) if problem.pessimistic else 1.0
        return [worse * prices.node(graph, graph.nodes[node])[0] for node in nodes]
    others = [p for p in range(len(problem.devices)) if p != device]
    elsewhere: NDArray[np.float64] = problem.seconds[:, others].min(axis=1, initial=np.inf)
    own = problem.seconds[:, device]
    both = np.isfinite(own) & np.isfinite(elsewhere) & (own > 0) & (elsewhere > 0)
    ratio = float(np.exp(np.log(own[both] / elsewhere[both]).mean())) if both.any() else 1.0
    return [float(elsewhere[node]) * ratio for node in nodes]
