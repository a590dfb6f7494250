"""The verb ``survive``: whether objectives hold without any one device, or any few."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hetsim.core import checks
from hetsim.hardware.spec import Platform
from hetsim.provisioning.rates.impossible import impossible_as
from hetsim.provisioning.rates.redundancy.answer import (
    Loss,
    Survived,
    answer_of,
    check_asked,
    confidence_of_each,
)
from hetsim.provisioning.rates.redundancy.left import Leaving, ways
from hetsim.simulation.service.asked import Asked
from hetsim.simulation.service.memory import check_together
from hetsim.simulation.service.resolving import Made, Resolved, resolve
from hetsim.simulation.service.serving import played
from hetsim.statistics.verdict import Answer
from hetsim.workload.deployment import Deployment
from hetsim.workload.workload import Workload


@checks.takes(
    deployment=checks.instance("hetsim.workload.deployment:Deployment"),
    workload=checks.instance("hetsim.workload.workload:Workload"),
    platform=checks.instance("hetsim.hardware.spec:Platform"),
    losses=checks.whole(1),
    until_answered=checks.flag,
)
def survive(
    deployment: Deployment,
    workload: Workload,
    *,
    platform: Platform,
    losses: int = 1,
    until_answered: bool = False,
) -> Survived:
    """Return whether a workload's objectives hold without any one device, or any few.

    Without a device its instances are gone. A model that has none left is planned again on what is
    left; its links stay, and so does what the host holds: what is lost is what runs there. Devices
    that are alike are asked once, and those that nothing runs on not at all. Each loss is for good:
    what becomes of the requests under way at it is ``simulate(..., failures=)``'s to tell.

    Parameters
    ----------
    deployment : Deployment
    workload : Workload
        With objectives; without failures.
    platform : Platform
    losses : int
        How many may be lost at once, at most.
    until_answered : bool
        Whether each run ends as soon as every objective is answered, as ``simulate`` has it.

    Raises
    ------
    WorkloadError, UsageError, UnsupportedNode, Infeasible
        As ``simulate`` does of a deployment; and where there is no objective.

    Complexity: that of ``simulate`` for each loss that is another.
    """
    return survive_as(
        deployment,
        workload,
        platform,
        losses=losses,
        asked=None,
        until_answered=until_answered,
    )


def survive_as(
    deployment: Deployment,
    workload: Workload,
    platform: Platform,
    *,
    losses: int,
    asked: Asked | None,
    made: Made | None = None,
    until_answered: bool = False,
    within: float | None = None,
) -> Survived:
    """Return what ``survive`` does, of models read and planned for as `asked`."""
    made = Made() if made is None else made
    deployment.check_steady("not asked what survives")
    check_asked(workload)
    resolved = resolve(deployment, workload, platform, asked, made)
    found = survived(
        resolved,
        workload,
        platform,
        losses=losses,
        until_answered=until_answered,
        within=within,
    )
    bad = found.intact if found.intact.answer == "misses" else found.worst
    if found.answer == "misses":
        found = replace(found, impossible=impossible_as(workload, made, bad.lost))
    return found


def survived(
    resolved: Sequence[Resolved],
    workload: Workload,
    platform: Platform,
    *,
    losses: int = 1,
    until_answered: bool = False,
    within: float | None = None,
) -> Survived:
    """Return whether objectives hold without any `losses` devices of what is resolved.

    All verdicts together are right in 95 of 100 cases. Parameters as those of ``serve``.
    """
    check_together(resolved, platform)
    rows, unused = ways(Leaving(resolved, platform), losses)
    confidence = confidence_of_each(len(rows))
    found = []
    for lost, sets, left in rows:
        service = None
        if left.refused is None:
            service = played(
                workload,
                left.resolved,
                left.set_up(workload),
                until_answered=until_answered,
                within=within,
                confidence=confidence,
            )
        answer: Answer = "misses" if service is None else answer_of(service)
        found.append(Loss(lost, sets, answer, service, left.anew, left.refused))
    intact, *others = found
    others.sort(key=lambda one: one.badness, reverse=True)
    return Survived(losses, intact, tuple(others), unused)
