"""All placements of few models on the devices of a vector, and what losses leave of one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations, product
from math import comb, factorial, prod
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hetsim.errors import UsageError
from hetsim.provisioning.platforms.bounds.prices import PolicyBounds
from hetsim.provisioning.platforms.policies import (
    PlacedInstances,
    Policy,
    bytes_of,
    places_of,
    serves,
)
from hetsim.provisioning.platforms.question import SLACK, Counts, Instance, Place, Question
from hetsim.statistics.verdict import FIRST_LOOK

MOST_LISTED = 1 << 9
"""Maximum number of placements of a vector to enumerate, duplicates included."""

REQUESTS = 2**13
"""Total number of requests in all runs of a vector's placements, above which none is simulated."""

LEAST_PLAYED, MOST_PLAYED = 8, 64
"""Minimum and maximum number of such runs, regardless of their requests."""

MOST_WAYS = 100_000
"""Maximum number of ways to lose devices of one vector."""

Floats = NDArray[np.float64]
Load = tuple[tuple[int, ...], ...]
"""Models that each device of one of a kind serves."""


class Placements:
    """Placements of a question's models, each whole on one device or split across several.

    `under` excludes placements before they are examined.
    """

    def __init__(self, question: Question, under: PolicyBounds) -> None:
        self._question, self._under = question, under
        self._sets: dict[tuple[int, int, bool], list[list[tuple[int, ...]]]] = {}
        self._known: dict[tuple[int, int, bool], tuple[list[Load], NDArray[np.int64], Floats]] = {}

    def others(
        self,
        counts: Counts,
        policies: Sequence[Policy],
        known: Sequence[tuple[tuple[int, ...], PlacedInstances | str]],
    ) -> list[tuple[int, PlacedInstances]] | None:
        """Return placements that no bound excludes, by policy, except known deployments.

        Each once, for any permutation of copies of a kind, and for any routing if each model has
        one instance. None if simulating all of them would take too long.
        """
        question = self._question
        requests = FIRST_LOOK if question.arrivals is None else max(len(question.arrivals), 1)
        devices = sum(n * len(kind.devices) for n, kind in zip(counts, question.kinds, strict=True))
        losses = sum(comb(devices, lost) for lost in range(question.losses + 1))
        most = min(max(REQUESTS // (requests * losses), LEAST_PLAYED), MOST_PLAYED)
        seen = {
            same_as(where, policies[group[0]])
            for group, where in known
            if isinstance(where, PlacedInstances)
        }
        found: list[tuple[int, PlacedInstances]] = []
        for at, policy in enumerate(policies):
            if policy.placement != "each":
                continue
            left = self.left(counts, policy, most + len(known))
            if left is None:
                return None
            for where in left:
                same = same_as(where, policy)
                if same not in seen:
                    seen.add(same)
                    found.append((at, where))
                    if len(found) > most:
                        return None
        return found

    def left(self, counts: Counts, policy: Policy, most: int) -> Iterator[PlacedInstances] | None:
        """Yield placements that no bound excludes; None if they are more than `most`.

        One of a kind is idle only if the vector without it is not available, as that vector comes
        earlier. Placements equal up to copies of kinds may repeat. O(placements enumerated x
        bounds), in arrays.
        """
        question = self._question
        # The first load of each is empty.
        kinds, firsts = [], []
        for kind, count in enumerate(counts):
            fewer = tuple(n - (k == kind) for k, n in enumerate(counts))
            first = int(question.allows(fewer))
            kinds += [kind] * count
            firsts += [first] * count
        many = [prod(map(len, self._sets_of(kind, policy))) for kind in range(len(counts))]
        sizes = [many[kind] - first for kind, first in zip(kinds, firsts, strict=True)]
        if prod(sizes) > MOST_LISTED:
            return None
        rows = np.indices(sizes).reshape(len(sizes), -1) + np.array(firsts)[:, None]
        served = np.zeros(rows.shape[1], dtype=np.int64)
        edges = self._under.edges * (1 - SLACK)
        gathered = np.zeros((rows.shape[1], len(edges)))
        choices = []
        for row, kind in zip(rows, kinds, strict=True):
            loads, which, gathers = self._of_kind(kind, policy)
            choices.append(loads)
            served |= which[row]
            gathered += gathers[row]
        keep = (served == (1 << len(question.models)) - 1) & (gathered >= edges).all(axis=1)
        if int(keep.sum()) > most * prod(map(factorial, counts)):
            return None
        places = places_of(question, counts)
        return (
            self._placed(places, [mine[at] for mine, at in zip(choices, row, strict=True)])
            for row in rows[:, keep].T.tolist()
        )

    def _sets_of(self, kind: int, policy: Policy) -> list[list[tuple[int, ...]]]:
        """Return by device of a kind the sets of models that it serves and holds together."""
        key = (kind, policy.max_batch, policy.line)
        if key not in self._sets:
            devices = self._question.kinds[kind].devices
            self._sets[key] = [held_on(self._question, of_type, policy) for of_type in devices]
        return self._sets[key]

    def _of_kind(self, kind: int, policy: Policy) -> tuple[list[Load], NDArray[np.int64], Floats]:
        """Return one of a kind's loads, first none; its models as bits; and capacities by bound."""
        key = (kind, policy.max_batch, policy.line)
        known = self._known.get(key)
        if known is None or known[2].shape[1] < len(self._under.edges):
            loads = list(product(*self._sets_of(kind, policy)))
            bits = [sum({1 << model for on in load for model in on}) for load in loads]
            ones = tuple(int(k == kind) for k in range(len(self._question.kinds)))
            places = places_of(self._question, ones)
            gathers = [self._under.gathers(self._placed(places, [load]), policy) for load in loads]
            known = self._known[key] = loads, np.array(bits), np.array(gathers)
        return known

    def _placed(self, places: tuple[Place, ...], loads: Sequence[Load]) -> PlacedInstances:
        instances: list[list[Instance]] = [[] for _ in self._question.models]
        for at, on in enumerate(on for load in loads for on in load):
            for model in on:
                instances[model].append(Instance((at,)))
        return PlacedInstances(places, tuple(map(tuple, instances)))


def held_on(question: Question, of_type: int, policy: Policy) -> list[tuple[int, ...]]:
    """Return the sets of models that a device serves in time and holds, first the empty one."""
    spec, most = question.types[of_type], policy.max_batch
    room = spec.memory_bytes // (spec.streams if policy.line else 1)
    models = range(len(question.models))
    able = [model for model in models if serves(question, of_type, model, most)]
    return [
        on
        for many in range(len(able) + 1)
        for on in combinations(able, many)
        if sum(bytes_of(question, model, of_type, most) for model in on) <= room
    ]


# Equivalent placements


def routing_of(where: PlacedInstances, policy: Policy) -> str:
    """Return the routing of a policy; empty if each model has one instance."""
    return policy.routing if any(len(mine) > 1 for mine in where.instances) else ""


def same_as(where: PlacedInstances, policy: Policy) -> object:
    """Key that equal deployments share."""
    return shape_of(where), policy.max_batch, policy.line, routing_of(where, policy)


def shape_of(where: PlacedInstances) -> object:
    """Return the instances, with copies of kinds numbered in order of appearance."""
    number: dict[tuple[int, int], int] = {}
    rows = []
    for mine in where.instances:
        row = []
        for one in mine:
            on = [where.places[at] for at in one.devices]
            copies = [number.setdefault((at.kind, at.unit), len(number)) for at in on]
            row.append(
                (one.split, tuple((at.of_type, k) for at, k in zip(on, copies, strict=True)))
            )
        rows.append(tuple(row))
    return tuple(rows)


class RemainingPlacement(NamedTuple):
    """Placement without some devices, or the model that no device serves then."""

    lost: tuple[int, ...]
    placed: PlacedInstances | str


def remaining_placements(question: Question, where: PlacedInstances) -> list[RemainingPlacement]:
    """Return the distinct remainders after any allowed losses, first that without losses.

    Instances on a lost device are gone, links stay. Remainders with the same instances up to copies
    of kinds are bitwise equal (decision 38), as are losses of unused devices.

    Raises UsageError for too many ways to lose devices. O(ways x instances).
    """
    found = {shape_of(where): RemainingPlacement((), where)}
    used = sorted({at for mine in where.instances for one in mine for at in one.devices})
    each = [combinations(used, count) for count in range(1, question.losses + 1)]
    for ways, lost in enumerate(lost for losses in each for lost in losses):
        if ways == MOST_WAYS:
            raise UsageError(
                f"more than {MOST_WAYS} ways to lose {question.losses} devices",
                hint="ask what survives fewer losses, or give fewer --max-devices",
            )
        instances = tuple(
            tuple(one for one in mine if not set(one.devices) & set(lost))
            for mine in where.instances
        )
        if all(instances):
            left = PlacedInstances(where.places, instances)
            found.setdefault(shape_of(left), RemainingPlacement(lost, left))
        else:
            model = question.models[[bool(mine) for mine in instances].index(False)]
            names = [question.types[where.places[at].of_type].name for at in lost]
            text = f"nothing serves {model} without {' and '.join(names)}"
            found.setdefault(text, RemainingPlacement(lost, text))
    return list(found.values())
