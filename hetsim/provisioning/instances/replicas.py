"""Replicas in numbers, and the memory and rates of sets of them.

Free of models and plans. A *set* of replicas is a placement: it fits where every device holds what
its replicas have there, and it carries a multiple of the demand, its factor, where each request
may go to whichever replica of its model suits best, in any parts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from hetsim.problem.parts import Held
from hetsim.provisioning.rates.ceiling import balanced

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

Chosen = tuple[int, ...]
"""Replicas, ascending."""


@dataclass(frozen=True, slots=True)
class Part:
    """Weights on one device that several replicas of one model share, there once."""

    model: int
    device: int
    nbytes: int
    replicas: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Replicas:
    """Replicas that there may be of several models.

    A *way* is how requests of one kind run in one replica: in batches of one size. A *kind* is what
    requests of a model that are alike ask for. Every replica has a way for every kind of its model.

    Kinds come with a `demand` [kinds] in requests a second, above 0. By way a request takes `work`
    [ways, resources] seconds of each device and link, `within_s` of its replica's `places`, batches
    that may be under way (infinite: any number), and its batch `alone_s`. Of each resource there
    are `width` seconds a second. Batches of a replica have `live` [replicas, devices] bytes of the
    graph's own types, of which devices have `room`; `held` [models][devices] is how devices hold
    these types.
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
    parts: tuple[Part, ...]
    room: tuple[int, ...]
    held: tuple[tuple[Held, ...], ...]

    @property
    def count(self) -> int:
        """Number of replicas."""
        return len(self.model)

    @cached_property
    def models(self) -> tuple[int, ...]:
        """Models that something comes for, ascending."""
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
        """Bytes that a set holds of each device, weights that are shared once."""
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
        """Whether every device holds what a set has there."""
        return all(
            has <= room for has, room in zip(self.held_bytes(chosen), self.room, strict=True)
        )

    def serves_all(self, chosen: Iterable[int]) -> bool:
        """Whether each model that something comes for has a replica."""
        return {self.model[one] for one in chosen} >= set(self.models)


CARRIES = 1e-9
"""Share of a kind's requests from which a replica is said to carry any."""


@dataclass(frozen=True, slots=True, eq=False)
class Flow:
    """The best routing of one set of replicas.

    It carries `factor` times the demand, with nothing busy for longer than there is time: 0 where a
    model has no replica, infinite where requests ask for no work; no routing carries more than
    `bound`. A way gets the `share` [ways] of the requests of its kind. Resources are busy for a
    part `use` [resources] of their time, and a second of each is worth `price` [resources].
    """

    factor: float
    bound: float
    share: Floats
    use: Floats
    price: Floats

    @property
    def rounded(self) -> float:
        """Factor to nine digits: those that differ by rounding alone are equal."""
        return float(f"{self.factor:.9g}")

    def carrying(self, replicas: Replicas) -> Chosen:
        """Replicas that get requests."""
        return tuple(np.unique(replicas.way_replica[self.share > CARRIES]).tolist())


def flow_of(replicas: Replicas, chosen: Sequence[int], models: Sequence[int] | None = None) -> Flow:
    """Multiple of the demand that a set sustains, also for some models alone.

    The least part of their time for which all that is asked for keeps devices, links and replicas
    busy is a linear program; the factor is its inverse. That of its solution, made whole again, is
    carried, and that of its prices is not exceeded (weak duality), whatever the solver's tolerance.
    """
    wanted = set(replicas.models if models is None else models)
    kinds = [k for k, model in enumerate(replicas.kind_model) if model in wanted]
    which = np.isin(replicas.way_replica, np.asarray(chosen, dtype=np.int64))
    ways = np.flatnonzero(which & np.isin(replicas.way_kind, kinds))
    resources = len(replicas.width)
    none = Flow(0.0, 0.0, np.zeros(len(which)), np.zeros(resources), np.zeros(resources))
    if set(replicas.way_kind[ways].tolist()) != set(kinds):
        return none
    limited = [one for one in chosen if np.isfinite(replicas.places[one])]
    busy = _busy(replicas, ways, limited)
    most = float(busy.max(initial=0.0))
    if most == 0.0:
        return Flow(np.inf, np.inf, none.share, none.use, none.price)
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
    return Flow(1 / needed / most, bound, share, (use / needed)[:resources], price[:resources])


def _busy(replicas: Replicas, ways: Ints, limited: Sequence[int]) -> Floats:
    """Part of their time that resources, then replicas with limits, are busy with all of a kind."""
    demand = replicas.demand[replicas.way_kind[ways]]
    rows = [(replicas.work[ways] / replicas.width * demand[:, None]).T]
    for one in limited:
        mine = replicas.way_replica[ways] == one
        rows.append((mine * replicas.within_s[ways] / replicas.places[one] * demand)[None, :])
    return np.vstack(rows)
