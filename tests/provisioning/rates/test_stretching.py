"""The exact capacity of given requests against fractions and definitions."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from hetsim.provisioning.rates.exact_rate import (
    Wanted,
    in_order,
    least_stretch,
    pools,
    unit_of,
    units,
)
from hetsim.simulation.clock.runs import run
from hetsim.simulation.clock.templates import TemplateLayout
from hetsim.simulation.orders import order_of
from oracles.exact_stretch import least_stretch_of_chains, least_stretch_of_pool
from oracles.random_layouts import Shape, layout_of, random_case
from sweeps import sweep


def times(rng: np.random.Generator, count: int, *, whole: bool) -> list[float]:
    """Ascending, some equal."""
    gaps = rng.exponential(1.0, count) * rng.integers(0, 4, count)
    return np.cumsum(np.round(gaps * 3) if whole else gaps).tolist()


def chains(seed: int) -> bool:
    """Compare one random layout; return whether its order is certain and its answer above 0."""
    rng = np.random.default_rng(seed)
    case = random_case(seed, most_requests=12)
    layout = case.layout
    ones = [1] * len(layout.structure.streams)
    layout = TemplateLayout(layout.plan, layout.links, layout.structure._replace(streams=ones))
    duration = np.round(case.duration * 8) / 8 if rng.random() < 0.5 else case.duration
    order = order_of(layout, duration)
    if order is None or order.reasons:
        return False
    requests = int(rng.integers(2, 20))
    template = rng.integers(0, len(order.templates), requests).tolist()
    arrival_s = times(rng, requests, whole=bool(rng.integers(2)))
    limit_s = float(duration.sum() * rng.choice([0.7, 1.0, 1.5, 3.0]) / len(order.templates))
    if rng.random() < 0.3:
        limit_s = float(np.round(limit_s) + 1)
    most_late = int(rng.choice([0, 0, 1, 2, requests // 2]))
    exponent = unit_of([*duration.tolist(), *arrival_s, limit_s])
    wanted = Wanted(range(requests), units([limit_s], exponent)[0], most_late)
    play = in_order(order, duration, template, exponent)
    found = least_stretch(play, units(arrival_s, exponent), [wanted])
    mine = [order.templates[one] for one in template]
    expected = least_stretch_of_chains(
        [Fraction(one) for one in arrival_s],
        [[Fraction(float(duration[task.number])) for task in own] for own in mine],
        [[list(task.waits) for task in own] for own in mine],
        [[list(task.held) for task in own] for own in mine],
        Fraction(limit_s),
        most_late,
    )
    assert found == expected, seed
    return bool(found)


@sweep("first", quick=[0], full=range(0, 4000, 100))
def test_devices_in_order_are_as_exact_as_fractions(first: int) -> None:
    assert sum(chains(seed) for seed in range(first, first + 100)) > 20


def test_a_subgraph_on_several_streams_waits_for_its_turn() -> None:
    """The second needs nothing, the first a transfer: it starts no sooner than the first."""
    layout = layout_of([Shape([0, 0], [()], [[2], [], []])], [2], 0)
    duration = np.array([3.0, 1.0, 2.0])
    order = order_of(layout, duration)
    assert order is not None
    assert not order.reasons
    ends = in_order(order, duration, [0, 0], 0)([0, 0], 1)
    clock = run(layout, duration, np.zeros(2), np.zeros(2, dtype=np.int64), traced=False)
    assert ends == clock.finish.tolist() == [5, 6]


@sweep("first", quick=[0], full=range(0, 1000, 50))
def test_the_first_free_of_several_servers_is_as_exact_as_fractions(first: int) -> None:
    for seed in range(first, first + 50):
        rng = np.random.default_rng(seed)
        requests, servers = int(rng.integers(1, 13)), int(rng.integers(1, 4))
        arrival_s = times(rng, requests, whole=bool(rng.integers(2)))
        took_s = float(rng.choice([1.0, 2.5, 1 / 3]))
        limit_s = float(took_s * rng.choice([0.5, 1.0, 1.25, 2.0, 4.0]))
        most_late = int(rng.integers(0, 3))
        exponent = unit_of([took_s, *arrival_s, limit_s])
        wanted = Wanted(range(requests), units([limit_s], exponent)[0], most_late)
        play = pools([servers], [0] * requests, [took_s] * requests, exponent)
        found = least_stretch(play, units(arrival_s, exponent), [wanted])
        expected = least_stretch_of_pool(
            [Fraction(one) for one in arrival_s],
            Fraction(took_s),
            servers,
            Fraction(limit_s),
            most_late,
        )
        assert found == expected, seed
