"""Deployments of several models on one platform, by what they carry."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hetsim.hardware.spec import Platform
from hetsim.placing.best import Best, best_of, few_of
from hetsim.placing.flow import Flow
from hetsim.placing.offered import SPLITS, Offered, offered
from hetsim.placing.replicas import Chosen
from hetsim.service.asked import Asked
from hetsim.service.resolving import Made
from hetsim.workloads.deployment import Deployment, DynamicBatching, Routing
from hetsim.workloads.workload import Workload

MOST = 5
"""Placements that are simulated."""


@dataclass(frozen=True, slots=True, eq=False)
class Candidate:
    """One set of replicas, of one way to batch.

    Attributes
    ----------
    offered : Offered
        What it is chosen from.
    best : Best
        What was found of that.
    chosen : tuple of int
    flow : Flow
    """

    offered: Offered
    best: Best
    chosen: Chosen
    flow: Flow

    def deployment(self, routing: Routing) -> Deployment:
        """Return it as a deployment."""
        return self.offered.deployment(self.chosen, routing)


def placements(
    platform: Platform,
    workload: Workload,
    most: int = MOST,
    *,
    asked: Asked | None = None,
    made: Made | None = None,
    batchings: Sequence[DynamicBatching | None] = (None,),
    splits: Sequence[str] = SPLITS,
    routing: Routing = "least_finish",
) -> list[Deployment]:
    """Return deployments of a workload's models that fit, at most so many, the best first.

    The best is what carries the largest multiple of the demand, see ``Replicas``; nothing is
    simulated. Empty where none of what was tried fits. Raises and costs what ``offered`` does.
    """
    asked = Asked() if asked is None else asked
    made = Made() if made is None else made
    found = [
        (each, best_of(each.replicas, each.limit_s))
        for batching in batchings
        for each in [offered(workload, platform, asked, made, batching=batching, splits=splits)]
    ]
    return [one.deployment(routing) for one in candidates(found, most)]


def candidates(found: Sequence[tuple[Offered, Best]], most: int) -> list[Candidate]:
    """Return what is worth a simulation, at most so many of each way to batch; best first."""
    rows = [
        Candidate(each, best, chosen, flow)
        for each, best in found
        for chosen, flow in few_of(best, each.replicas, most)
    ]
    rows.sort(key=lambda one: -float(f"{one.flow.factor:.9g}"))
    return rows
