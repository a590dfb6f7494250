"""Deployment without some devices, and the ways to lose up to so many that leave the same."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, TypeAlias

from hetsim.errors import Infeasible, UsageError
from hetsim.hardware.spec import Platform
from hetsim.placement.planning import replan
from hetsim.problem.plan import Plan
from hetsim.provisioning.rates.answer import Choice
from hetsim.provisioning.rates.redundancy.shapes import Shape, Shapes, alike
from hetsim.simulation.clock.runs import timeline_of
from hetsim.simulation.service.layout import Setup, set_up
from hetsim.simulation.service.memory import Memory, check_together
from hetsim.simulation.service.resolving import Resolved, devices_of, no_quicker
from hetsim.workload.deployment import Instances
from hetsim.workload.workload import Workload

Lost: TypeAlias = frozenset[str]
Chosen: TypeAlias = tuple[int, ...] | Lost
"""Of a model: the instances that stand, by place; or without what all are planned again."""


@dataclass(frozen=True, slots=True, eq=False)
class Left:
    """What is left.

    Attributes
    ----------
    resolved : tuple of Resolved
        The models with the instances that they have then; empty where one cannot be served.
    memory : Memory or None
        What they hold; None where one cannot be served.
    shape : tuple
        Deployments that are left with one shape do the same.
    used : frozenset of str
        Devices that something runs on.
    anew : tuple of str
        Models that had no instance left, and were planned again.
    refused : Infeasible, optional
        Why one cannot be served.
    """

    resolved: tuple[Resolved, ...] = field(repr=False)
    memory: Memory | None = field(repr=False)
    shape: Shape = field(repr=False)
    used: Lost
    anew: tuple[str, ...] = ()
    refused: Infeasible | None = None

    def set_up(self, workload: Workload) -> Setup:
        """Return the setup of a workload on what is left, where that can be served."""
        assert self.memory is not None
        return set_up(self.resolved, workload, self.memory)


class Leaving:
    """A deployment, ready to be asked what is left of it.

    As where devices fail under load (``simulation.failures.serving``): an instance is gone that
    runs on a device that is down. A model of which no instance is left is planned again: each of
    them that can be, by its own strategy, without those of the devices that are down which its
    plans ran on; again where the new plan runs on another that is down. Links and memory of a
    device stay: values still go through it, and the host still has the inputs.

    Parameters
    ----------
    resolved : sequence of Resolved
        As ``resolve`` gives them.
    platform : Platform

    Raises UsageError where a model is autoscaled: what is left of it depends on what came before.

    Attributes
    ----------
    devices : tuple of str
    classes : tuple of tuple of str
        As ``alike`` says.
    """

    def __init__(self, resolved: Sequence[Resolved], platform: Platform) -> None:
        for one in resolved:
            if one.served.autoscaling is not None:
                raise UsageError(
                    "replicas that come and go, and devices that are lost",
                    where=one.served.model,
                    hint="leave autoscaling: out, and write the instances that are there",
                )
        self._resolved, self._platform = tuple(resolved), platform
        self._shapes = Shapes()
        self.devices = resolved[0].problem.devices
        self.classes = alike(resolved, self._shapes)
        self._uses = [[devices_of(rows) for rows in one.plans] for one in resolved]
        self._anew: dict[tuple[int, Lost], Resolved | Infeasible] = {}
        self._left: dict[tuple[Chosen, ...], Left] = {}

    def without(self, lost: Lost) -> Left:
        """Return what is left without some devices."""
        chosen: list[Chosen] = []
        for at, uses in enumerate(self._uses):
            stands = tuple(k for k, used in enumerate(uses) if not used & lost)
            if stands:
                chosen.append(stands)
                continue
            matter = lost & frozenset().union(*uses)
            while True:
                made = self._planned(at, matter)
                if isinstance(made, Infeasible) or not lost & _of_model(made):
                    break
                matter |= lost & _of_model(made)
            chosen.append(matter)
        key = tuple(chosen)
        if key not in self._left:
            self._left[key] = self._checked(key)
        return self._left[key]

    def _checked(self, key: tuple[Chosen, ...]) -> Left:
        found: list[Resolved] = []
        anew: list[str] = []
        for at, (one, stands) in enumerate(zip(self._resolved, key, strict=True)):
            if isinstance(stands, tuple):
                found.append(_chosen(one, stands))
                continue
            made = self._planned(at, stands)
            anew.append(one.served.model)
            if isinstance(made, Infeasible):
                return _refused(anew, made)
            found.append(made)
        try:
            memory = check_together(found, self._platform)
        except Infeasible as error:
            return _refused(anew, error)
        used = frozenset().union(*(_of_model(one) for one in found))
        return Left(tuple(found), memory, self._shapes.of_all(found), used, tuple(anew))

    def _planned(self, model: int, lost: Lost) -> Resolved | Infeasible:
        if (model, lost) not in self._anew:
            try:
                self._anew[model, lost] = planned_again(
                    self._resolved[model], [name for name in self.devices if name in lost]
                )
            except Infeasible as error:
                self._anew[model, lost] = error
        return self._anew[model, lost]


def planned_again(one: Resolved, lost: Sequence[str]) -> Resolved:
    """Return a model with those of its instances that can be planned without some devices.

    A batch takes at least as long as one request alone, as in ``resolve``. An instance whose plan
    was one of several replicas gets one of those that its strategy makes then.

    Raises Infeasible where the devices that are left cannot run any.
    """
    known: dict[int, tuple[Plan, ...]] = {}
    place: dict[int, int] = {}
    stands: list[int] = []
    entries = []
    refused: Infeasible | None = None
    for at, (entry, rows) in enumerate(zip(one.served.instances, one.plans, strict=True)):
        turn = place.setdefault(id(entry), 0)
        place[id(entry)] += 1
        try:
            entries.append([_row(row, lost, turn, known) for row in rows])
        except Infeasible as error:
            refused = refused or error
        else:
            stands.append(at)
    if refused is not None and not stands:
        raise refused
    return replace(
        _chosen(one, stands),
        plans=tuple(tuple(tuple(plan for plan, _ in row) for row in rows) for rows in entries),
        seconds=tuple(tuple(tuple(took for _, took in row) for row in rows) for rows in entries),
    )


def _row(
    plans: Sequence[Plan], lost: Sequence[str], turn: int, known: dict[int, tuple[Plan, ...]]
) -> list[tuple[Plan, float]]:
    """By batch size: a plan without what is lost, and what a batch takes alone."""
    found: list[tuple[Plan, float]] = []
    for plan in plans:
        if id(plan) not in known:
            known[id(plan)] = replan(plan, lost).replicas
        made = known[id(plan)][turn % len(known[id(plan)])]
        took_s = timeline_of(made, trace=False).latency_s
        found.append(no_quicker(made, took_s, found[0][1]) if found else (made, took_s))
    return found


def _chosen(one: Resolved, stands: Sequence[int]) -> Resolved:
    if len(stands) == len(one.plans):
        return one
    instances: tuple[Instances, ...] = tuple(one.served.instances[k] for k in stands)
    return replace(
        one,
        served=replace(one.served, instances=instances),
        plans=tuple(one.plans[k] for k in stands),
        seconds=tuple(one.seconds[k] for k in stands),
    )


def _of_model(one: Resolved) -> Lost:
    return frozenset().union(*(devices_of(rows) for rows in one.plans))


def _refused(anew: Sequence[str], error: Infeasible) -> Left:
    return Left((), None, ("refused", str(error)), frozenset(), tuple(anew), error)


MOST = 2**20
"""Ways to lose devices that are looked at."""

Vector: TypeAlias = tuple[int, ...]
"""How many devices of each class are down."""

Counts: TypeAlias = tuple[int | None, ...]
"""The same; None: any number."""


class Way(NamedTuple):
    """One way to lose devices, for all that leave the same.

    Attributes
    ----------
    lost : tuple of str
        Those that were left out, in the platform's order.
    sets : tuple of Choice
        What it stands for; the first has `lost` in it.
    left : Left
    """

    lost: tuple[str, ...]
    sets: tuple[Choice, ...]
    left: Left


def ways(leaving: Leaving, losses: int) -> tuple[list[Way], tuple[str, ...]]:
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
    found = [
        Way(
            names_of(leaving, same[0]),
            tuple(choice_of(leaving, vector) for vector in same),
            of_way[same[0]],
        )
        for same in rows.values()
    ]
    return found, tuple(name for name in leaving.devices if name in unused)


def names_of(leaving: Leaving, counts: Counts) -> tuple[str, ...]:
    """Return the devices that stand for so many of each class: the first ones."""
    lost = {
        name
        for count, names in zip(counts, leaving.classes, strict=True)
        for name in names[: count or 0]
    }
    return tuple(name for name in leaving.devices if name in lost)


def choice_of(leaving: Leaving, counts: Counts) -> Choice:
    """Return how many are down of which devices."""
    return tuple(
        (count, names) for count, names in zip(counts, leaving.classes, strict=True) if count
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
