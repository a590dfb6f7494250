"""Earliest starts and least remainders along a chain: what its gaps add to those of ``paths``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from hetsim.placement.bounds.chain import Gap, Near, chain_of
from hetsim.placement.bounds.gaps import alike, crossings, through
from hetsim.placement.bounds.paths import Floats, Setting, heads, tails
from hetsim.problem.interchangeable import kinds_of
from hetsim.problem.problem import Problem

FEW = 4
"""Devices up to which each counts for itself."""

ROUNDS = 24
"""Times that gaps on the quickest way are looked at more closely."""


def units_of(problem: Problem) -> list[list[int]]:
    """Return the devices, each by itself, or of more than FEW by kinds. O(P^2 n)."""
    devices = range(len(problem.devices))
    return [[p] for p in devices] if len(devices) <= FEW else kinds_of(problem, devices)


def lifted(setting: Setting, kinds: Sequence[Sequence[int]]) -> Setting:
    """Return `setting` where nodes of a chain arrive, and return, as late as its gaps say.

    In any plan the end of a node of the chain and the start of the next lie apart what
    ``gaps.crossings`` and ``gaps.through`` say of their two devices, so the least of the sums over
    devices is a bound (a shortest way, from gap to gap). The gaps on that way alone are looked
    at by ``through``, until it has none that is not.

    O(V + E) and what the gaps take; gaps that are alike are looked at once.
    """
    gaps = chain_of(setting)
    if not gaps:
        return setting
    chain = [gaps[0].nodes[0], *(gap.nodes[-1] for gap in gaps)]
    head, tail = heads(setting, setting.shares), tails(setting, setting.shares)
    shares = setting.shares[chain]
    index, several = _by_likeness(setting, gaps)
    found = crossings(setting, kinds, several)
    across = found.across
    seen: set[tuple[int, int, int]] = set()
    for _ in range(ROUNDS):
        least = _least(found.within, across)[index]
        start = _starts(least, shares, head[chain])
        closer = {
            (int(index[g]), p, q)
            for g, p, q in _quickest(least, shares, start, tail[chain])
            if len(gaps[g].nodes) > 2
            and not (p == q and found.within[index[g], p] <= across[index[g], p, p])
        } - seen
        if not closer:
            break
        seen |= closer
        for k, p, q in sorted(closer):
            across[k, p, q] = max(across[k, p, q], through(setting, several[k], p, q))
    least = _least(found.within, across)[index]
    arrival_s, return_s = setting.arrival_s.copy(), setting.return_s.copy()
    arrival_s[chain] = np.maximum(arrival_s[chain], _starts(least, shares, head[chain]))
    backward = _starts(least.transpose(0, 2, 1)[::-1], shares[::-1], tail[chain][::-1])
    return_s[chain] = np.maximum(return_s[chain], backward[::-1])
    return replace(setting, arrival_s=arrival_s, return_s=return_s)


def _least(within: Floats, across: Floats) -> Floats:
    least = across.copy()
    diagonal = range(within.shape[1])
    least[:, diagonal, diagonal] = np.minimum(within, across[:, diagonal, diagonal])
    return least


def _starts(least: Floats, shares: Floats, head: Floats) -> Floats:
    """Return float [K, P]: the earliest start of each node of the chain on each device."""
    start = head.copy()
    for k in range(1, len(start)):
        reached = ((start[k - 1] + shares[k - 1])[:, None] + least[k - 1]).min(axis=0)
        np.maximum(start[k], reached, out=start[k])
    return start


def _quickest(
    least: Floats, shares: Floats, start: Floats, tail: Floats
) -> list[tuple[int, int, int]]:
    """Return (gap, device before, device behind) along the quickest way."""
    q = int((start[-1] + shares[-1] + tail[-1]).argmin())
    way = []
    for gap in range(len(least) - 1, -1, -1):
        p = int((start[gap] + shares[gap] + least[gap][:, q]).argmin())
        way.append((gap, p, q))
        q = p
    return way


def _by_likeness(setting: Setting, gaps: Sequence[Gap]) -> tuple[NDArray[np.intp], list[Gap]]:
    """Return one gap of each kind of alike ones, and by gap which it is."""
    known: dict[tuple[Near, bytes], int] = {}
    several: list[Gap] = []
    index = np.empty(len(gaps), dtype=np.intp)
    for g, gap in enumerate(gaps):
        key = alike(setting, gap)
        if key not in known:
            known[key] = len(several)
            several.append(gap)
        index[g] = known[key]
    return index, several
