"""Two devices change places only where nothing at all tells them apart."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hetsim.problem.interchangeable import interchangeable, kinds_of
from hetsim.problem.problem import Problem

ALIKE: dict[str, Any] = {
    "seconds": np.ones((3, 4)),
    "edges": [(0, 1, 8), (1, 2, 8)],
    "latency_s": np.full((4, 4), 2.0),
    "bytes_per_s": np.full((4, 4), 16.0),
    "weight_bytes": [1, 1, 1],
    "capacity_bytes": [9, 9, 9, 9],
    "dispatch_s": np.full(4, 0.5),
    "streams": [2, 2, 2, 2],
}


def problem(**other: Any) -> Problem:
    return Problem.from_arrays(**{**ALIKE, **other})


def with_one(name: str, at: tuple[int, ...], value: float) -> dict[str, Any]:
    changed = np.array(ALIKE[name], dtype=float if name != "streams" else int)
    changed[at] = value
    return {name: changed.tolist()}


def test_devices_that_nothing_tells_apart_are_one_kind() -> None:
    assert kinds_of(problem(), range(4)) == [[0, 1, 2, 3]]
    assert kinds_of(problem(host=2), range(4)) == [[0, 1, 3], [2]]


@pytest.mark.parametrize(
    ("name", "at", "values"),
    [
        ("seconds", (1, 1), (0.5, 2.0, np.inf)),
        ("dispatch_s", (1,), (0.25, 1.0)),
        ("streams", (1,), (1, 3)),
        ("capacity_bytes", (1,), (8, 10)),
    ],
)
def test_what_one_has_of_its_own_is_a_kind_of_its_own(
    name: str, at: tuple[int, ...], values: tuple[float, ...]
) -> None:
    for value in values:
        found = problem(**with_one(name, at, value))
        assert kinds_of(found, range(4)) == [[0, 2, 3], [1]]
        assert not interchangeable(found)(1, 0)


@pytest.mark.parametrize("name", ["latency_s", "bytes_per_s"])
@pytest.mark.parametrize("times", [0.5, 2.0])
def test_a_way_in_one_direction_tells_both_its_ends_from_the_rest(name: str, times: float) -> None:
    """Whichever of the two is asked about first, and whether the way is better or worse."""
    found = problem(**with_one(name, (1, 3), ALIKE[name][1, 3] * times))
    change_places = interchangeable(found)
    alike = {(a, b) for a in range(4) for b in range(4) if a != b and change_places(a, b)}
    assert alike == {(0, 2), (2, 0)}


def test_kernels_tell_devices_apart() -> None:
    assert kinds_of(problem(composites=[(1, (0, 1), 1.5)]), range(4)) == [[0, 2, 3], [1]]
