"""Replicas that come and go, and the fewest replica-seconds of any scaling."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest

import hetsim
from deployments import alone_s, deployed, poisson
from hetsim.errors import UsageError, WorkloadError
from hetsim.hardware.price import parse_price
from hetsim.provisioning.rates.capacity import capacity
from hetsim.provisioning.rates.redundancy import availability, survive
from hetsim.simulation.service.cost import ServicePrices, cost_of
from hetsim.simulation.service.layout import held
from hetsim.simulation.service.replicas import Demand, fewest
from hetsim.simulation.service.resolution import resolve
from hetsim.simulation.service.service import Service
from hetsim.simulation.service.serving import fixed as all_along
from hetsim.simulation.service.serving import serve
from hetsim.simulation.serving.setup import Outcomes
from hetsim.workload.arrivals import Closed, Mmpp
from hetsim.workload.autoscaling import Autoscaling
from hetsim.workload.deployment import DynamicBatching, Instances
from hetsim.workload.failure import Failing, parse_failures
from hetsim.workload.workload import Slo
from sweeps import sweep

SLOTS, MOST = 7, 2
CASES = 20
"""Seeds of a chunk."""


def on_time(arrival: list[int], latency: int, many: tuple[int, ...]) -> tuple[int, int]:
    """Requests on time, and answered in all, where so many of one slot each are served in each."""
    waiting: list[int] = []
    late: list[int] = []
    found = answered = 0
    for slot, places in enumerate(many):
        waiting += [at for at in arrival if at == slot]
        late += [at for at in waiting if slot + 1 > at + latency]
        waiting = [at for at in waiting if slot + 1 <= at + latency]
        for _ in range(places):
            if waiting:
                waiting.pop(0)
                found += 1
            elif late:
                late.pop()
            else:
                break
            answered += 1
    return found, answered


def cheapest(
    arrival: list[int], latency: int, late: int, config: Autoscaling, start: int, rejects: bool
) -> float:
    """Slots of replicas, starts too, of the cheapest of all schedules; infinite: none does."""
    best = math.inf
    for many in product(range(config.max_replicas + 1), repeat=SLOTS):
        if any(places < config.min_replicas for places in many[: arrival[-1] + 1]):
            continue
        starts = sum(max(b - a, 0) for a, b in pairwise(many))
        slots = sum(many) + start * starts
        if slots < best:
            timely, answered = on_time(arrival, latency, many)
            if timely >= len(arrival) - late and (rejects or answered == len(arrival)):
                best = slots
    return best


@sweep("chunk", quick=range(1), full=range(60))
def test_no_schedule_is_below_it(chunk: int) -> None:
    """Some reach it; where it is infinite none keeps the objectives."""
    reached = 0
    for seed in range(CASES * chunk, CASES * (chunk + 1)):
        rng = np.random.default_rng([seed, 77])
        count = int(rng.integers(1, 6))
        arrival = sorted(rng.integers(0, SLOTS - 2, count).tolist())
        latency = int(rng.integers(1, 4))
        late = int(rng.integers(0, 2))
        config = Autoscaling(min_replicas=int(rng.integers(0, 2)), max_replicas=MOST)
        start = int(rng.integers(0, 3))
        rejects = bool(rng.integers(2))
        times = np.array(arrival, dtype=float)
        asked = Demand(times, np.ones(count), late, float(latency))
        bound = fewest([asked], config, float(start), rejects=rejects)
        best = cheapest(arrival, latency, late, config, start, rejects)
        assert bound.replica_s <= best
        reached += best < math.inf and bound.replica_s > best - 1e-6
    assert reached


PLACES = 3


@pytest.fixture(scope="module")
def took_s(fixed: str, platform: hetsim.Platform) -> float:
    return alone_s(fixed, platform)


def quick(took_s: float, **changes: Any) -> Autoscaling:
    """A controller that is as quick as its requests."""
    given: dict[str, Any] = {
        "min_replicas": 1,
        "max_replicas": PLACES,
        "target_ongoing_requests": 1.5,
        "metrics_interval_s": 4 * took_s,
        "look_back_period_s": 40 * took_s,
        "upscale_delay_s": 0.0,
        "downscale_delay_s": 60 * took_s,
        "control_loop_interval_s": took_s,
        "graceful_shutdown_wait_loop_s": 2 * took_s,
        "startup_s": 5 * took_s,
        **changes,
    }
    return Autoscaling(**given)


def of(model: str, scaling: Autoscaling | None, **changes: Any) -> hetsim.Deployment:
    """Replicas on the NPU, whose weights come from the host; they share it."""
    given = {"strategy": "single:npu", "instances": (Instances(PLACES),), **changes}
    return deployed(model, autoscaling=scaling, **given)


def day(model: str, took_s: float, requests: int = 1200, **changes: Any) -> hetsim.Workload:
    """Calm and busy times in turn."""
    slos = changes.pop("slos", (Slo(0.9, 300 * took_s),))
    rates = Mmpp((0.02 / took_s, 1.5 / took_s), (900 * took_s, 300 * took_s))
    stream = hetsim.Stream("all", model, rates, slos=slos)
    return hetsim.Workload((stream,), requests=requests, **changes)


@pytest.fixture(scope="module")
def service(fixed: str, platform: hetsim.Platform, took_s: float) -> Service:
    return hetsim.simulate(of(fixed, quick(took_s)), day(fixed, took_s), platform=platform)


def test_replicas_follow_what_comes(service: Service, took_s: float) -> None:
    [found] = service.scaled
    assert 1 < found.mean < PLACES
    assert found.most == PLACES
    assert found.starts > 3
    changes = found.changes()
    assert changes[0] == (0.0, 1, 1)
    assert all(0 < running <= alive <= PLACES for _, alive, running in changes[:-1])
    assert changes[-1][1:] == (0, 0)
    whole_s = sum((after[0] - at_s) * alive for (at_s, alive, _), after in pairwise(changes))
    assert found.replica_s == pytest.approx(whole_s)
    assert found.mean == pytest.approx(whole_s / service.duration_s)
    # It starts its process, and loads its weights over a link that others hold, too.
    nbytes = sum(v.nbytes for v in service.resolved[0].problem.constants)
    assert found.start_s > 5 * took_s + nbytes / 10e9
    assert service.links["cpu>npu"].busy_s > found.starts * nbytes / 10e9 * 0.9


def test_replicas_all_along_share_the_device_and_cost_by_the_hour(
    service: Service, platform: hetsim.Platform
) -> None:
    least, most = all_along(service, platform)
    assert [one.scaled[0].mean for one in (least, most)] == pytest.approx([1, PLACES])
    assert [one.requests for one in (least, most)] == [service.requests] * 2
    # One device runs all replicas in turn: which ones there are changes the order of requests.
    means = [one.streams[0].mean_s for one in (least, most)]
    assert means == pytest.approx([service.streams[0].mean_s] * 2, rel=0.01)
    prices = ServicePrices({"cpu": parse_price("0.2/h"), "npu": parse_price("0.8/h")})
    assert cost_of(most, platform, prices).hardware_usd == pytest.approx(most.duration_s / 3600)
    assert all_along(replace(service, scaled=()), platform) == ()


def test_a_rented_device_is_paid_for_while_a_replica_is_there(
    fixed: str, platform: hetsim.Platform, took_s: float
) -> None:
    """What is bought is paid for all along, and so is what something else uses."""
    config = quick(took_s, min_replicas=0, downscale_delay_s=10 * took_s)
    found = hetsim.simulate(of(fixed, config), day(fixed, took_s, 600), platform=platform)
    spells = [(one.start_s, one.gone_s) for one in found.scaled[0].lived]
    grid = np.linspace(0, found.duration_s, 20_001)
    there_s = found.duration_s * np.mean([any(a <= t < b for a, b in spells) for t in grid])
    assert there_s < 0.95 * found.duration_s
    rent = ServicePrices({"cpu": parse_price("0.2/h"), "npu": parse_price("0.8/h")})
    cost = cost_of(found, platform, rent)
    [npu] = [one for one in cost.charges if one.name == "npu"]
    assert npu.rented_s == pytest.approx(there_s, rel=1e-2)
    assert cost.hardware_usd == pytest.approx((0.2 * found.duration_s + 0.8 * npu.rented_s) / 3600)
    bought = ServicePrices({"cpu": parse_price("0.2/h"), "npu": parse_price("100/2y")}, 0.3)
    [npu] = [one for one in cost_of(found, platform, bought).charges if one.name == "npu"]
    assert npu.rented_s == found.duration_s


def test_each_replica_has_weights_of_its_own(
    fixed: str, platform: hetsim.Platform, took_s: float
) -> None:
    workload = poisson(fixed, 1.0, 4)
    apart, one = (
        held(resolve(of(fixed, scaling), workload, platform)[0]).weights[1]
        for scaling in (quick(took_s), None)
    )
    assert apart == PLACES * one > 0
    small = replace(platform.devices["npu"], memory_bytes=2 * one)
    devices = {**platform.devices, "npu": small}
    with pytest.raises(hetsim.errors.OutOfMemory, match="npu"):
        hetsim.simulate(
            of(fixed, quick(took_s)), workload, platform=replace(platform, devices=devices)
        )


@sweep("seed", quick=range(2), full=range(60))
def test_no_policy_is_below_the_fewest(
    seed: int,
    fixed: str,
    open_: str,
    platform: hetsim.Platform,
    took_s: float,
    seen: list[Outcomes],
) -> None:
    """Whatever it reaches in a run is an objective that it keeps."""
    rng = np.random.default_rng([seed, 5])
    least = int(rng.integers(0, 2))
    config = quick(
        took_s,
        min_replicas=least,
        target_ongoing_requests=float(rng.choice([0.5, 1, 3])),
        downscale_delay_s=float(rng.choice([0, 5, 60])) * took_s,
        startup_s=float(rng.choice([0, 5, 50])) * took_s,
    )
    batches = bool(rng.integers(2))
    model = open_ if batches else fixed
    more = {"dynamic_batching": DynamicBatching(4)} if batches else {}
    deployment = of(model, config, **more)
    workload = day(model, took_s, 400, seed=seed)
    hetsim.simulate(deployment, workload, platform=platform)
    share = float(rng.choice([0.9, 0.99]))
    latency_s = np.sort(seen[-1].latency_s)[math.ceil(share * 400) - 1]
    slo = Slo(share, float(latency_s) * (1 + 1e-9))
    found = hetsim.simulate(
        deployment, day(model, took_s, 400, seed=seed, slos=(slo,)), platform=platform
    )
    assert found.streams[0].objectives[0].on_time >= share
    [scaled] = found.scaled
    assert scaled.fewest is not None
    assert 0 < scaled.fewest.work_s <= scaled.fewest.replica_s <= scaled.replica_s


def test_of_clients_nothing_is_said_to_be_the_fewest(
    fixed: str, platform: hetsim.Platform, took_s: float
) -> None:
    stream = hetsim.Stream("all", fixed, Closed(4, took_s))
    workload = hetsim.Workload((stream,), requests=200)
    found = hetsim.simulate(of(fixed, quick(took_s)), workload, platform=platform)
    assert found.scaled[0].fewest is None
    assert found.scaled[0].starts > 0
    assert found.requests == 200


def test_percentiles_are_those_of_this_run(
    fixed: str, platform: hetsim.Platform, took_s: float
) -> None:
    """What comes later may start a replica that answers who waits: no gap is luck."""
    workload = poisson(fixed, 0.3 / took_s, 2000)
    found = serve(of(fixed, quick(took_s)), workload, platform, within=0.05)
    assert found.scaled[0].starts > 0
    assert {one.late.luck for one in found.streams[0].percentiles} == {0.0}


def test_what_replicas_that_come_and_go_are_not_played_with(
    fixed: str, platform: hetsim.Platform, took_s: float
) -> None:
    deployment = of(fixed, quick(took_s))
    workload = poisson(fixed, 1.0, 4, slos=(Slo(0.9, 1.0),))
    failing = Failing(parse_failures("kill npu at 1s"))
    with pytest.raises(UsageError, match="autoscaling cannot be combined with devices that fail"):
        hetsim.simulate(deployment, replace(workload, failures=failing), platform=platform)
    for verb in (capacity, survive, partial(availability, target=0.9)):
        with pytest.raises(UsageError, match="autoscaled") as error:
            verb(deployment, workload, platform=platform)
        assert "remove autoscaling: from" in str(error.value.hint)
    with pytest.raises(UsageError, match="only simulated"):
        hetsim.serve(deployment, workload, platform)


def test_records_that_make_no_sense(took_s: float) -> None:
    with pytest.raises(WorkloadError, match="min_replicas is 3, above max_replicas 2"):
        Autoscaling(min_replicas=3, max_replicas=2)
    with pytest.raises(WorkloadError, match="initial_replicas is 4"):
        Autoscaling(max_replicas=2, initial_replicas=4)
    for changes in (
        {"max_replicas": 0},
        {"min_replicas": -1},
        {"target_ongoing_requests": 0},
        {"upscale_delay_s": -1},
        {"startup_s": math.nan},
        {"upscaling_factor": 0},
        {"metrics_interval_s": 1e-9},
        {"target_ongoing_requests": 1e-300},
        {"look_back_period_s": 10.0, "metrics_interval_s": 1e-5},
        {"aggregation_function": "median"},
        {"max_ongoing_requests": 1.5},
    ):
        with pytest.raises(hetsim.errors.InvalidInput):
            quick(took_s, **changes)
    for changes, match in (
        ({"instances": (Instances(PLACES - 1),)}, "2 instances"),
        ({"loading": "on_demand"}, "loading on_demand"),
        ({"instances": (Instances(PLACES, max_in_flight=2),)}, "use one of them"),
        ({"dynamic_batching": DynamicBatching(4)}, "dynamic_batching makes batches"),
    ):
        with pytest.raises(WorkloadError) as error:
            of("m.onnx", quick(took_s, max_ongoing_requests=3), **changes)
        assert match in str(error.value)
