"""Draws of factors: even, the same for the same seed, and one where one thing is meant."""

from __future__ import annotations

from statistics import NormalDist

import numpy as np
import pytest

from hetsim.analysis.sureness import draw, normals
from hetsim.problem.evidence import Evidence, uncertainty_of

NONE = np.zeros((3, 3, 0))


@pytest.mark.parametrize("count", [2, 7, 200])
@pytest.mark.parametrize("sources", [1, 2, 5, 12])
def test_each_source_alone_is_as_even_as_it_can_be(count: int, sources: int) -> None:
    drawn = normals(count, sources, 3)
    quantiles = [NormalDist().inv_cdf((k + 0.5) / count) for k in range(count)]
    assert drawn.shape == (count, sources)
    for column in drawn.T:
        assert sorted(column) == quantiles


@pytest.mark.parametrize("sources", [2, 4, 8])
def test_sources_are_independent(sources: int) -> None:
    drawn = normals(2000, sources, 0)
    assert np.cov(drawn.T) == pytest.approx(np.eye(sources), abs=0.06)
    # How often one is larger than another, and two are large together.
    for a in range(sources):
        for b in range(a):
            assert (drawn[:, a] > drawn[:, b]).mean() == pytest.approx(0.5, abs=0.02)
            both = (drawn[:, a] > 1) & (drawn[:, b] > 1)
            assert both.mean() == pytest.approx(0.1587**2, abs=0.01)


def test_each_point_stands_beside_its_mirror_image() -> None:
    drawn = normals(200, 6, 1)
    assert drawn[:100] == pytest.approx(-drawn[100:])


def test_the_same_seed_gives_the_same_draws_and_another_gives_others() -> None:
    assert (normals(50, 3, 5) == normals(50, 3, 5)).all()
    assert not (normals(50, 3, 5) == normals(50, 3, 6)).all()


def test_what_is_one_thing_has_one_draw() -> None:
    devices = [
        Evidence("a", "x", "fitted", 0.4, 0.4, kin="k"),
        Evidence("b", "y", "fitted", 0.2, 0.2, kin="k"),
        Evidence("c", "z", "fitted", 0.3),
    ]
    found = draw(uncertainty_of(devices, (), NONE), 200, 0)
    assert found.devices[:, 0] == pytest.approx(found.devices[:, 1] ** 2)
    assert (found.routes == 1).all()
    logs = np.log(found.devices)
    assert logs.std(axis=0) == pytest.approx([0.4, 0.2, 0.3], rel=0.02)
    assert abs(np.corrcoef(logs[:, 0], logs[:, 2])[0, 1]) < 0.1


def test_80_percent_of_the_draws_are_within_the_interval() -> None:
    devices = [Evidence("a", "x", "fitted", 0.5, 0.3, kin="k")]
    found = draw(uncertainty_of(devices, (), np.zeros((1, 1, 0))), 2000, 0).devices[:, 0]
    end = np.exp(1.2815515655446004 * 0.5)
    assert ((found > 1 / end) & (found < end)).mean() == pytest.approx(0.8, abs=0.01)


def test_without_sources_nothing_is_off() -> None:
    found = draw(uncertainty_of((), (), np.zeros((0, 0, 0))), 4, 0)
    assert found.devices.shape == (4, 0)
    exact = draw(uncertainty_of([Evidence("a", "a", "measured", 0.0)] * 3, (), NONE), 4, 0)
    assert (exact.devices == 1).all()
