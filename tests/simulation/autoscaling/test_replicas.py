"""Replicas that start and go, one moment after another."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from hetsim.simulation.autoscaling.serving import Replica, Replicas
from hetsim.workload.autoscaling import Autoscaling


def replicas_of(
    *,
    places: int = 4,
    takes: bool = False,
    busy: Callable[[int], bool] = lambda place: False,
    **said: float,
) -> tuple[Replicas, list[int]]:
    """Some, and the places whose weights were asked for."""
    given = {"min_replicas": 1, "max_replicas": 4, "initial_replicas": 2, **said}
    config = Autoscaling(**given)  # type: ignore[arg-type]
    asked: list[int] = []

    def load(place: int) -> bool:
        asked.append(place)
        return takes

    return Replicas(config, places, load, busy), asked


def test_the_first_are_there_from_the_beginning() -> None:
    made, asked = replicas_of()
    assert made.running == made.alive == (0, 1)
    assert made.ever == [Replica(0, 0.0, 0.0), Replica(1, 0.0, 0.0)]
    assert made.next_s == math.inf
    assert asked == []


def test_one_runs_once_its_process_and_then_its_weights_are_there() -> None:
    made, asked = replicas_of(takes=True, startup_s=2.0)
    made.scale(3, 10.0)
    assert (made.alive, made.running, asked) == ((0, 1, 2), (0, 1), [])
    assert made.next_s == 12.0
    made.pass_to(11.0)
    assert asked == []
    made.pass_to(12.0)
    assert asked == [2]
    assert made.running == (0, 1)
    assert made.next_s == math.inf
    made.loaded(2, 15.0)
    assert made.running == (0, 1, 2)
    assert made.ever[2] == Replica(2, 10.0, 15.0)


def test_without_a_process_to_start_or_weights_it_runs_at_once() -> None:
    made, asked = replicas_of(startup_s=0.0)
    made.scale(3, 10.0)
    assert made.running == (0, 1, 2)
    assert made.ever[2].up_s == 10.0
    assert asked == [2]


def test_there_are_no_more_than_places() -> None:
    made, _ = replicas_of(places=3, startup_s=0.0)
    made.scale(4, 1.0)
    assert made.alive == (0, 1, 2)


def test_the_newest_go_and_those_that_start_before_them() -> None:
    made, asked = replicas_of(
        startup_s=5.0, takes=True, graceful_shutdown_wait_loop_s=2.0, initial_replicas=3
    )
    made.scale(4, 1.0)
    made.scale(2, 3.0)
    # 3 has no process yet: it is gone at once; of those that run the newest goes, when it looks.
    assert made.ever[3].gone_s == 3.0
    assert made.alive == (0, 1, 2)
    assert made.running == (0, 1)
    assert made.next_s == 5.0
    made.pass_to(5.0)
    assert made.alive == (0, 1)
    assert (made.ever[2].leave_s, made.ever[2].gone_s) == (3.0, 5.0)
    assert asked == []
    # The first free place is taken again, by another replica.
    made.scale(3, 6.0)
    assert (made.ever[4].place, made.ever[4].start_s) == (2, 6.0)


def test_one_with_work_looks_again_and_again() -> None:
    working = {1}
    made, _ = replicas_of(busy=lambda place: place in working, graceful_shutdown_wait_loop_s=2.0)
    made.scale(1, 0.0)
    made.pass_to(2.0)
    assert made.alive == (0, 1)
    assert made.next_s == 4.0
    working.clear()
    made.pass_to(4.0)
    assert made.alive == (0,)
    assert made.next_s == math.inf


def test_one_whose_weights_are_on_their_way_goes_when_they_are_there() -> None:
    made, _ = replicas_of(takes=True, startup_s=0.0)
    made.scale(3, 1.0)
    made.scale(2, 2.0)
    assert made.alive == (0, 1, 2)
    assert made.next_s == math.inf
    made.loaded(2, 4.0)
    assert made.alive == (0, 1)
    assert (made.ever[2].up_s, made.ever[2].gone_s) == (math.inf, 4.0)


@pytest.mark.parametrize("now_s", [0.0, 1e17])
def test_what_takes_time_is_later_however_late_it_is(now_s: float) -> None:
    made, _ = replicas_of(startup_s=1.0, graceful_shutdown_wait_loop_s=1.0)
    made.scale(3, now_s)
    assert made.next_s > now_s
    made.pass_to(made.next_s)
    assert made.running == (0, 1, 2)
    made.scale(2, now_s)
    assert made.next_s > now_s
