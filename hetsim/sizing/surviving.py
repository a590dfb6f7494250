"""The verb ``survive``: whether objectives hold without any one device, or any few."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from hetsim.base import checks
from hetsim.confidence.verdict import Answer
from hetsim.errors import UsageError
from hetsim.hardware.spec import Platform
from hetsim.service.asked import Asked
from hetsim.service.layout import set_up
from hetsim.service.memory import check_together
from hetsim.service.resolving import Made, Resolved, resolve
from hetsim.service.service import Service
from hetsim.service.serving import played
from hetsim.sizing.impossible import impossible_as
from hetsim.sizing.outages.left import Leaving, Left
from hetsim.sizing.outages.survived import Loss, Survived
from hetsim.sizing.outages.verdicts import CONFIDENCE, answer_of, check_asked
from hetsim.workloads.deployment import Deployment
from hetsim.workloads.workload import Workload

MOST = 2**20
"""Ways to lose devices that are looked at."""

Vector = tuple[int, ...]
"""How many devices of each class are down."""


@checks.takes(
    deployment=checks.instance("hetsim.workloads.deployment:Deployment"),
    workload=checks.instance("hetsim.workloads.workload:Workload"),
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
    machine_code: bool | None = None,
) -> Survived:
    """Return whether objectives hold without any `losses` devices of what is resolved.

    All verdicts together are right in 95 of 100 cases. Parameters as those of ``serve``.
    """
    check_together(resolved, platform)
    leaving = Leaving(resolved, platform)
    rows, unused = ways(leaving, losses)
    confidence = 1 - (1 - CONFIDENCE) / len(rows)
    found = []
    for vectors in rows:
        lost = names_of(leaving, vectors[0])
        left = leaving.without(frozenset(lost))
        service = None
        if left.refused is None:
            service = played_left(
                left,
                workload,
                until_answered=until_answered,
                within=within,
                confidence=confidence,
                machine_code=machine_code,
            )
        answer: Answer = "misses" if service is None else answer_of(service)
        sets = tuple(_named(leaving, vector) for vector in vectors)
        found.append(Loss(lost, sets, answer, service, left.anew, left.refused))
    intact, *others = found
    others.sort(key=lambda one: one.badness, reverse=True)
    return Survived(losses, intact, tuple(others), unused)


def played_left(
    left: Left,
    workload: Workload,
    *,
    until_answered: bool,
    within: float | None = None,
    confidence: float,
    machine_code: bool | None = None,
) -> Service:
    """Play a workload on what is left, where that can be served."""
    assert left.memory is not None
    return played(
        workload,
        left.resolved,
        set_up(left.resolved, workload, left.memory),
        until_answered=until_answered,
        within=within,
        confidence=confidence,
        machine_code=machine_code,
    )


def ways(leaving: Leaving, losses: int) -> tuple[list[list[Vector]], tuple[str, ...]]:
    """Return the ways to lose up to so many devices that leave something else each.

    The first is to lose none. Beside them the devices of which the loss alone changes nothing.
    Those that leave one shape stand together. A way is left out of which another is a part that
    leaves the same.

    Raises UsageError where there are too many ways.
    """
    sizes = [len(one) for one in leaving.classes]
    rows: dict[object, list[Vector]] = {}
    of_way: dict[Vector, Left] = {}
    unused: list[str] = []
    for vector in _vectors(sizes, losses):
        if len(of_way) == MOST:
            raise UsageError(
                f"more than {MOST} ways to lose {losses} of {len(leaving.devices)} devices",
                hint="ask for fewer",
            )
        left = leaving.without(frozenset(names_of(leaving, vector)))
        of_way[vector] = left
        if not any(of_way[less] is left for less in _less(vector)):
            rows.setdefault(left.shape, []).append(vector)
        elif sum(vector) == 1:
            unused += leaving.classes[vector.index(1)]
    return list(rows.values()), tuple(name for name in leaving.devices if name in unused)


def names_of(leaving: Leaving, vector: Vector) -> tuple[str, ...]:
    """Return the devices that stand for so many of each class: the first ones."""
    lost = {
        name for count, names in zip(vector, leaving.classes, strict=True) for name in names[:count]
    }
    return tuple(name for name in leaving.devices if name in lost)


def _named(leaving: Leaving, vector: Vector) -> tuple[tuple[int, tuple[str, ...]], ...]:
    return tuple(
        (count, names) for count, names in zip(vector, leaving.classes, strict=True) if count
    )


def _vectors(sizes: Sequence[int], most: int) -> Iterator[Vector]:
    """Give all counts up to the sizes that sum up to `most` at most, small sums first."""

    def of_sum(at: int, left: int) -> Iterator[Vector]:
        if at == len(sizes):
            if left == 0:
                yield ()
            return
        if left > sum(sizes[at:]):
            return
        for count in range(min(sizes[at], left), -1, -1):
            for rest in of_sum(at + 1, left - count):
                yield (count, *rest)

    for total in range(min(most, sum(sizes)) + 1):
        yield from of_sum(0, total)


def _less(vector: Vector) -> Iterator[Vector]:
    """Give the vectors with one device less down."""
    for at, count in enumerate(vector):
        if count:
            yield (*vector[:at], count - 1, *vector[at + 1 :])
