"""Prices of the time of devices and links, and the capacity of single policies by them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import optimize

from hetsim.provisioning.platforms.bounds.bound import Bound, Prices, Slos, limits_s
from hetsim.provisioning.platforms.policies import PlacedInstances, Policy, up_to
from hetsim.provisioning.platforms.question import SLACK, Counts, Instance, Mode, Question
from hetsim.provisioning.rates.ceiling import balanced

Floats = NDArray[np.float64]

ROUNDING = 1e-12
"""Relative margin for rounding of price products."""

RARE = 1e-6
"""Small count assumed for resources that a vector lacks, to get their prices."""


def alike(question: Question, slo: Slos) -> tuple[Prices, ...]:
    """Return prices by which every request has price 1, in each way.

    First, the maximum rate of each device: if models run whole on single devices and links do not
    matter, these are all the prices. Then those that minimize the total capacity of all kinds, and
    of each split.
    """
    worth = np.where(np.isnan(limits_s(question, slo)), 0.0, 1.0)
    modes = _useful(question, slo)
    found = [_by_device(question, modes)]
    if matters(question):
        kinds = range(len(question.kinds))
        rows = [tuple(1 for _ in kinds)]
        rows += [tuple(int(k in one.kinds) for k in kinds) for one in question.splits]
        for counts in dict.fromkeys(rows):
            capacity = covering(question, slo, counts)
            if capacity is not None and not any(np.allclose(capacity, one) for one in found):
                found.append(capacity)
    return tuple((capacity, worth) for capacity in found)


def usable(prices: Sequence[Prices]) -> list[Prices]:
    """Return the finite prices by which some request or device has a positive price."""
    return [row for row in prices if np.isfinite(row[0]).all() and row[0].any()]


def matters(question: Question) -> bool:
    """Return whether prices depend on links, or on several devices together."""
    types = len(question.types)
    return bool(question.splits) or any(
        max((use for one, use in mode.uses if one >= types), default=0.0)
        > max((use for one, use in mode.uses if one < types), default=0.0)
        for modes in question.modes
        for mode in modes
    )


def _useful(question: Question, slo: Slos) -> list[Mode]:
    # For a class without an objective the limit is NaN, so no way is useful.
    return [
        mode
        for of_class, limit_s in enumerate(limits_s(question, slo).tolist())
        for mode in question.useful_modes(of_class, limit_s)
    ]


def _by_device(question: Question, modes: Sequence[Mode]) -> Floats:
    """Return the rate of each device alone; then, for splits, that of the busiest device."""
    types = len(question.types)
    capacity = np.zeros(question.resources)
    by_devices = [(mode, [(one, use) for one, use in mode.uses if one < types]) for mode in modes]
    for mode, uses in sorted(by_devices, key=lambda row: len(row[1])):
        _raise_to(capacity, uses, float(mode.batch))
    return capacity


def _raise_to(capacity: Floats, uses: Sequence[tuple[int, float]], earns: float) -> None:
    """Raise the price of the most used resource until a batch has the required price."""
    missing = earns - sum(float(capacity[one]) * use for one, use in uses)
    if missing > 0:
        one, use = max(uses, key=lambda row: (row[1], -row[0]))
        capacity[one] = capacity[one] + missing / use if use else np.inf


def covering(question: Question, slo: Slos, counts: Counts) -> Floats | None:
    """Return prices, 1 per request, that minimize a vector's capacity; None if not found.

    Solves a linear program and raises its prices by their deficit, so that the solver's tolerance
    cannot invalidate the bound.
    """
    modes = _useful(question, slo)
    if not modes or any(not use for mode in modes for use in [max(u for _, u in mode.uses)]):
        return None
    each = np.zeros((len(modes), question.resources))
    for row, mode in enumerate(modes):
        for one, use in mode.uses:
            each[row, one] = use / mode.batch
    scale = float(each.max())
    weight = np.array(resources_of(question, counts)) + RARE
    solved = optimize.linprog(
        c=weight, A_ub=-each / scale, b_ub=-np.ones(len(modes)), method="highs"
    )
    if solved.status != 0:
        return None
    capacity: Floats = np.maximum(np.asarray(solved.x), 0.0) / scale
    earns = each @ capacity
    if not (earns > 0).all():
        return None
    return capacity * (max(1.0, float((1 / earns).max())) * (1 + ROUNDING))


def resources_of(question: Question, counts: Counts) -> list[float]:
    """Return the number of each resource of a vector."""
    found = [0.0] * question.resources
    for kind, count in enumerate(counts):
        for one in question.resources_of(kind):
            found[one] += count
    return found


def price_by_class(question: Question, slo: Slos, capacity: Floats) -> Floats:
    """Return by class the minimum price of a request over all ways."""
    worth = np.zeros(len(question.classes))
    for of_class, limit_s in enumerate(limits_s(question, slo).tolist()):
        each = [
            sum(float(capacity[one]) * use for one, use in mode.uses) / mode.batch
            for mode in question.useful_modes(of_class, limit_s)
        ]
        worth[of_class] = min(each, default=0.0) * (1 - ROUNDING)
    return worth


def at_vector(
    question: Question,
    slo: Slos,
    demand: Floats,
    counts: Counts,
) -> Prices | None:
    """Return prices that prove a vector too small for a demand; None if it suffices.

    Dual of the linear program that distributes requests to ways, in any proportions, and minimizes
    the maximum use of a device or link. The prices of requests are recomputed from those of
    resources, so that the solver's tolerance cannot invalidate the bound. `demand` [classes] is
    requests per second that must be answered in time.
    """
    limits = limits_s(question, slo)
    has = np.array(resources_of(question, counts))
    wanted = np.flatnonzero(demand > 0).tolist()
    modes = [
        (of_class, mode)
        for of_class in wanted
        for mode in question.useful_modes(of_class, float(limits[of_class]))
    ]
    ways = [(of, mode) for of, mode in modes if all(has[one] for one, _ in mode.uses)]
    there = np.flatnonzero(has).tolist()
    if not wanted or {of_class for of_class, _ in ways} != set(wanted):
        return None
    load = np.zeros((len(there), len(ways)))
    for column, (_, mode) in enumerate(ways):
        for one, use in mode.uses:
            load[there.index(one), column] = use / mode.batch
    scale = float(load.max()) or 1.0
    most = float(demand.max())
    group = np.array([wanted.index(of_class) for of_class, _ in ways])
    solved = balanced(load / scale, has[there], group, demand[wanted] / most)
    if solved is None or solved.most * most * scale <= 1.0:
        return None
    capacity = np.zeros(question.resources)
    capacity[there] = solved.price
    worth = np.zeros(len(question.classes))
    for of_class in wanted:
        worth[of_class] = min(
            sum(float(capacity[one]) * use for one, use in mode.uses) / mode.batch
            for other, mode in ways
            if other == of_class
        )
    # Resources that the vector lacks get a price that makes no request cheaper.
    for of_class, mode in modes:
        lacks = [(one, use) for one, use in mode.uses if not has[one]]
        if lacks:
            rest = sum(float(capacity[one]) * use for one, use in mode.uses if has[one])
            _raise_to(capacity, lacks, float(worth[of_class]) * mode.batch - rest)
    return capacity, price_by_class(question, slo, capacity)


Key = tuple[int, int, int, int]
"""Split, type of first device, model and largest batch of an instance."""


class PolicyBounds:
    """Bounds of a question, strengthened for policies that use devices and links less efficiently.

    *Proof.* Of the ways that a policy uses on a device or link let the best earn a part of what it
    takes by the bound's prices. Were each priced by that part alone, still no way that the policy
    uses would take what is worth less than its requests: each device and link in it has that way's
    part, or more. So these are prices for the policy, and all else of the bound's proof is as it
    was: what must be on time is worth no more than all of them gather. `bounds` may grow.
    """

    def __init__(self, question: Question, bounds: Sequence[Bound]) -> None:
        self._question, self._bounds = question, bounds
        self._edges = np.zeros(0)
        self._prices = np.zeros((question.resources, 0))
        self._limits: list[Floats] = []
        self._parts: dict[Key, tuple[int, dict[int, Floats]]] = {}

    def excludes(self, where: PlacedInstances, policy: Policy) -> int | None:
        """Return the first bound that a policy violates; None if it may meet all.

        O(instances and their resources x bounds), in arrays.
        """
        if not len(self.edges):
            return None
        out = np.flatnonzero(self.gathers(where, policy) < self.edges)
        return int(out[0]) if len(out) else None

    @property
    def edges(self) -> Floats:
        """Value of each bound below which a vector is certainly excluded."""
        self._grow()
        return self._edges

    def gathers(self, where: PlacedInstances, policy: Policy) -> Floats:
        """Return by bound the capacity of the devices and links as a policy uses them."""
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
        """Add new bounds."""
        known = len(self._edges)
        if known == len(self._bounds):
            return
        new = self._bounds[known:]
        # ``needs`` bounds are not covered here.
        edges = [-np.inf if bound.by == "needs" else bound.least * (1 - SLACK) for bound in new]
        self._edges = np.concatenate([self._edges, edges])
        self._prices = np.column_stack([self._prices, *(bound.capacity for bound in new)])
        self._limits += [limits_s(self._question, bound.slo) for bound in new]

    def _used(
        self, where: PlacedInstances, one: Instance, model: int, most: int
    ) -> dict[int, Floats]:
        """Return by resource of an instance, and by bound, the earned share of its price."""
        key = (one.split, where.places[one.devices[0]].of_type, model, most)
        bounds = len(self._edges)
        known, found = self._parts.get(key, (0, {}))
        if known < bounds:
            kinds = tuple(where.places[at].kind for at in where.units(self._question, one))
            types = [where.places[at].of_type for at in one.devices]
            found = {}
            for of_class in self._question.classes_of[model]:
                for way in up_to(where.ways(self._question, one, of_class), most):
                    mode = self._question.mode(way, kinds, types)
                    takes = np.zeros(bounds)
                    for at, seconds in mode.uses:
                        takes += self._prices[at] * seconds
                    each = self._earned(of_class, mode, takes)
                    for at, seconds in mode.uses:
                        if seconds:
                            found[at] = np.maximum(found.get(at, 0.0), each)
            self._parts[key] = bounds, found
        return found

    def _earned(self, of_class: int, mode: Mode, takes: Floats) -> Floats:
        """Return by bound the share of its price that a batch earns, at most 1."""
        bounds = zip(self._bounds, self._limits, strict=True)
        worth = np.array(
            [
                mode.batch * float(bound.worth[of_class])
                if bound.by != "needs" and mode.alone_s <= float(limits[of_class])
                else 0.0
                for bound, limits in bounds
            ]
        )
        return np.where(worth > 0, np.minimum(worth / np.where(takes > 0, takes, 1e-300), 1.0), 0.0)
