"""What crosses the borders of each subgraph of a plan: from whom, to whom, in how long."""

from __future__ import annotations

from dataclasses import dataclass

from hetsim.problem.problem import Problem
from hetsim.simulation.clock.templates import Template


@dataclass(frozen=True, slots=True)
class Border:
    """The transfers of one subgraph.

    Attributes
    ----------
    group, device : int
    nodes : tuple of int
    work_s, dispatch_s : float
        Of its kernels; of starting it, with what is fetched, stored or converted.
    reads, writes : mapping of int to float
        Seconds of what comes from a device, and of what goes to it.
    reads_from, writes_to : frozenset of int
        Devices of subgraphs at the other ends of these, inputs and outputs of the model aside.
    """

    group: int
    device: int
    nodes: tuple[int, ...]
    work_s: float
    dispatch_s: float
    reads: dict[int, float]
    writes: dict[int, float]
    reads_from: frozenset[int]
    writes_to: frozenset[int]

    @property
    def moves_s(self) -> float:
        """Of all its transfers."""
        return sum(self.reads.values()) + sum(self.writes.values())


def borders_of(problem: Problem, template: Template) -> list[Border]:
    """Return the borders of every subgraph, in the plan's order. O(V + transfers)."""
    count = template.groups
    reads: list[dict[int, float]] = [{} for _ in range(count)]
    writes: list[dict[int, float]] = [{} for _ in range(count)]
    reads_from: list[set[int]] = [set() for _ in range(count)]
    writes_to: list[set[int]] = [set() for _ in range(count)]
    for one in template.transfers:
        for reader in one.receivers:
            reads[reader][one.source] = reads[reader].get(one.source, 0.0) + one.seconds
            if one.group >= 0:
                reads_from[reader].add(one.source)
        if one.group >= 0:
            writes[one.group][one.target] = writes[one.group].get(one.target, 0.0) + one.seconds
            if one.receivers:
                writes_to[one.group].add(one.target)
    found: list[Border] = []
    for at, group in enumerate(template.plan.groups):
        device = template.group_device[at]
        work_s = sum(s for _, s in problem.kernels(device, group.nodes))
        found.append(
            Border(
                at, device, group.nodes, work_s, float(template.duration[at]) - work_s, reads[at],
                writes[at], frozenset(reads_from[at]), frozenset(writes_to[at]),
            )
        )  # fmt: skip
    return found


def elsewhere(
    problem: Problem, nodes: tuple[int, ...], device: int
) -> tuple[tuple[str, str], ...] | None:
    """Return pins of `nodes` to a device; None where it does not take all of them."""
    if problem.unsupported(device, nodes):
        return None
    return tuple((problem.node_names[node], problem.devices[device]) for node in nodes)
