"""What limits throughput: the seconds that a request costs each device and each link."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hetsim.core import checks
from hetsim.errors import UsageError
from hetsim.problem.parts import GRAPH_INPUT
from hetsim.problem.problem import Problem


@dataclass(frozen=True, slots=True)
class Loads:
    """Seconds of occupation by one request.

    Attributes
    ----------
    devices : tuple of float
        By device, divided by its streams; with staged tensors, fetching and storing included.
    links : tuple of float
        By link, as ``problem.link_names``; empty without contention.
    """

    devices: tuple[float, ...]
    links: tuple[float, ...]

    @property
    def bottleneck_s(self) -> float:
        """The largest of them: with many requests in flight none can end sooner after another."""
        return max((*self.devices, *self.links), default=0.0)


@checks.takes(
    problem=checks.instance("hetsim.problem.problem:Problem"),
    assignment=checks.sequence(checks.whole()),
)
def max_load(problem: Problem, assignment: Sequence[int]) -> float:
    """Return the bottleneck of an assignment, in seconds a request; inf if unsupported.

    The nodes of a device count as one subgraph, whether they are contiguous or not: one
    dispatch, composites where they are whole, a tensor moved or staged once a device. No plan
    with this assignment has a lower bottleneck. O(V + E).

    Raises
    ------
    UsageError
        Where the assignment does not give every node a device.
    """
    return loads(problem, assignment).bottleneck_s


def loads(problem: Problem, assignment: Sequence[int]) -> Loads:
    """Return the loads that ``max_load`` is the largest of."""
    count = len(problem.devices)
    if len(assignment) != problem.n or any(not 0 <= device < count for device in assignment):
        raise UsageError(
            f"assignment of length {len(assignment)} for {problem.n} nodes on {count} devices",
            hint="give a device index for every node",
        )
    nodes: list[list[int]] = [[] for _ in problem.devices]
    for node, device in enumerate(assignment):
        nodes[device].append(node)
    device_s = tuple(
        problem.group_seconds(device, members) / problem.streams[device] if members else 0.0
        for device, members in enumerate(nodes)
    )
    if problem.contention == "none":
        return Loads(device_s, ())
    link_s = [0.0] * len(problem.link_names)
    for value in problem.values:
        source = problem.host if value.producer == GRAPH_INPUT else assignment[value.producer]
        if source is None:
            continue
        targets = {assignment[node] for node in value.consumers}
        if value.is_output and problem.host is not None:
            targets.add(problem.host)
        for target in sorted(targets - {source}):
            route = problem.routes[source][target]
            for link in route.resources:
                link_s[link] += route.seconds(value.nbytes)
    return Loads(device_s, tuple(link_s))
