"""Replicas that come and go under the clock, against Ray Serve's own functions second by second."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from hetsim.simulation.autoscaling.serving import Scaling, ScalingServing
from hetsim.simulation.serving.engine import Serving
from hetsim.simulation.serving.setup import ModelSetup, Outcomes, RequestSource
from hetsim.workload.autoscaling import Autoscaling
from oracles.autoscaled import Autoscaled
from oracles.random_layouts import Shape, layout_of
from oracles.ray_serve import RayServe
from sweeps import sweep

CASES = 10
"""Seeds of a chunk."""


class Case(NamedTuple):
    """A model whose replicas come and go, and when its requests come, in whole seconds."""

    config: Autoscaling
    places: int
    limit: int
    service: list[int]
    load: int
    arrival: list[int]


def case(seed: int) -> Case:
    """Calm and busy times in turn; most often with delays short enough to be felt."""
    rng = np.random.default_rng([seed, 161])
    places = int(rng.integers(1, 7))
    least = int(rng.integers(0, min(places, 2) + 1))
    most = int(rng.integers(max(least, 1), places + 1))
    batches = rng.random() < 0.3
    config = Autoscaling(
        min_replicas=least,
        max_replicas=most,
        initial_replicas=int(rng.integers(least, most + 1)) if rng.random() < 0.5 else None,
        target_ongoing_requests=float(rng.choice([0.5, 1, 2, 3.5])),
        max_ongoing_requests=None,
        metrics_interval_s=float(rng.choice([1, 2, 5])),
        look_back_period_s=float(rng.choice([5, 10, 25])),
        upscale_delay_s=float(rng.choice([0, 0, 2, 7])),
        downscale_delay_s=float(rng.choice([0, 3, 12])),
        downscale_to_zero_delay_s=4.0 if rng.random() < 0.4 else None,
        upscaling_factor=float(rng.choice([0.4, 1, 2])) if rng.random() < 0.4 else None,
        downscaling_factor=float(rng.choice([0.3, 1])) if rng.random() < 0.4 else None,
        aggregation_function=rng.choice(["mean", "mean", "max", "min"]),
        control_loop_interval_s=1.0,
        graceful_shutdown_wait_loop_s=float(rng.integers(1, 4)),
        startup_s=float(rng.choice([0, 0, 2, 6])),
    )
    service = rng.integers(1, 7, 3 if batches else 1).tolist()
    rate = np.repeat(rng.choice([0.0, 0.05, 0.3, 1.5], 6), 20)
    arrival = np.repeat(np.arange(len(rate)), rng.poisson(rate)).tolist()
    limit = 1 if batches else int(rng.integers(1, 4))
    return Case(config, places, limit, service, int(rng.choice([0, 0, 1, 5])), arrival)


def parts(given: Case, scale: float = 1.0) -> Any:
    """Instances on devices of their own, and last what loads weights over one link."""
    sizes = len(given.service)
    shapes = [Shape([k], [], [[]]) for k in range(given.places) for _ in given.service]
    seconds = [float(s) for _ in range(given.places) for s in given.service]
    if given.load:
        shapes.append(Shape([], [(0,)], [[]]))
        seconds.append(float(given.load))
    table = np.arange(given.places * sizes).reshape(1, given.places, sizes)
    return (
        layout_of(shapes, [1] * given.places, 1),
        np.array(seconds) * scale,
        [ModelSetup(table, (given.limit,) * given.places)],
        [RequestSource(0)],
    )


def serving(given: Case, *, scale: float = 1.0, machine_code: bool = False) -> ScalingServing:
    loads = (given.places * len(given.service),) if given.load else ()
    scaling = Scaling(given.config, (loads,) * given.places)
    return ScalingServing(*parts(given, scale), scalings=[scaling], machine_code=machine_code)


def played(engine: ScalingServing, arrival: NDArray[np.float64], pieces: int = 1) -> Outcomes:
    told = [
        engine.serve(part, np.zeros(len(part), dtype=np.int64))
        for part in np.array_split(arrival, pieces)
    ]
    return Outcomes.joined([*told, engine.close()])


@sweep("chunk", quick=range(1), full=range(100))
def test_it_does_what_their_functions_decide(chunk: int, ray_serve: RayServe) -> None:
    changed = 0
    for seed in range(CASES * chunk, CASES * (chunk + 1)):
        given = case(seed)
        if not given.arrival:
            continue
        told_again = Autoscaled(
            ray_serve, given.config, given.places, given.limit, given.service, given.load
        )
        told_again.play(given.arrival)
        engine = serving(given)
        found = played(engine, np.array(given.arrival, dtype=float), 1 + seed % 3)
        rows = zip(found.sent_s, found.finish_s, found.instance, strict=True)
        wanted = [told_again.answers[k] for k in range(len(given.arrival))]
        assert [tuple(map(int, row)) for row in rows] == wanted, seed
        last = max(end for _, end, _ in wanted)
        ever = [one for one in engine.replicas[0].ever if one.start_s < last or not one.start_s]
        assert [(one.place, one.start_s) for one in ever] == [
            (one.place, one.start) for one in told_again.ever
        ]
        for mine, theirs in zip(ever, told_again.ever, strict=True):
            for time_s, name in ((mine.up_s, "up"), (mine.leave_s, "left"), (mine.gone_s, "gone")):
                assert time_s == theirs.times.get(name, np.inf)
        changed += len(ever) > given.config.initial
    assert changed


@pytest.mark.group("machine_code")
@sweep("seed", quick=range(1, 3), full=range(200))
def test_machine_code_does_the_same(seed: int) -> None:
    given = case(seed)
    arrival = np.array(given.arrival, dtype=float)
    plain, compiled = serving(given), serving(given, machine_code=True)
    for mine, theirs in zip(played(plain, arrival), played(compiled, arrival, 3), strict=True):
        np.testing.assert_array_equal(mine, theirs)
    assert plain.replicas[0].ever == compiled.replicas[0].ever
    assert plain.now_s == compiled.now_s
    np.testing.assert_array_equal(plain.ran, compiled.ran)


@sweep("seed", quick=range(6), full=range(200))
def test_all_times_longer_make_all_of_it_longer(seed: int) -> None:
    """Powers of two keep every bit; what delays are rounded by is a part of the shortest one."""
    given, by = case(seed), 2.0 ** (seed % 5 - 2)
    config = given.config
    longer = {
        name: getattr(config, name) * by
        for name in config.__slots__
        if name.endswith("_s") and getattr(config, name) is not None
    }
    arrival = np.array(given.arrival, dtype=float)
    found = played(serving(given), arrival)
    engine = serving(given._replace(config=replace(config, **longer)), scale=by)
    after = played(engine, arrival * by)
    np.testing.assert_array_equal(after.finish_s, found.finish_s * by)
    np.testing.assert_array_equal(after.sent_s, found.sent_s * by)
    np.testing.assert_array_equal(after.instance, found.instance)


@sweep("seed", quick=range(6), full=range(200))
def test_as_many_all_along_are_instances_all_along(seed: int) -> None:
    given = case(seed)
    many = given.config.max_replicas
    config = replace(given.config, min_replicas=many, max_replicas=many, initial_replicas=None)
    given = given._replace(config=config, places=many)
    arrival = np.array(given.arrival, dtype=float)
    scaled = serving(given)
    plain = Serving(*parts(given), machine_code=False)
    nowhere = np.zeros(len(arrival), dtype=np.int64)
    wanted = Outcomes.joined([plain.serve(arrival, nowhere), plain.close()])
    for mine, theirs in zip(played(scaled, arrival), wanted, strict=True):
        np.testing.assert_array_equal(mine, theirs)
    assert [one.place for one in scaled.replicas[0].ever] == list(range(many))
    assert scaled.now_s == plain.now_s
    # Windows begin at 0, where replicas are counted, not when the first request comes.
    for one, other in zip(scaled.lengths[2:4], plain.lengths[2:4], strict=True):
        np.testing.assert_allclose(one.sum(), other.sum())


@pytest.mark.parametrize("least", [0, 1])
def test_silence_costs_nothing(least: int) -> None:
    """Thirty years between two requests, in which a billion counts would be made."""
    config = Autoscaling(min_replicas=least, max_replicas=2, downscale_delay_s=60.0)
    engine = serving(Case(config, 2, 1, [3], 5, []))
    found = played(engine, np.array([0.0, 1e9, 1e9, 2e9]), 2)
    assert found.finish_s[3] >= 2e9 + 3
    assert len(engine.replicas[0].ever) < 8
    assert (found.latency_s < 60).all()
