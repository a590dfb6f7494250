"""All placements of few models on the devices of a vector: each device serves some, or none."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations, product
from math import comb, factorial, prod

import numpy as np
from numpy.typing import NDArray

from hetsim.provisioning.platforms.bounds.under import Under
from hetsim.provisioning.platforms.losing import shape_of
from hetsim.provisioning.platforms.mixing import bytes_of
from hetsim.provisioning.platforms.policies import Placed, Policy, places_of, serves
from hetsim.provisioning.platforms.question import SLACK, Counts, Instance, Place, Question
from hetsim.statistics.until import FIRST_LOOK

MOST_LISTED = 1 << 9
"""Placements of a vector that are listed, equal ones as well."""

REQUESTS = 2**13
"""Requests that all runs of a vector's placements take together, or none is played."""

LEAST_PLAYED, MOST_PLAYED = 8, 64
"""Of such runs: there may be as many of however many requests, and so many of however few."""

Floats = NDArray[np.float64]

Holds = Callable[[Question, int, Policy], list[tuple[int, ...]]]

Load = tuple[tuple[int, ...], ...]
"""Of one of a kind: by device, the models that it serves."""


class Placements:
    """Placements of a question's models, each whole on one device or on several.

    Parameters
    ----------
    question : Question
    under : Under
        What excludes placements before they are looked at.
    held : function
        The sets of models that a type of device serves and holds together, first the empty one.
    """

    def __init__(self, question: Question, under: Under, held: Holds | None = None) -> None:
        self._question, self._under, self._held = question, under, held or held_on
        self._loads: dict[tuple[int, int, bool], tuple[Load, ...]] = {}
        self._sets: dict[tuple[int, int, bool], list[list[tuple[int, ...]]]] = {}
        self._known: dict[tuple[int, int, bool], tuple[NDArray[np.int64], Floats]] = {}

    def others(
        self,
        counts: Counts,
        policies: Sequence[Policy],
        known: Sequence[tuple[tuple[int, ...], Placed | str]],
    ) -> list[tuple[int, Placed]] | None:
        """Return the placements that no bound excludes, by policy, but for known deployments.

        Each once, whichever copies of kinds it is on, and however it is routed where each model has
        one instance. None where to play all of them would take too long.
        """
        question = self._question
        requests = FIRST_LOOK if question.arrivals is None else max(len(question.arrivals), 1)
        devices = sum(n * len(kind.devices) for n, kind in zip(counts, question.kinds, strict=True))
        losses = sum(comb(devices, lost) for lost in range(question.losses + 1))
        most = min(max(REQUESTS // (requests * losses), LEAST_PLAYED), MOST_PLAYED)
        seen: set[object] = set()
        found: list[tuple[int, Placed]] = []
        for at, policy in enumerate(policies):
            if policy.placement != "each":
                continue
            left = self.left(counts, policy, most + len(known))
            if left is None:
                return None
            seen = seen or {
                self.same(where, policies[group[0]])
                for group, where in known
                if isinstance(where, Placed)
            }
            for where in left:
                same = self.same(where, policy)
                if same not in seen:
                    seen.add(same)
                    found.append((at, where))
                    if len(found) > most:
                        return None
        return found

    def same(self, where: Placed, policy: Policy) -> object:
        """What is equal of deployments that do the same."""
        shape = shape_of(where)
        return shape, policy.max_batch, policy.line, routing_of(where, policy)

    def left(self, counts: Counts, policy: Policy, most: int) -> Iterator[Placed] | None:
        """Return the placements that no bound excludes; None where they are more than so many.

        One of a kind has nothing to serve only where the vector without it cannot be had: it comes
        sooner, and what is done on it is looked at there. Equal ones, but for which copies of kinds
        they are on, may come again. O(placements listed x bounds), in arrays.
        """
        question = self._question
        # The first load of each is that of nothing.
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
        for row, kind in zip(rows, kinds, strict=True):
            which, gathers = self._of_kind(kind, policy)
            served |= which[row]
            gathered += gathers[row]
        keep = (served == (1 << len(question.models)) - 1) & (gathered >= edges).all(axis=1)
        if int(keep.sum()) > most * prod(map(factorial, counts)):
            return None
        places = places_of(question, counts)
        choices = [self._loads_of(kind, policy) for kind in kinds]
        return (
            self._placed(places, [mine[at] for mine, at in zip(choices, row, strict=True)])
            for row in rows[:, keep].T.tolist()
        )

    def _loads_of(self, kind: int, policy: Policy) -> tuple[Load, ...]:
        """What one of a kind may serve, by its devices and their memory; first nothing."""
        key = (kind, policy.max_batch, policy.line)
        if key not in self._loads:
            self._loads[key] = tuple(product(*self._sets_of(kind, policy)))
        return self._loads[key]

    def _sets_of(self, kind: int, policy: Policy) -> list[list[tuple[int, ...]]]:
        """By device of a kind: the sets of models that it serves and holds together."""
        key = (kind, policy.max_batch, policy.line)
        if key not in self._sets:
            question = self._question
            devices = question.kinds[kind].devices
            self._sets[key] = [self._held(question, of_type, policy) for of_type in devices]
        return self._sets[key]

    def _of_kind(self, kind: int, policy: Policy) -> tuple[NDArray[np.int64], Floats]:
        """By load of one of a kind: its models as bits; what it gathers, by bound."""
        key = (kind, policy.max_batch, policy.line)
        known = self._known.get(key)
        if known is None or known[1].shape[1] < len(self._under.edges):
            loads = self._loads_of(kind, policy)
            bits = [sum({1 << model for on in load for model in on}) for load in loads]
            ones = tuple(int(k == kind) for k in range(len(self._question.kinds)))
            places = places_of(self._question, ones)
            gathers = [self._under.gathers(self._placed(places, [load]), policy) for load in loads]
            known = self._known[key] = np.array(bits), np.array(gathers)
        return known

    def _placed(self, places: tuple[Place, ...], loads: Sequence[Load]) -> Placed:
        instances: list[list[Instance]] = [[] for _ in self._question.models]
        for at, on in enumerate(on for load in loads for on in load):
            for model in on:
                instances[model].append(Instance((at,)))
        return Placed(places, tuple(map(tuple, instances)))


def routing_of(where: Placed, policy: Policy) -> str:
    """Return how a policy routes; empty where each model has one instance."""
    return policy.routing if any(len(mine) > 1 for mine in where.instances) else ""


def able_on(question: Question, of_type: int, policy: Policy) -> list[int]:
    """Return the models that a device serves in time, each alone."""
    models = range(len(question.models))
    return [model for model in models if serves(question, of_type, model, policy.max_batch)]


def held_on(question: Question, of_type: int, policy: Policy) -> list[tuple[int, ...]]:
    """Return the sets of models that a device serves and holds together, first the empty one."""
    able = able_on(question, of_type, policy)
    spec = question.types[of_type]
    times = spec.streams if policy.line else 1
    return [
        on
        for many in range(len(able) + 1)
        for on in combinations(able, many)
        if sum(bytes_of(question, model, of_type, policy.max_batch) for model in on) * times
        <= spec.memory_bytes
    ]
