"""Replicas as numbers, and the memory and rates of sets of them.

Independent of models and plans. A *set* of replicas is a placement: it fits if every device can
hold its replicas there, and it sustains a multiple of the demand, its factor, if requests are
routed optimally among the replicas of their model, in any proportions.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from hetsim.problem.parts import StorageWidth
from hetsim.provisioning.rates.ceiling import balanced

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

Chosen = tuple[int, ...]
"""Indices of replicas, ascending."""


@dataclass(frozen=True, slots=True)
class SharedWeights:
    """Weights on one device that several replicas of one model share."""

    model: int
    device: int
    nbytes: int
    replicas: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class ReplicaChoices:
    """Candidate replicas of several models.

    A *kind* is a class of equal requests of a model; a *way* is the execution of one kind in one
    replica in batches of one size. Every replica has a way for every kind of its model.

    Kinds have a `demand` [kinds] in requests per second, above 0. For each way, a request takes
    `work` [ways, resources] seconds of each device and link and `within_s` of its replica's
    `places`, the concurrent batches (infinite: unlimited), and its batch takes `alone_s`. Each
    resource has `width` seconds per second. Batches of a replica have `live` [replicas, devices]
    bytes of the graph's own types, for which devices have `room`; `held` [models][devices] is the
    devices' storage of these types.
    """

    model: tuple[int, ...]
    demand: Floats
    kind_model: tuple[int, ...]
    way_replica: Ints
    way_kind: Ints
    work: Floats
    width: Floats
    within_s: Floats
    alone_s: Floats
    places: Floats
    live: NDArray[np.int64]
    parts: tuple[SharedWeights, ...]
    room: tuple[int, ...]
    held: tuple[tuple[StorageWidth, ...], ...]

    @property
    def count(self) -> int:
        """Number of replicas."""
        return len(self.model)

    @cached_property
    def models(self) -> tuple[int, ...]:
        """Models with requests, ascending."""
        return tuple(sorted(set(self.kind_model)))

    @cached_property
    def ways_of(self) -> tuple[Ints, ...]:
        """Ways by replica."""
        return tuple(np.flatnonzero(self.way_replica == one) for one in range(self.count))

    @cached_property
    def parts_of(self) -> tuple[tuple[int, ...], ...]:
        """Parts by replica."""
        found: list[list[int]] = [[] for _ in range(self.count)]
        for at, part in enumerate(self.parts):
            for one in part.replicas:
                found[one].append(at)
        return tuple(map(tuple, found))

    def held_bytes(self, chosen: Iterable[int]) -> list[int]:
        """Return the bytes that a set holds on each device, shared weights once."""
        devices = len(self.room)
        stated: dict[int, list[int]] = {}
        parts: set[int] = set()
        for one in chosen:
            mine = stated.setdefault(self.model[one], [0] * devices)
            for p, nbytes in enumerate(self.live[one].tolist()):
                mine[p] += nbytes
            parts.update(self.parts_of[one])
        for at in sorted(parts):
            part = self.parts[at]
            stated[part.model][part.device] += part.nbytes
        return [
            sum(self.held[model][p].nbytes(mine[p]) for model, mine in stated.items())
            for p in range(devices)
        ]

    def fits(self, chosen: Iterable[int]) -> bool:
        """Return whether every device can hold the set's replicas there."""
        return all(
            has <= room for has, room in zip(self.held_bytes(chosen), self.room, strict=True)
        )

    def serves_all(self, chosen: Iterable[int]) -> bool:
        """Return whether each model with requests has a replica."""
        return {self.model[one] for one in chosen} >= set(self.models)


CARRIES = 1e-9
"""Share of a kind's requests from which a replica counts as used."""


@dataclass(frozen=True, slots=True, eq=False)
class RoutedDemand:
    """Optimal routing of one set of replicas.

    It sustains `factor` times the demand without overload: 0 if a model has no replica, infinite if
    requests need no work; no routing sustains more than `bound`. A way gets the `share` [ways] of
    the requests of its kind. Resources are busy for the share `use` [resources] of their time, and
    a second of each has the price `price` [resources].
    """

    factor: float
    bound: float
    share: Floats
    use: Floats
    price: Floats

    @property
    def rounded(self) -> float:
        """Factor to nine digits, so that rounding differences are equal."""
        return float(f"{self.factor:.9g}")

    def carrying(self, replicas: ReplicaChoices) -> Chosen:
        """Return the replicas that get requests."""
        return tuple(np.unique(replicas.way_replica[self.share > CARRIES]).tolist())


def flow_of(
    replicas: ReplicaChoices, chosen: Sequence[int], models: Sequence[int] | None = None
) -> RoutedDemand:
    """Return the multiple of the demand that a set sustains, optionally for some models only.

    A linear program minimizes the maximum busy share of devices, links and replicas; the factor is
    its inverse. The factor of its repaired solution is sustained, and that of its prices is not
    exceeded (weak duality), whatever the solver's tolerance.
    """
    wanted = set(replicas.models if models is None else models)
    kinds = [k for k, model in enumerate(replicas.kind_model) if model in wanted]
    which = np.isin(replicas.way_replica, np.asarray(chosen, dtype=np.int64))
    ways = np.flatnonzero(which & np.isin(replicas.way_kind, kinds))
    resources = len(replicas.width)
    none = RoutedDemand(0.0, 0.0, np.zeros(len(which)), np.zeros(resources), np.zeros(resources))
    if set(replicas.way_kind[ways].tolist()) != set(kinds):
        return none
    limited = [one for one in chosen if np.isfinite(replicas.places[one])]
    busy = _busy(replicas, ways, limited)
    most = float(busy.max(initial=0.0))
    if most == 0.0:
        return RoutedDemand(np.inf, np.inf, none.share, none.use, none.price)
    busy /= most
    place = {kind: at for at, kind in enumerate(kinds)}
    group = np.array([place[kind] for kind in replicas.way_kind[ways].tolist()])
    found = balanced(busy, np.ones(len(busy)), group, np.ones(len(kinds)))
    assert found is not None
    split, price = np.maximum(found.parts, 0.0), found.price
    whole = np.bincount(group, split, minlength=len(kinds))
    split = split / whole[group]
    use = busy @ split
    needed = float(use.max())
    cost = price @ busy
    least = np.full(len(kinds), np.inf)
    np.minimum.at(least, group, cost)
    worth = float(least.sum())
    share = np.zeros(len(which))
    share[ways] = split
    bound = np.inf if worth <= 0.0 else float(price.sum()) / worth / most
    return RoutedDemand(
        1 / needed / most, bound, share, (use / needed)[:resources], price[:resources]
    )


def _busy(replicas: ReplicaChoices, ways: Ints, limited: Sequence[int]) -> Floats:
    """Return busy shares of resources, then of limited replicas, at the full demand of a kind."""
    demand = replicas.demand[replicas.way_kind[ways]]
    rows = [(replicas.work[ways] / replicas.width * demand[:, None]).T]
    for one in limited:
        mine = replicas.way_replica[ways] == one
        rows.append((mine * replicas.within_s[ways] / replicas.places[one] * demand)[None, :])
    return np.vstack(rows)
