"""Rates that are committed are those that are predicted today of the rows as they are."""

from __future__ import annotations

from dataclasses import replace

import pytest

from catalog.fidelity.judged import read_tables
from catalog.fidelity.points import read_points
from catalog.fidelity.server.points import (
    GOAL,
    Alone,
    ServerPoint,
    ServerSystem,
    missed,
    read_server,
    server_text,
)
from catalog.fidelity.server.rates import RateErrors, anchored, predicted
from catalog.fidelity.writing import CHECKOUT, POINTS, SERVER, TABLES
from sweeps import sweep

COMMITTED = read_server(CHECKOUT / SERVER)
RATES = ("anchored_per_s", "no_shape_per_s")
ALONE = ("left_out", "unseen", "datasheet")


def facts(point: ServerPoint) -> ServerPoint:
    return replace(
        point,
        basis="",
        instances=0,
        batch=0,
        **dict.fromkeys((*RATES, *ALONE)),  # type: ignore[arg-type]
    )


def rates(point: ServerPoint) -> dict[str, float | None]:
    found = {name: getattr(point, name) for name in RATES}
    for name in ALONE:
        alone: Alone | None = getattr(point, name)
        found[name] = None if alone is None else alone.served_per_s
        found[f"{name} of bulk"] = None if alone is None else alone.bulk_per_s
    return found


@sweep("every", quick=[101], full=[101, 1])
def test_rates_are_what_is_predicted(every: int, systems: list[ServerSystem]) -> None:
    assert [one.key for one in systems] == [point.key for point in COMMITTED], "make fidelity"
    committed = COMMITTED[::every]
    now = predicted(
        systems[::every], read_points(CHECKOUT / POINTS), read_tables(CHECKOUT / TABLES)
    )
    assert not missed(committed, now), "make fidelity ACCEPT=1, where it is meant"
    assert server_text(map(facts, now)) == server_text(map(facts, committed)), "make fidelity"
    for point, was in zip(now, committed, strict=True):
        assert point.basis == was.basis
        assert rates(point) == {
            name: None if rate is None else pytest.approx(rate, rel=2e-3)
            for name, rate in rates(was).items()
        }, f"{was.system}: make fidelity"


def test_the_goal_is_met() -> None:
    found = RateErrors.of(COMMITTED, anchored)
    assert found is not None
    assert found.median < GOAL
