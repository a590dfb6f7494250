"""What excludes one policy on one vector: the bounds of all, with what it makes of the devices."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from hetsim.provisioning.platforms.bounds.bound import Bound, limits_s
from hetsim.provisioning.platforms.policies import Placed, Policy, up_to
from hetsim.provisioning.platforms.question import SLACK, Instance, Question

Floats = NDArray[np.float64]
Key = tuple[int, int, int, int]
"""Of an instance: its split, the type of its first device; its model; the largest batch."""


class Under:
    """Bounds of a question, each as a policy that uses less of devices and links meets it.

    *Proof.* Of the ways that a policy uses on a device or link let the best earn a part of what it
    takes by the bound's prices. Were each priced by that part alone, still no way that the policy
    uses would take what is worth less than its requests: each device and link in it has that way's
    part, or more. So these are prices for the policy, and all else of the bound's proof is as it
    was: what must be on time is worth no more than all of them gather.

    Parameters
    ----------
    question : Question
    bounds : sequence of Bound
        May grow.
    """

    def __init__(self, question: Question, bounds: Sequence[Bound]) -> None:
        self._question, self._bounds = question, bounds
        self._edges = np.zeros(0)
        self._prices = np.zeros((question.resources, 0))
        self._limits: list[Floats] = []
        self._parts: dict[Key, dict[int, Floats]] = {}

    def excludes(self, where: Placed, policy: Policy) -> int | None:
        """Return the first bound that a policy does not meet; None: it may meet all.

        O(instances and what they use x bounds), in arrays.
        """
        if not len(self.edges):
            return None
        out = np.flatnonzero(self.gathers(where, policy) < self.edges)
        return int(out[0]) if len(out) else None

    @property
    def edges(self) -> Floats:
        """By bound: what is below it is excluded for certain."""
        self._grow()
        return self._edges

    def gathers(self, where: Placed, policy: Policy) -> Floats:
        """By bound: what the devices and links gather as a policy uses them, unit for unit."""
        self._grow()
        question = self._question
        part: dict[tuple[int, int, int], Floats] = {}
        for model, mine in enumerate(where.instances):
            for one in mine:
                uses = self._used(where, one, model, policy.max_batch)
                for at in where.units(question, one):
                    place = where.places[at]
                    for resource in question.resources_of(place.kind):
                        if resource in uses:
                            key = (place.kind, place.unit, resource)
                            known = part.get(key)
                            new = uses[resource]
                            part[key] = new if known is None else np.maximum(known, new)
        total = np.zeros(len(self._edges))
        for (_, _, resource), earned in part.items():
            total += self._prices[resource] * earned
        return total

    def _grow(self) -> None:
        """Take in bounds that are new."""
        known = len(self._edges)
        if known == len(self._bounds):
            return
        new = self._bounds[known:]
        self._edges = np.concatenate([self._edges, [_edge(bound) for bound in new]])
        self._prices = np.column_stack([self._prices, *(bound.capacity for bound in new)])
        self._limits += [limits_s(self._question, bound.slo) for bound in new]

    def _used(self, where: Placed, one: Instance, model: int, most: int) -> dict[int, Floats]:
        """By what an instance uses, and by bound: the part of its price that is earned."""
        key = (one.split, where.places[one.devices[0]].of_type, model, most)
        known = self._parts.setdefault(key, {})
        first = len(next(iter(known.values()), ()))
        if first < len(self._edges):
            kinds = tuple(where.places[at].kind for at in where.units(self._question, one))
            types = {slot: where.places[at].of_type for slot, at in where.slots(one).items()}
            new: dict[int, Floats] = {}
            for of_class in self._question.classes_of(model):
                for way in up_to(where.ways(self._question, one, of_class), most):
                    mode = self._question.mode(way, kinds, types)
                    used = [resource for resource, seconds in mode.uses if seconds]
                    takes = np.zeros(len(self._edges) - first)
                    for at, seconds in mode.uses:
                        takes += self._prices[at, first:] * seconds
                    each = self._earned(of_class, mode.batch, mode.alone_s, takes, first)
                    for resource in used:
                        new[resource] = np.maximum(new.get(resource, 0.0), each)
            for resource, values in new.items():
                before = known.get(resource, np.zeros(first))
                known[resource] = np.concatenate([before, values])
        return known

    def _earned(
        self, of_class: int, batch: int, alone_s: float, takes: Floats, first: int
    ) -> Floats:
        """By bound: what a batch earns of what it takes, at most all of it."""
        worth = np.array(
            [
                batch * float(bound.worth[of_class])
                if bound.by != "needs" and alone_s <= float(limits[of_class])
                else 0.0
                for bound, limits in zip(self._bounds[first:], self._limits[first:], strict=True)
            ]
        )
        return np.where(worth > 0, np.minimum(worth / np.where(takes > 0, takes, 1e-300), 1.0), 0.0)


def _edge(bound: Bound) -> float:
    """What is below it is excluded for certain; of ``needs`` nothing is said here."""
    return -np.inf if bound.by == "needs" else bound.least * (1 - SLACK)
