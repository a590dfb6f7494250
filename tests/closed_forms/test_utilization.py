"""The utilization law: busy is what comes times what each takes, on every path and on average."""

from __future__ import annotations

import pytest

import hetsim
from deployments import alone_s, deployed, poisson
from hetsim.workload.deployment import Instances
from holding import bounds
from sweeps import sweep


@sweep("load, seeds", quick=[(0.8, 4)], full=[(0.8, 4), *((load, 20) for load in (0.5, 0.8, 0.95))])
def test_of_a_device_and_of_an_instance(
    load: float, seeds: int, platform: hetsim.Platform, models: tuple[str, str]
) -> None:
    took_s = alone_s(models[0], platform)
    told = []
    for seed in range(seeds):
        workload = poisson(models[0], load / took_s, 60_000, seed=seed)
        deployment = deployed(models[0], instances=(Instances(1, max_in_flight=1),))
        service = hetsim.simulate(deployment, workload, platform=platform)
        device, instance = service.devices["cpu"], service.models[0].instances[0]
        rate = service.requests / service.duration_s
        assert device.utilization == pytest.approx(rate * took_s, rel=1e-9)
        assert instance.utilization == pytest.approx(rate * took_s, rel=1e-9)
        for use in (device, instance):
            assert use.interval is not None
            assert use.interval.estimate == pytest.approx(use.utilization, rel=1e-9)
        assert device.interval is not None
        if device.interval.enough:
            told.append(device.interval.low <= load <= device.interval.high)
    assert len(told) > 0.7 * seeds
    assert sum(told) >= bounds(len(told))[0]
