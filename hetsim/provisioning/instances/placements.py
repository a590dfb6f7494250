"""Deployments of several models on one platform, by what they carry."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from hetsim.hardware.spec import Platform
from hetsim.provisioning.instances.best import Best, few_of
from hetsim.provisioning.instances.flow import Flow, flow_of
from hetsim.provisioning.instances.offered import Offered, in_one_line
from hetsim.provisioning.instances.replicas import Chosen
from hetsim.workload.deployment import Deployment, Routing

MOST = 4
"""Sets of instances that are simulated, of each way to batch."""


@dataclass(frozen=True, slots=True, eq=False)
class Candidate:
    """One set of replicas, of one way to batch.

    Attributes
    ----------
    offered : Offered
        What it is chosen from.
    chosen : tuple of int
    flow : Flow
    routing : "round_robin", "shortest_queue" or "least_finish"
    """

    offered: Offered
    chosen: Chosen
    flow: Flow
    routing: Routing

    @property
    def deployment(self) -> Deployment:
        """It as a deployment."""
        return self.offered.deployment(self.chosen, self.routing)


def candidates(
    found: Sequence[tuple[Offered, Best]], most: int, routing: Routing
) -> list[Candidate]:
    """Return what is worth a simulation, at most so many of each way to batch; best first."""
    rows = [
        Candidate(each, chosen, flow, routing)
        for each, best in found
        for chosen, flow in few_of(best, each.replicas, most)
    ]
    rows.sort(key=lambda one: -one.flow.rounded)
    return rows


def served_ways(one: Candidate, platform: Platform, *, routing: Routing | None) -> list[Candidate]:
    """Return a candidate in each way in which its requests may wait.

    Sent at once, to the instance that would be done first or to the one with fewest under way; or
    in one line until an instance is free. Those are left out that are one, and where the batches
    that are then under way do not fit the memory.
    """
    several = len(one.chosen) > len(one.offered.replicas.models)
    routings: list[Routing] = [one.routing if routing is None else routing]
    if several and routing is None:
        routings.append("shortest_queue")
    found = [replace(one, routing=each) for each in dict.fromkeys(routings)]
    line = in_one_line(one.offered, platform)
    if line is not None and line.replicas.fits(one.chosen):
        flow = flow_of(line.replicas, one.chosen)
        found.append(replace(one, offered=line, flow=flow, routing=routings[-1]))
    return found
