"""What a set of replicas carries: each request where it suits best, in any parts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import optimize

from hetsim.provisioning.instances.replicas import Chosen, Floats, Ints, Replicas

CARRIES = 1e-9
"""Share of a kind's requests from which a replica is said to carry any."""


@dataclass(frozen=True, slots=True, eq=False)
class Flow:
    """The best routing of one set of replicas.

    Attributes
    ----------
    factor : float
        On the demand: what this routing carries, with nothing busy for longer than there is time.
        0 where a model has no replica; infinite where requests ask for no work.
    bound : float
        Not less than what any routing carries.
    share : float array [ways]
        Of the requests of its kind that a way gets; 0 of replicas that are not of the set.
    use : float array [resources]
        The part of its time that each is busy at the factor.
    price : float array [resources]
        What a second of each is worth at the optimum.
    """

    factor: float
    bound: float
    share: Floats
    use: Floats
    price: Floats

    @property
    def rounded(self) -> float:
        """The factor to nine digits: those that differ by rounding alone are equal."""
        return float(f"{self.factor:.9g}")

    def carrying(self, replicas: Replicas) -> Chosen:
        """Return the replicas that get requests."""
        return tuple(np.unique(replicas.way_replica[self.share > CARRIES]).tolist())


def flow_of(replicas: Replicas, chosen: Sequence[int], models: Sequence[int] | None = None) -> Flow:
    """Return what a set carries, or what it carries of some models where nothing else comes.

    The least part of their time for which all that is asked for keeps devices, links and replicas
    busy is a linear program; the factor is its inverse. That of its solution, made whole again, is
    a factor which is carried, that of its prices one above which nothing is (weak duality): neither
    rests on the solver's tolerance.
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
    split, price = _solved(busy, group, len(kinds))
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


def _solved(busy: Floats, group: Ints, kinds: int) -> tuple[Floats, Floats]:
    """Shares [ways] and prices [rows]: the least T such that the work of all is at most T."""
    rows, ways = busy.shape
    found = optimize.linprog(
        c=[*np.zeros(ways), 1.0],
        A_ub=np.hstack([busy, -np.ones((rows, 1))]),
        b_ub=np.zeros(rows),
        A_eq=np.hstack([np.equal.outer(np.arange(kinds), group), np.zeros((kinds, 1))]),
        b_eq=np.ones(kinds),
        bounds=[(0, None)] * (ways + 1),
        method="highs",
    )
    assert found.x is not None
    price = np.maximum(-np.asarray(found.ineqlin.marginals), 0.0)
    return np.maximum(np.asarray(found.x[:-1]), 0.0), price
