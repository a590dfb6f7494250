"""What kins of one maker's runtimes say of networks that one of them did not run.

A runtime in another precision, or on another unit, misses much the same: its compiler has the same
fast paths and lacks the same ones. What it missed of a network that it had not seen is heard by the
others, as far as they missed alike what both ran.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from catalog.leaving_out import Unseen
from catalog.likeness import called
from catalog.tables import Tables
from hetsim.cost.kernels.likeness import traits_of
from hetsim.hardware.files.kin_schema import MOST_NETWORKS
from hetsim.hardware.kin import Heard, Kin, KnownNetwork

Key = tuple[str, int]

LEAST_COMMON = 5
"""Networks that two kins must both have run for one to hear of the other."""
USUAL_ALIKE, USUAL_SQUARES = 0.5, 0.04
"""Correlation of misses that is taken before any is known, and squares that it counts for."""
FAR = 3.0
"""Median misses beyond which one counts no more."""
SHARES = (0.15, 0.7)
"""Below the first nothing is heard; no more than the second is believed, of few networks."""


def misses(unseen: Iterable[Unseen]) -> dict[Key, float]:
    """Return by network's file and batch what was missed of it: log of measured over predicted.

    By the form alone, the median over devices, with the network left out of all of them.
    """
    found: defaultdict[Key, list[float]] = defaultdict(list)
    for one in unseen:
        found[one.point.network, one.point.batch].append(-one.miss)
    return {key: float(np.median(found[key])) for key in sorted(found)}


def are_relatives(kin: str, other: str) -> bool:
    """Whether two kins are of one maker's runtimes.

    >>> are_relatives("ncnn-cpu-float", "ncnn-gpu-float"), are_relatives("ncnn-cpu-int8", "rknn")
    (True, False)
    """
    return kin != other and kin.partition("-")[0] == other.partition("-")[0]


def heard_of(own: Mapping[Key, float], other: Mapping[Key, float]) -> tuple[float, float]:
    """Return how `own` misses follow from those of `other`: a factor, and the share explained.

    Twice 0 where too little is known: fewer than `LEAST_COMMON` networks in common, or misses
    that are not alike. The share is of the variance; a regression through 0, in which one odd
    network counts no more than `FAR` usual ones.
    """
    common = sorted(own.keys() & other.keys())
    if len({network for network, _ in common}) < LEAST_COMMON:
        return 0.0, 0.0
    mine, theirs = (_without_far(np.array([each[key] for key in common])) for each in (own, other))
    squares, of_theirs = (float(each @ each) + USUAL_SQUARES for each in (mine, theirs))
    both = float(mine @ theirs) + USUAL_ALIKE * USUAL_SQUARES
    share = both**2 / squares / of_theirs
    if both <= 0 or share < SHARES[0]:
        return 0.0, 0.0
    return both / of_theirs, min(share, SHARES[1])


def _without_far(missed: NDArray[np.float64]) -> NDArray[np.float64]:
    most = FAR * float(np.median(np.abs(missed)))
    return np.clip(missed, -most, most)


def with_heard(
    kin: Kin, own: Mapping[Key, float], others: Sequence[Mapping[Key, float]], tables: Tables
) -> Kin:
    """Return the record of a kin with what it hears of networks that none of its devices ran.

    Parameters
    ----------
    kin : Kin
    own : mapping of (str, int) to float
        Its ``misses``.
    others : sequence of such mappings
        Of several that ran a network the one with the largest share is heard, of equals the first.
    tables : Tables

    O(networks) tables.
    """
    ran = {network for network, _ in own}
    best: dict[Key, tuple[float, float]] = {}
    for theirs in others:
        factor, share = heard_of(own, theirs)
        for key, missed in theirs.items():
            if key[0] not in ran and share > best.get(key, (0.0, 0.0))[0]:
                # So that its share of it, which is what remains, is what follows.
                best[key] = share, missed * factor / share
    surest = sorted(best, key=lambda key: (-best[key][0], key))[:MOST_NETWORKS]
    heard = []
    for file, batch in sorted(surest):
        table = tables.table(file)
        traits, alone = (tuple(traits_of(table, at, kin).tolist()) for at in (batch, 1))
        share, missed = best[file, batch]
        heard.append(Heard(KnownNetwork(called(file), batch, 1, missed, traits, alone), share))
    return replace(kin, heard=tuple(heard))
