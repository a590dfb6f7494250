"""What figures rest on, and the spread between sources, on sources whose factors are known."""

from __future__ import annotations

import math

import numpy as np
import pytest

from catalog.points import Chips, Points, Series
from catalog.widths import USUAL_SPREAD, SourcePair, basis_of, source_pairs, spread_of
from hetsim.hardware.kernel_figures import Counted

NETWORKS = [(f"n{k}.onnx", 1) for k in range(4)]
CHIPS = Chips({}, {}, {"b-plus": "b"})


def sources(*factors: float, networks: int = 4) -> dict[str, dict[tuple[str, int], float]]:
    return {f"s{k}": dict.fromkeys(NETWORKS[:networks], one) for k, one in enumerate(factors)}


def test_the_spread_is_that_of_the_factors_of_sources() -> None:
    rng = np.random.default_rng(0)
    pairs = []
    for die in range(400):
        one, other = 0.2 * rng.standard_normal(2)
        times = (dict.fromkeys(NETWORKS, one), dict.fromkeys(NETWORKS, other))
        pairs.append(SourcePair("k-cpu", str(die), *times))
    assert spread_of(pairs) == pytest.approx(0.2, rel=0.08)
    # A die that many sources measured counts once.
    often = [SourcePair("k-cpu", "x", *(dict.fromkeys(NETWORKS, f) for f in (0.0, 9.0)))] * 4000
    assert spread_of([*pairs, *often]) == pytest.approx(0.2, rel=0.08)
    assert spread_of([]) == USUAL_SPREAD


def test_sources_are_compared_of_one_die_runtime_and_setting() -> None:
    def series(chip: str, **where: str) -> Series:
        return Series("k-cpu-int8", chip, "cpu", "int8", tuple(where.items()))

    by_source = {
        series("a", threads="4"): sources(0.0, 0.1),
        series("a", threads="1"): sources(0.5),
        series("b", gpu="one name"): sources(0.0),
        series("b-plus", gpu="another"): {"other": dict.fromkeys(NETWORKS, 0.3)},
        series("c"): sources(0.0, 0.1, networks=2),
    }
    found = list(source_pairs(Points({}, {}, by_source), CHIPS))
    assert [(pair.die, *pair.apart) for pair in found] == [
        ("a", *[pytest.approx(0.1)] * 4),
        ("b", *[pytest.approx(0.3)] * 4),
    ]


def test_figures_of_more_sources_are_nearer_to_a_new_one() -> None:
    one, four = (Counted(5, 9, sources, 1) for sources in (1, 4))
    family = Counted(9, 99, 4, 7)
    assert basis_of(0.2, one, family).elsewhere == pytest.approx(0.2 * math.sqrt(2), rel=0.01)
    assert basis_of(0.2, four, family).elsewhere == pytest.approx(0.2 * math.sqrt(5 / 4), rel=0.01)
    # Chips of a family of many sources, left out, were each measured by another one.
    assert basis_of(0.2, None, family).elsewhere == pytest.approx(0.2 * math.sqrt(2 / 4), rel=0.01)
