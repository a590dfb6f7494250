"""Prices of the time of devices and links, and what each request is worth by them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import optimize

from hetsim.provisioning.platforms.bounds.bound import limits_s
from hetsim.provisioning.platforms.question import Counts, Mode, Question

Prices = tuple[NDArray[np.float64], NDArray[np.float64]]
"""By resource: what a second of one is worth; by class: what a request needs at least."""

ROUNDING = 1e-12
"""By how much products of prices may be off, and more."""

RARE = 1e-6
"""Of what a vector does not have: how little of it prices are made for."""


def alike(question: Question, slo: Sequence[int | None]) -> tuple[Prices, ...]:
    """Return prices by which every request is worth 1, each way on its own.

    First, what each device does a second at most: of models that are whole on one device, and where
    no link matters, all the prices that there are. Then those by which all kinds together, and what
    each split takes, do least a second.
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
    """Those that are finite, and by which something is worth anything."""
    return [row for row in prices if np.isfinite(row[0]).all() and row[0].any()]


def matters(question: Question) -> bool:
    """Whether prices depend on more than each device by itself: on links, or on other devices."""
    types = len(question.types)
    return bool(question.splits) or any(
        max((use for one, use in mode.uses if one >= types), default=0.0)
        > max((use for one, use in mode.uses if one < types), default=0.0)
        for modes in question.modes
        for mode in modes
    )


def _useful(question: Question, slo: Sequence[int | None]) -> list[Mode]:
    # Of what nothing is asked, the limit is no number, and no way is useful.
    return [
        mode
        for of_class, limit_s in enumerate(limits_s(question, slo).tolist())
        for mode in question.useful_modes(of_class, limit_s)
    ]


def _by_device(question: Question, modes: Sequence[Mode]) -> NDArray[np.float64]:
    """What each device does a second, alone; then, of splits, the one that is used most."""
    types = len(question.types)
    capacity = np.zeros(question.resources)
    by_devices = [(mode, [(one, use) for one, use in mode.uses if one < types]) for mode in modes]
    for mode, uses in sorted(by_devices, key=lambda row: len(row[1])):
        _raise_to(capacity, uses, float(mode.batch))
    return capacity


def _raise_to(
    capacity: NDArray[np.float64], uses: Sequence[tuple[int, float]], earns: float
) -> None:
    """Raise the price of what is used most, so that a batch is worth so much."""
    missing = earns - sum(float(capacity[one]) * use for one, use in uses)
    if missing > 0:
        one, use = max(uses, key=lambda row: (row[1], -row[0]))
        capacity[one] = capacity[one] + missing / use if use else np.inf


def covering(
    question: Question, slo: Sequence[int | None], counts: Counts
) -> NDArray[np.float64] | None:
    """Return the prices, every request worth 1, by which a vector gathers least; None: none found.

    A linear program; its prices are raised by what they may lack, so that its tolerance cannot
    make a bound of them false.
    """
    modes = _useful(question, slo)
    if not modes or any(not use for mode in modes for use in [max(u for _, u in mode.uses)]):
        return None
    each = np.zeros((len(modes), question.resources))
    for row, mode in enumerate(modes):
        for one, use in mode.uses:
            each[row, one] = use / mode.batch
    scale = float(each.max())
    weight = np.array(has_of(question, counts)) + RARE
    solved = optimize.linprog(
        c=weight, A_ub=-each / scale, b_ub=-np.ones(len(modes)), method="highs"
    )
    if solved.status != 0:
        return None
    capacity: NDArray[np.float64] = np.maximum(np.asarray(solved.x), 0.0) / scale
    earns = each @ capacity
    if not (earns > 0).all():
        return None
    return capacity * (max(1.0, float((1 / earns).max())) * (1 + ROUNDING))


def has_of(question: Question, counts: Counts) -> list[float]:
    """By resource: how many of it a vector has."""
    found = [0.0] * question.resources
    for kind, count in enumerate(counts):
        for one in question.resources_of(kind):
            found[one] += count
    return found


def worth_of(
    question: Question, slo: Sequence[int | None], capacity: NDArray[np.float64]
) -> NDArray[np.float64]:
    """By class: the least of what a request takes in any way, at these prices."""
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
    slo: Sequence[int | None],
    demand: NDArray[np.float64],
    counts: Counts,
) -> Prices | None:
    """Return the prices by which one vector has the least for a demand; None: it has enough.

    The dual of the linear program that deals requests out to ways to serve them, in any parts, so
    that the device or link that is used most is used least. What a request is worth is computed
    anew from the prices, so that the solver's tolerance cannot make a bound of them false.

    Parameters
    ----------
    demand : float array [classes]
        Requests a second that must be answered in time.
    """
    limits = limits_s(question, slo)
    has = np.array(has_of(question, counts))
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
    load = np.zeros((len(there), len(ways) + 1))
    deal = np.zeros((len(wanted), len(ways) + 1))
    for column, (of_class, mode) in enumerate(ways):
        for one, use in mode.uses:
            load[there.index(one), column] = use / mode.batch
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
    capacity = np.zeros(question.resources)
    capacity[there] = np.maximum(-np.asarray(solved.ineqlin.marginals), 0.0)
    worth = np.zeros(len(question.classes))
    for of_class in wanted:
        worth[of_class] = min(
            sum(float(capacity[one]) * use for one, use in mode.uses) / mode.batch
            for other, mode in ways
            if other == of_class
        )
    # Of what the vector has none of, a second is worth what makes no request cheaper.
    for of_class, mode in modes:
        lacks = [(one, use) for one, use in mode.uses if not has[one]]
        if lacks:
            rest = sum(float(capacity[one]) * use for one, use in mode.uses if has[one])
            _raise_to(capacity, lacks, float(worth[of_class]) * mode.batch - rest)
    return capacity, worth_of(question, slo, capacity)
