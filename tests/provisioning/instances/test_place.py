"""Models on devices, end to end: what is said to be carried, held, missed and proved."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import onnx
import pytest

import hetsim
from deployments import model_at
from hetsim.core.text import to_json
from hetsim.provisioning.instances.candidates import candidates, offered, served_ways
from hetsim.provisioning.instances.place import place, without_others
from hetsim.provisioning.instances.search import best_of
from hetsim.provisioning.rates.ceiling import (
    ceiling_of,
    infeasible_factor,
    problems_of,
    rates_of,
    why_impossible,
)
from hetsim.reporting.tables.placement import place_record
from hetsim.simulation.service.layout import check_together, set_up
from hetsim.simulation.service.resolution import ModelOptions, PlanCache, resolve
from hetsim.simulation.service.serving import played, serve
from hetsim.workload.arrivals import Closed, Constant, Poisson, Replay
from hetsim.workload.deployment import DynamicBatching
from hetsim.workload.failure import Failing
from hetsim.workload.workload import Follows
from onnx_builders import make_model, op, value
from oracles.every_placement import most_carried as of_all
from platforms import cpu_and_npu

FEW = 400


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    folder = tmp_path_factory.mktemp("models")
    return model_at(folder, "batch", 512), model_at(folder, "batch", 384)


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory) -> hetsim.Platform:
    return cpu_and_npu(tmp_path_factory.mktemp("platform"))


def two(
    models: tuple[str, str], rates: tuple[float, float], *slos: hetsim.Slo, requests: int = FEW
) -> hetsim.Workload:
    streams = tuple(
        hetsim.Stream(name, model, Poisson(rate), slos=slos)
        for name, model, rate in zip("ab", models, rates, strict=True)
    )
    return hetsim.Workload(streams, requests=requests)


def with_memory(platform: hetsim.Platform, **nbytes: int) -> hetsim.Platform:
    devices = {
        name: replace(spec, memory_bytes=nbytes.get(name, spec.memory_bytes))
        for name, spec in platform.devices.items()
    }
    return replace(platform, devices=devices)


@pytest.mark.parametrize("batching", [None, DynamicBatching(4)])
def test_what_is_carried_and_held_is_what_simulation_takes(
    batching: DynamicBatching | None, models: tuple[str, str], platform: hetsim.Platform
) -> None:
    made = PlanCache()
    workload = two(models, (900.0, 400.0), hetsim.Slo(0.99, 0.05))
    each = offered(workload, platform, ModelOptions(), made, batching=batching)
    assert {one.devices for one in each.instances} >= {("cpu",), ("npu",)}
    best = best_of(each.replicas, each.limit_s)
    assert best.proved
    assert best.factor == pytest.approx(of_all(each.replicas), rel=1e-9)
    rates = rates_of(workload)
    few = candidates([(each, best)], 4, "least_finish")
    for one in [way for row in few for way in served_ways(row, platform, routing=None)]:
        resolved = resolve(one.deployment, workload, platform, ModelOptions(), made)
        memory = check_together(resolved, platform)
        assert list(memory.stays) == one.offered.replicas.held_bytes(one.chosen)
        setup = set_up(resolved, workload, memory)
        ceiling = ceiling_of(resolved, setup, rates, [np.ones(1)] * 2)
        assert one.flow.factor == pytest.approx(ceiling.factor, rel=1e-6)


def test_of_a_placement_that_carries_twice_the_demand(
    models: tuple[str, str], platform: hetsim.Platform
) -> None:
    slo = hetsim.Slo(0.99, 0.05)
    place = partial(hetsim.place, platform=platform, strategies=["heft"], most=2, most_requests=FEW)
    unit = place(two(models, (1.0, 1.0), slo, requests=50))
    rate = unit.factor / 2
    workload = two(models, (rate, rate), slo)
    found = place(workload)
    assert found.factor == pytest.approx(2.0)
    assert (found.gap, found.rate_per_s) == (pytest.approx(0, abs=1e-9), 2 * rate)
    assert found.impossible is None
    assert len(found.rows) == len({repr(row.deployment) for row in found.rows})
    assert len({row.places for row in found.rows}) == 2
    assert {row.waits for row in found.rows} >= {"in one line", "sent at once, least finish"}
    for row in found.rows:
        assert row.factor <= found.bound * (1 + 1e-9)
        assert row.service is not None
        assert row.service.requests == FEW
    nearest = [row.near for row in found.rows if row.answer == found.best.answer]
    assert found.best.near == min(nearest)
    # The deployment gives what was told of it.
    again = serve(found.deployment, workload, platform)
    assert found.best.service is not None
    assert [one.p99_s for one in again.streams] == [one.p99_s for one in found.best.service.streams]
    each = offered(workload, platform, ModelOptions(), PlanCache(), splits=["heft"])
    [first, *_] = candidates([(each, best_of(each.replicas, each.limit_s))], 2, "least_finish")
    assert first.deployment in [row.deployment for row in found.rows]
    assert to_json(place_record(place(workload))) == to_json(place_record(found))


def test_alone_is_as_where_nobody_else_comes(
    models: tuple[str, str], platform: hetsim.Platform
) -> None:
    one_device = hetsim.what_if(platform, without=["npu"])
    streams = (
        hetsim.Stream("a", models[0], Constant(700.0)),
        hetsim.Stream("b", models[1], Poisson(300.0)),
    )
    workload = hetsim.Workload(streams, duration_s=1.0)
    found = hetsim.place(workload, one_device, most=1)
    assert [row.stream for row in found.apart] == ["a", "b"]
    for at, row in enumerate(found.apart):
        served = hetsim.Deployment((found.deployment.of(row.model),))
        only = hetsim.Workload((streams[at],), duration_s=1.0)
        alone = serve(served, only, one_device).streams[0]
        assert row.alone.p99_s == alone.p99_s
        assert row.alone.mean_s == alone.mean_s
        assert row.others_s == row.together.mean_s - alone.mean_s
        assert row.others_s > 0
    # Where both are alone on their devices nobody waits for the other.
    resolved = resolve(found.deployment, workload, one_device)
    setup = set_up(resolved, workload, check_together(resolved, one_device))
    both = [without_others(setup, at).duration for at in (0, 1)]
    assert (both[0] + both[1] == setup.duration).all()
    assert played(workload, resolved, setup).streams[0].mean_s == found.apart[0].together.mean_s


def test_infeasible_only_where_it_is_proved(
    models: tuple[str, str], platform: hetsim.Platform
) -> None:
    place = partial(hetsim.place, strategies=["heft"], most=1)
    slo = hetsim.Slo(0.99, 0.05)
    too_fast = place(two(models, (1e7, 1e7), slo, requests=300), platform)
    assert too_fast.best.answer == "misses"
    with pytest.raises(hetsim.Infeasible, match="no placement has time for more than"):
        too_fast.require()
    too_short = place(two(models, (10.0, 10.0), hetsim.Slo(0.99, 1e-9)), platform)
    assert too_short.rows == ()
    assert all(row.slow for one in too_short.sought for row in one.refused)
    with pytest.raises(hetsim.Infeasible, match="takes less than"):
        too_short.require()
    weights = 4 * 2 * (512**2 + 384**2)
    tight = with_memory(platform, cpu=weights // 2 - 1000, npu=weights // 2 - 1000)
    with pytest.raises(hetsim.Infeasible, match="the weights of all models are"):
        place(two(models, (10.0, 10.0), slo), tight).require()
    # What is not proved, and was tried, is missed: each weight fits somewhere, not all together.
    split = with_memory(platform, cpu=int(weights * 0.62), npu=int(weights * 0.4))
    missed = place(two(models, (10.0, 10.0), slo), split)
    assert missed.impossible is None
    if not missed.rows:
        with pytest.raises(hetsim.errors.ObjectiveMissed, match="no set of instances"):
            missed.require()
    few = place(two(models, (10.0, 10.0), slo), platform, most_requests=40)
    with pytest.raises(hetsim.errors.Undecided, match=r"give --requests \d+"):
        few.require()


@pytest.mark.sweep
def test_a_plain_case_is_decided_however_short_the_workload_is(
    models: tuple[str, str], platform: hetsim.Platform
) -> None:
    """At a twentieth of what is carried, with a limit far off and 67 requests of one model."""
    slo = hetsim.Slo(0.99, 0.08)
    place = partial(hetsim.place, platform=platform, strategies=["heft"], most=1)
    rate = place(two(models, (1.0, 0.2), slo, requests=50), most_requests=50).factor / 20
    found = place(two(models, (rate, 0.2 * rate), slo, requests=400))
    assert found.factor == pytest.approx(20.0)
    assert found.require() is found.best
    assert found.best.service is not None
    played = found.best.service.requests
    # Fewer cannot tell, and say about how many do.
    few = place(two(models, (rate, 0.2 * rate), slo), most_requests=10_000)
    with pytest.raises(hetsim.errors.Undecided):
        few.require()
    assert 10_000 < few.requests_to_tell <= 4 * played
    again = place(two(models, (rate, 0.2 * rate), slo), most_requests=4 * few.requests_to_tell)
    assert again.require() is again.best


def test_nothing_is_said_of_a_stream_of_which_no_request_came(
    models: tuple[str, str], platform: hetsim.Platform
) -> None:
    workload = two(models, (100.0, 1e-6), hetsim.Slo(0.99, 0.08))
    found = hetsim.place(workload, platform, strategies=["heft"], most=1, most_requests=20_000)
    assert found.best.answer == "undecided"
    assert found.requests_to_tell >= 40_000
    served = found.deployment
    row = hetsim.capacity(served, workload, platform=platform, most_requests=20_000).rows[0]
    assert row.answer == "undecided"


def test_the_bound_of_all_plans_is_above_what_any_placement_carries(
    models: tuple[str, str], platform: hetsim.Platform
) -> None:
    made = PlanCache()
    workload = two(models, (50.0, 100.0))
    each = offered(workload, platform, ModelOptions(), made, batching=DynamicBatching(8))
    best = best_of(each.replicas)
    problems = problems_of(workload, made)
    demand = dict(zip(models, (50.0, 100.0), strict=True))
    most = infeasible_factor(demand, problems)
    assert best.bound <= most < np.inf
    # Ten times the demand is carried a tenth as often.
    assert infeasible_factor({k: 10 * v for k, v in demand.items()}, problems) == pytest.approx(
        most / 10
    )
    assert why_impossible(workload, platform, made) is None


def test_what_is_not_asked_so(models: tuple[str, str], platform: hetsim.Platform) -> None:
    clients = hetsim.Workload((hetsim.Stream("c", models[0], Closed(2)),), requests=10)
    with pytest.raises(hetsim.errors.UsageError, match="wait for answers"):
        hetsim.place(clients, platform)
    fails = replace(two(models, (1.0, 1.0)), failures=Failing((), 10.0, 1.0))
    with pytest.raises(hetsim.errors.UsageError, match="devices fail"):
        hetsim.place(fails, platform)
    with pytest.raises(hetsim.errors.UsageError, match="did you mean 'heft'"):
        hetsim.place(two(models, (1.0, 1.0)), platform, strategies=["hefd"])
    nothing = hetsim.Workload((hetsim.Stream("n", models[0], Poisson(0.0)),), requests=10)
    with pytest.raises(hetsim.errors.UsageError, match="nothing comes"):
        hetsim.place(nothing, platform)


def test_a_model_that_hardly_comes_and_priorities_are_served(
    models: tuple[str, str], platform: hetsim.Platform
) -> None:
    streams = (
        hetsim.Stream("a", models[0], Poisson(200.0), priority=2),
        hetsim.Stream("b", models[1], Poisson(0.0)),
    )
    found = place(
        hetsim.Workload(streams, requests=300),
        platform,
        settings=None,
        batchings=[DynamicBatching(4, (), 200)],
        most=1,
    )
    assert [one.batching for one in found.sought] == [None, DynamicBatching(4, (), 200)]
    for row in found.rows:
        assert {one.model for one in row.instances} == set(models)
        first = row.deployment.of(models[0])
        assert (first.priority_levels, first.default_priority_level) == (2, 2)
        assert all(entry.max_in_flight for entry in first.instances)


def test_a_length_that_is_rare_may_take_too_long(platform: hetsim.Platform, tmp_path: Path) -> None:
    weight = np.zeros((256, 256), dtype=np.float32)
    made = make_model(
        [op("MatMul", "x w", "y")],
        [value("x", (1, "length", 256))],
        [value("y", (1, "length", 256))],
        {"w": weight},
    )
    onnx.save(made, tmp_path / "m.onnx")
    model = str(tmp_path / "m.onnx")
    rows = [f"{at},{8192 if at % 20 == 19 else 8}" for at in range(200)]
    (tmp_path / "t.csv").write_text("time,size\n" + "\n".join(rows) + "\n")
    came = Replay(str(tmp_path / "t.csv"), column="time")
    follows = {"length": Follows("size", (8, 8192))}
    took = offered(
        hetsim.Workload((hetsim.Stream("s", model, came, dims=follows),)),
        platform,
        ModelOptions(),
        PlanCache(),
    )
    # Each kind of request asks for work of its own, as often as it comes.
    assert took.replicas.demand[0] == pytest.approx(19 * took.replicas.demand[1])
    short_s, long_s = (row[0] for row in took.instances[0].resolved.seconds[0])
    assert short_s < long_s
    between = (short_s + long_s) / 2
    for share, may in ((0.9, True), (0.96, False)):
        stream = hetsim.Stream("s", model, came, dims=follows, slos=(hetsim.Slo(share, between),))
        each = offered(hetsim.Workload((stream,)), platform, ModelOptions(), PlanCache())
        cpu = [one for one in each.instances if one.devices == took.instances[0].devices]
        assert bool(cpu) == may
        # A trace is judged whole, by all of its requests.
        found = hetsim.place(hetsim.Workload((stream,)), platform, most=1)
        if found.rows:
            assert found.best.service is not None
            assert found.best.service.requests == 200
