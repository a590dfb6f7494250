"""What must not change an answer: another unit of time, and a stream of which nothing comes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import hetsim
from deployments import alone_s, deployed, poisson
from hetsim.simulation.serving.engine import Serving
from hetsim.simulation.serving.setup import ModelSetup, Outcomes, RequestSource
from hetsim.workload.arrivals import Poisson
from oracles.random_layouts import Shape, layout_of


@pytest.mark.parametrize("load", [0.5, 0.8, 0.95])
@pytest.mark.parametrize("machine_code", [True, False])
def test_time_scales_to_equal_bits(load: float, machine_code: bool) -> None:
    rng = np.random.default_rng(17)
    arrival = np.cumsum(rng.standard_exponential(2_000) / (2.0 * load))
    seconds = rng.exponential(1.0, 6)
    layout = layout_of([Shape([server], [], [[]]) for server in (0, 0, 0, 1, 1, 1)], [1, 1], 0)

    def played(unit: float) -> Outcomes:
        model = ModelSetup(
            np.arange(6).reshape(1, 2, 3),
            (1, 1),
            delay_s=0.375 * unit,
            timeout_s=3.5 * unit,
            preferred=(2,),
        )
        serving = Serving(
            layout, unit * seconds, [model], [RequestSource(0)], machine_code=machine_code
        )
        told = serving.serve(unit * arrival, np.zeros(len(arrival), dtype=np.int64))
        return Outcomes.joined([told, serving.close()])

    one = played(1.0)
    for unit in (4.0, 2.0**-20):
        scaled = played(unit)
        assert (unit * one.latency_s).tobytes() == scaled.latency_s.tobytes()
        assert one.size.tolist() == scaled.size.tolist()
        assert one.fresh.tolist() == scaled.fresh.tolist()


@pytest.mark.parametrize("load", [0.5, 0.8, 0.95])
def test_a_stream_of_rate_0_changes_nothing(
    load: float, platform: hetsim.Platform, models: tuple[str, str]
) -> None:
    model, _ = models
    workload = poisson(model, load / alone_s(model, platform), 3_000, seed=6)
    nothing = hetsim.Stream("nothing", model, Poisson(0.0))
    with_it = replace(workload, streams=(*workload.streams, nothing))
    alone = hetsim.simulate(deployed(model), workload, platform=platform)
    both = hetsim.simulate(deployed(model), with_it, platform=platform)
    assert both.streams[0] == alone.streams[0]
    assert both.streams[1].requests == 0
    assert dict(both.devices) == dict(alone.devices)
    assert both.duration_s == alone.duration_s
