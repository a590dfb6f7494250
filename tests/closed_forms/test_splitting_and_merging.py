"""Poisson streams split by chance, and merged, are Poisson: each model is M/D/1, end to end."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import hetsim
from deployments import alone_s
from hetsim.simulation.service.service import Service, StreamService
from hetsim.workload.arrivals import Poisson
from hetsim.workload.deployment import Instances, Served
from holding import bounds
from oracles.queueing.one_server import CONSTANT, beyond_constant, mean_wait, time_at
from sweeps import sweep

ONE = (Instances(1, max_in_flight=1),)
"""Who waits does so in front of it, not for the device."""
CASES = sweep(
    "load, seeds", quick=[(0.5, 4)], full=[(0.5, 4), *((load, 20) for load in (0.5, 0.7, 0.8))]
)
Told = Iterator[tuple[str, bool]]


def held(service: Service, stream: int, load: float, took_s: float) -> Told:
    """Whether what is said of a stream that shares its server with none is true of M/D/1."""
    said: StreamService = service.streams[stream]
    rate = load / took_s
    wait = mean_wait(load, CONSTANT)
    p99 = time_at(lambda time: beyond_constant(load, time), 99, 20 / (1 - load))
    [tail] = [one for one in said.percentiles if one.percentile == 99]
    if tail.enough:
        yield "p99", tail.low_s <= p99 * took_s <= tail.high_s
    model = next(one for one in service.models if one.model == said.model)
    for name, mean, truth in (
        ("mean", said.mean, (1 + wait) * took_s),
        ("throughput", said.throughput, rate),
        ("waiting", model.queue.mean_interval, load * wait),
        ("inside", model.queue.inside_interval, load * (1 + wait)),
    ):
        assert mean is not None
        # One run in a hundred says that its batches are too alike.
        if mean.enough:
            yield name, mean.low <= truth <= mean.high


def count(seeds: int, play: Callable[[int], Told]) -> None:
    """Each figure is within its interval as often as intervals of 95 % allow."""
    told: dict[str, list[bool]] = {}
    for seed in range(seeds):
        for name, holds in play(seed):
            told.setdefault(name, []).append(holds)
    for name, held_by in told.items():
        assert len(held_by) > 0.7 * seeds, name
        assert sum(held_by) >= bounds(len(held_by))[0], name


def requests_at(load: float) -> int:
    """About how many it takes for intervals to be told of."""
    return 40_000 if load < 0.6 else 200_000


@CASES
def test_a_stream_that_is_dealt_out_by_chance(
    load: float, seeds: int, platform: hetsim.Platform, models: tuple[str, str]
) -> None:
    """Two models on a device each get a share of one process; each is M/D/1 at its own load."""
    took = [
        hetsim.simulate(
            hetsim.plan(hetsim.Problem.of(hetsim.load_model(model), platform), strategy)
        ).latency_s
        for model, strategy in zip(models, ("single:cpu", "single:npu"), strict=True)
    ]
    # One is as much used as asked for, the other as its share makes it.
    rates = [load / took[0], min(load, 0.6) / took[1]]
    streams = tuple(
        hetsim.Stream(name, model, share=rate / sum(rates))
        for name, model, rate in zip("ab", models, rates, strict=True)
    )
    deployment = hetsim.Deployment(
        tuple(
            Served(model, strategy, instances=ONE)
            for model, strategy in zip(models, ("single:cpu", "single:npu"), strict=True)
        )
    )
    requests = round(requests_at(load) * sum(rates) / rates[0])

    def play(seed: int) -> Told:
        workload = hetsim.Workload(
            streams, arrivals=Poisson(sum(rates)), requests=requests, seed=seed
        )
        service = hetsim.simulate(deployment, workload, platform=platform)
        yield from held(service, 0, load, took[0])

    count(seeds, play)


@CASES
def test_streams_that_meet_at_one_server(
    load: float, seeds: int, platform: hetsim.Platform, models: tuple[str, str]
) -> None:
    """What both see is the same queue, that of all that come."""
    took_s = alone_s(models[0], platform)
    streams = tuple(
        hetsim.Stream(name, models[0], Poisson(part * load / took_s))
        for name, part in (("a", 0.3), ("b", 0.7))
    )
    deployment = hetsim.Deployment((Served(models[0], "single:cpu", instances=ONE),))

    def play(seed: int) -> Told:
        workload = hetsim.Workload(streams, requests=2 * requests_at(load), seed=seed)
        service = hetsim.simulate(deployment, workload, platform=platform)
        for at, part in ((0, 0.3), (1, 0.7)):
            said = service.streams[at]
            assert said.mean is not None
            assert said.throughput is not None
            truth_s = (1 + mean_wait(load, CONSTANT)) * took_s
            yield f"mean {at}", said.mean.low <= truth_s <= said.mean.high
            rate = part * load / took_s
            yield f"throughput {at}", said.throughput.low <= rate <= said.throughput.high

    count(seeds, play)
