"""Prices of devices' time, and what each request is worth by them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import optimize

from hetsim.recommending.bounds.bound import limits_s
from hetsim.recommending.question import Counts, Question

Prices = tuple[NDArray[np.float64], NDArray[np.float64]]
"""By type: what a second of one device is worth; by class: what a request needs at least."""


def alike(question: Question, slo: Sequence[int | None]) -> Prices:
    """Return prices by which every request is worth 1: what each device does a second at most.

    Of one class these are all the prices that matter: a vector does no more a second than
    its devices do together, each in the batch size that suits it best.
    """
    limits = limits_s(question, slo)
    capacity = np.zeros(len(question.types))
    for of_type, spec in enumerate(question.types):
        for of_class, limit_s in enumerate(limits.tolist()):
            # Of what nothing is asked, the limit is no number, and no way is useful.
            for way in question.useful(of_type, of_class, limit_s):
                rate = way.batch * spec.streams / way.seconds if way.seconds else np.inf
                capacity[of_type] = max(capacity[of_type], rate)
    return capacity, np.where(np.isnan(limits), 0.0, 1.0)


def worth_of(
    question: Question, slo: Sequence[int | None], capacity: NDArray[np.float64]
) -> NDArray[np.float64]:
    """By class: the least of what a request takes of any device, at these prices."""
    limits = limits_s(question, slo)
    worth = np.zeros(len(question.classes))
    for of_class, limit_s in enumerate(limits.tolist()):
        each = [
            float(capacity[of_type]) * way.seconds / (way.batch * spec.streams)
            for of_type, spec in enumerate(question.types)
            for way in question.useful(of_type, of_class, limit_s)
        ]
        worth[of_class] = min(each, default=0.0) * (1 - 1e-12)
    return worth


def at_vector(
    question: Question,
    slo: Sequence[int | None],
    demand: NDArray[np.float64],
    counts: Counts,
) -> Prices | None:
    """Return the prices by which one vector has the least for a demand; None: it has enough.

    The dual of the linear program that deals requests out to devices and batch sizes, in any
    parts, so that the device that is used most is used least. What a request is worth is computed
    anew from the prices, so that the solver's tolerance cannot make a bound of them false.

    Parameters
    ----------
    demand : float array [classes]
        Requests a second that must be answered in time.
    """
    limits = limits_s(question, slo)
    has = np.zeros(len(question.types))
    for count, kind in zip(counts, question.kinds, strict=True):
        for of_type in kind.devices:
            has[of_type] += count * question.types[of_type].streams
    ways = [
        (of_type, of_class, way.seconds / way.batch)
        for of_type in np.flatnonzero(has).tolist()
        for of_class in np.flatnonzero(demand > 0).tolist()
        for way in question.useful(of_type, of_class, float(limits[of_class]))
    ]
    wanted = np.flatnonzero(demand > 0).tolist()
    there = np.flatnonzero(has).tolist()
    if {of_class for _, of_class, _ in ways} != set(wanted):
        return None
    load = np.zeros((len(there), len(ways) + 1))
    deal = np.zeros((len(wanted), len(ways) + 1))
    for column, (of_type, of_class, seconds) in enumerate(ways):
        load[there.index(of_type), column] = seconds
        deal[wanted.index(of_class), column] = 1.0
    scale = float(load.max()) or 1.0
    load /= scale
    load[:, -1] = -has[there]
    most = float(demand.max())
    solved = optimize.linprog(
        c=[*np.zeros(len(ways)), 1.0],
        A_ub=load,
        b_ub=np.zeros(len(there)),
        A_eq=deal,
        b_eq=demand[wanted] / most,
        bounds=[(0, None)] * (len(ways) + 1),
        method="highs",
    )
    if solved.status != 0 or float(solved.fun or 0.0) * most * scale <= 1.0:
        return None
    price = np.maximum(-np.asarray(solved.ineqlin.marginals), 0.0)
    capacity = np.zeros(len(question.types))
    # Of types that the vector has none of, a second is worth what makes no request cheaper.
    for of_type, value in zip(there, price.tolist(), strict=True):
        capacity[of_type] = value * question.types[of_type].streams
    worth = np.zeros(len(question.classes))
    for of_class in wanted:
        worth[of_class] = min(
            float(capacity[of_type]) * seconds / question.types[of_type].streams
            for of_type, other, seconds in ways
            if other == of_class
        )
    for of_type, spec in enumerate(question.types):
        if has[of_type]:
            continue
        rates = [
            worth[of_class] * way.batch * spec.streams / way.seconds if way.seconds else np.inf
            for of_class in wanted
            for way in question.useful(of_type, of_class, float(limits[of_class]))
        ]
        capacity[of_type] = max(rates, default=0.0)
    return capacity, worth_of(question, slo, capacity)
