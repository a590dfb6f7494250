"""Housekeeping nodes (no compute): placed with their neighbours, or on the default device."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from hetsim.core import checks
from hetsim.errors import UsageError, nearest
from hetsim.graph.dag import joined
from hetsim.graph.work.movement import housekeeping_nodes
from hetsim.partitioning.affinity import check_op
from hetsim.partitioning.regions import Regions
from hetsim.problem.parts import GRAPH_INPUT
from hetsim.problem.problem import Problem

Mode = Literal["assigned", "follow", "default"]
MODES: tuple[Mode, ...] = ("assigned", "follow", "default")


@dataclass(frozen=True, slots=True)
class Housekeeping:
    """Treatment of housekeeping nodes.

    Attributes
    ----------
    mode : "assigned", "follow" or "default"
        ``assigned``: they are nodes like any other. ``follow``: connected ones go together
        where what they read is made, or, where that is on several devices or is constant,
        where all their readers are; they stay on the default device where that is
        neither, where the device does not take them or must not, or where a value they read
        leaves the device anyway. ``default``: those at the edge of a group stay on the
        default device; between two computing nodes of one group they stay in it.
    ops : frozenset of str
        Further op types that count as housekeeping.
    nodes : frozenset of int or None
        The node ids, in place of what the op types say.
    """

    mode: Mode = "assigned"
    ops: frozenset[str] = frozenset()
    nodes: frozenset[int] | None = None

    def check(self, problem: Problem | None = None) -> None:
        """Raise UsageError for an unknown mode, and InvalidInput for unknown nodes."""
        checks.text(self.mode, "the mode of housekeeping")
        checks.collection(checks.text)(self.ops, "the ops of housekeeping")
        if self.nodes is not None:
            last = None if problem is None else problem.n - 1
            checks.collection(checks.whole(0, last))(self.nodes, "the nodes of housekeeping")
        if self.mode not in MODES:
            raise UsageError(
                f"unknown mode '{self.mode}' of housekeeping nodes",
                hint=nearest(self.mode, MODES),
            )

    def of(self, problem: Problem) -> frozenset[int]:
        """Return the housekeeping nodes of a problem. O(V + E).

        Raises InvalidInput for an unknown op type.
        """
        for op in sorted(self.ops):
            check_op(problem, op, "housekeeping ops")
        if self.nodes is not None:
            return frozenset(self.nodes)
        if problem.model is None:
            return frozenset(v for v, op in enumerate(problem.op_types) if op in self.ops)
        return housekeeping_nodes(problem.model.graph, self.ops)


def follow(
    regions: Regions,
    assignment: Sequence[int],
    default: int,
    nodes: Collection[int],
) -> tuple[list[int], dict[int, str]]:
    """Return the assignment with housekeeping nodes moved to their neighbours (mode ``follow``)."""
    problem = regions.problem
    placed = list(assignment)
    reasons: dict[int, str] = {}
    island = _islands(problem, nodes)
    sources: dict[int, set[int]] = {root: set() for root in island.values()}
    targets: dict[int, set[int]] = {root: set() for root in island.values()}
    leaves: dict[int, str] = {}
    for value in problem.values:
        home = value.producer
        if home == GRAPH_INPUT:
            continue
        if home in island:
            targets[island[home]].update(assignment[v] for v in value.consumers if v not in island)
            continue
        for root in {island[v] for v in value.consumers if v in island}:
            sources[root].add(assignment[home])
            if value.is_output:
                leaves[root] = value.name
    members: dict[int, list[int]] = {}
    for node in sorted(island):
        members.setdefault(island[node], []).append(node)
    for root, own in members.items():
        goal, why = _goal(sources[root], targets[root], leaves.get(root))
        device = goal
        if goal is not None and not regions.alone[own, goal].all():
            refused = next(v for v in own if not regions.alone[v, goal])
            device, why = None, regions.reason(refused, goal)
        if device is None:
            for v in own:
                if regions.alone[v, default]:
                    placed[v] = default
                    reasons[v] = f"housekeeping: {why}"
        else:
            for v in own:
                placed[v] = device
    return placed, reasons


def strip(
    regions: Regions,
    labels: Sequence[int],
    assignment: Sequence[int],
    default: int,
    nodes: Collection[int],
) -> list[int]:
    """Return the housekeeping nodes at the edges of groups, removed in mode ``default``.

    A node is at the edge if no computing node of its group precedes it, or none follows it. Nodes
    that the default device does not offer stay. O(V + E).
    """
    problem = regions.problem
    n = problem.n
    before, after = [False] * n, [False] * n
    for v in range(n):
        before[v] = any(
            labels[u] == labels[v] and (u not in nodes or before[u]) for u in problem.dag.preds[v]
        )
    for v in reversed(range(n)):
        after[v] = any(
            labels[w] == labels[v] and (w not in nodes or after[w]) for w in problem.dag.succs[v]
        )
    return [
        v
        for v in sorted(nodes)
        if assignment[v] != default and regions.alone[v, default] and not (before[v] and after[v])
    ]


def _goal(sources: set[int], targets: set[int], leaving: str | None) -> tuple[int | None, str]:
    """Return the device that an island goes to, or the reason why it stays."""
    if leaving is not None:
        return None, f"its input '{leaving}' is an output of the model"
    if len(sources) == 1:
        return next(iter(sources)), ""
    if len(targets) == 1:
        return next(iter(targets)), ""
    return None, "its neighbours are on several devices" if sources or targets else "no neighbours"


def _islands(problem: Problem, nodes: Collection[int]) -> Mapping[int, int]:
    """Map each of `nodes` to the first node of its component by edges among `nodes`."""
    inner = ((u, v) for u, v in problem.dag.edges() if u in nodes and v in nodes)
    labels = joined(problem.n, inner)
    return {node: labels[node] for node in sorted(nodes)}
