"""Memory over time on cases small enough to follow by hand."""

from __future__ import annotations

import dataclasses

from hetsim.simulation.simulate import simulate
from oracles.clock_plans import on, two_devices
from oracles.memory_over_time import memory_profile


def test_memory_by_hand() -> None:
    problem = two_devices(weight_bytes=[100, 200])
    plan = on(problem, ("gpu", (0,)), ("cpu", (1,)))
    timeline = simulate(plan)
    assert timeline.weight_bytes == {"cpu": 200, "gpu": 100}
    profile = memory_profile(plan, timeline)
    # cpu: the input until it has left, then t1 from its departure to g1's end beside t2.
    assert [a.tolist() for a in profile["cpu"]] == [
        [0, 1.5, 5.5, 8, 10], [203, 200, 206, 215, 200],
    ]  # fmt: skip
    assert [a.tolist() for a in profile["gpu"]] == [
        [0, 1.5, 5.5, 8], [103, 109, 106, 100],
    ]  # fmt: skip
    assert timeline.peak_memory_bytes == {"cpu": 215, "gpu": 109}
    inside = simulate(on(problem, ("cpu", (0, 1))))
    assert inside.peak_memory_bytes == {"cpu": 300 + 3 + 6 + 9, "gpu": 0}


def test_a_shared_constant_is_resident_once_a_device() -> None:
    problem = two_devices(weight_bytes=[100, 0])
    shared = dataclasses.replace(problem.constants[0], consumers=(0, 1))
    problem = dataclasses.replace(problem, constants=(shared,))
    assert simulate(on(problem, ("gpu", (0, 1)))).weight_bytes == {"cpu": 0, "gpu": 100}
    split = simulate(on(problem, ("gpu", (0,)), ("cpu", (1,))))
    assert split.weight_bytes == {"cpu": 100, "gpu": 100}
