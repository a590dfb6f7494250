"""A minimum cut is the least of all, compiled or not."""

from __future__ import annotations

import numpy as np
import pytest

from hetsim.core import left_to_python
from hetsim.graph.dag import Ints
from hetsim.placement.search.cuts import source_side
from sweeps import sweep

FULL = 2**30


@pytest.mark.group("machine_code")
@sweep("seed", quick=range(40), full=range(1000))
def test_the_side_of_the_source_is_that_of_a_least_cut(seed: int) -> None:
    rng = np.random.default_rng(seed)
    size, arcs = int(rng.integers(2, 12)), int(rng.integers(1, 40))
    tails, heads = rng.integers(0, size, (2, arcs))
    apart = (tails != heads) & ~((tails == 0) & (heads == 1))
    tails, heads = np.append(tails[apart], 0), np.append(heads[apart], 1)
    # Small whole numbers tie often; what costs without end may not be cut.
    capacities = rng.choice([1, 2, 3, FULL], len(tails), p=(0.4, 0.25, 0.25, 0.1))
    capacities[-1] = 1
    kept = source_side(size, tails, heads, capacities, 0, 1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(left_to_python, "pays", lambda *_: True)
        assert source_side(size, tails, heads, capacities, 0, 1).tolist() == kept.tolist()
    least = least_cut(size, tails, heads, capacities)
    if least < FULL:
        assert kept[0]
        assert not kept[1]
        assert capacities[kept[tails] & ~kept[heads]].sum() == least


def least_cut(size: int, tails: Ints, heads: Ints, capacities: Ints) -> int:
    """By trying every set of nodes."""
    found = []
    for inner in range(2 ** (size - 2)):
        kept = np.array([True, False, *(bool(inner >> k & 1) for k in range(size - 2))])
        found.append(int(capacities[kept[tails] & ~kept[heads]].sum()))
    return min(found)
