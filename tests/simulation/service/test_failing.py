"""Workloads whose devices fail, end to end."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

import hetsim
from deployments import alone_s, deployed, poisson
from hetsim.errors import UsageError, WorkloadError
from hetsim.reporting.tables.service_record import service_record
from hetsim.simulation.failures.serving import Outage
from hetsim.simulation.service.failures import window_of_each, windows_of
from hetsim.simulation.serving.setup import Outcomes
from hetsim.workload.arrivals import Constant
from hetsim.workload.deployment import Instances, QueuePolicy
from hetsim.workload.failure import Failing, Failure
from hetsim.workload.workload import Slo

BOTH = (
    Instances(1, ("cpu",), "single:cpu", max_in_flight=1),
    Instances(1, ("npu", "cpu"), "single:npu", max_in_flight=1),
)
"""Unlike replicas."""


def test_windows_by_their_definition() -> None:
    rng = np.random.default_rng(7)
    for _ in range(200):
        arrival_s = np.sort(rng.integers(0, 60, 40)).astype(float)
        left_s = arrival_s + rng.integers(0, 12, 40)
        edges = np.sort(rng.choice(np.arange(1, 70), 6, replace=False)) + 0.5
        outages = [Outage(*pair) for pair in edges.reshape(3, 2)]
        if rng.random() < 0.2:
            outages[-1] = Outage(outages[-1].begin_s)
        found = windows_of(outages, arrival_s, left_s)

        def inside(now: float, came: np.ndarray = arrival_s, left: np.ndarray = left_s) -> int:
            return int(((came <= now) & (left > now)).sum())

        first_s = outages[0].begin_s
        halves = [inside(half / 2) / 2 for half in range(int(2 * first_s))]
        usual = math.ceil(sum(halves) / first_s)
        expected: list[tuple[float, float]] = []
        level = 0
        for outage in outages:
            begin_s = outage.begin_s
            if expected and begin_s < expected[-1][1]:
                begin_s = expected.pop()[0]
            else:
                level = max(inside(begin_s), usual)
            ends = [outage.end_s, *(t for t in sorted(left_s) if t > outage.end_s)]
            ends = [t for t in ends if math.isfinite(outage.end_s) and inside(t) <= level]
            expected.append((begin_s, ends[0] if ends else math.inf))
        assert [(one.begin_s, one.end_s) for one in found] == expected
        felt = window_of_each(found, arrival_s, left_s)
        for at, (came_s, gone_s) in enumerate(zip(arrival_s, left_s, strict=True)):
            mine = [k for k, one in enumerate(found) if came_s < one.end_s and one.begin_s < gone_s]
            assert felt[at] == (mine[0] if mine else -1)


def test_one_plan_takes_as_long_as_simulate_says(
    fixed: str, platform: hetsim.Platform, seen: list[Outcomes]
) -> None:
    """Of a device that is lost for good, and of the caller's, which loads nothing."""
    problem = hetsim.Problem.of(hetsim.load_model(fixed), platform)
    plan = hetsim.plan(problem, "single:npu")
    took_s = hetsim.simulate(plan).latency_s
    stream = hetsim.Stream("all", fixed, Constant(1.3 / took_s))
    workload = hetsim.Workload((stream,), requests=200)
    for failure in (
        Failure("npu", 40.3 * took_s),
        Failure("npu", 40.3 * took_s, "hang", 9 * took_s),
        Failure("cpu", 40.3 * took_s, "kill", 20 * took_s),
    ):
        deployment = deployed(fixed, strategy="single:npu")
        service = hetsim.simulate(deployment, workload, platform=platform, failures=[failure])
        played = seen[-1]
        expected = hetsim.simulate(plan, arrivals_s=played.arrival_s.tolist(), failures=[failure])
        assert tuple(played.latency_s.tolist()) == expected.latencies_s
        assert service.failures is not None
        assert service.energy_j == pytest.approx(expected.energy_j)
        # Of the caller's device it has nothing to run: transfers alone are cut off.
        [one] = service.failures.models
        begins = [failure.at_s] if failure.device == "npu" else []
        assert [window.begin_s for window in one.windows] == begins


def test_replicas_stand_in_for_each_other(
    fixed: str, platform: hetsim.Platform, seen: list[Outcomes]
) -> None:
    took_s = alone_s(fixed, platform)
    at_s, for_s = 100.25 * took_s, 40 * took_s
    workload = poisson(fixed, 1.2 / took_s, 1000, slos=(Slo(0.9, 5 * took_s),))
    deployment = deployed(fixed, instances=BOTH)
    calm = hetsim.simulate(deployment, workload, platform=platform)
    failing = Failing((Failure("npu", at_s, "kill", for_s),))
    service = hetsim.simulate(deployment, replace(workload, failures=failing), platform=platform)
    without, found = seen
    assert found.arrival_s.tobytes() == without.arrival_s.tobytes()
    early = found.arrival_s < at_s - 20 * took_s
    assert found.finish_s[early].tobytes() == without.finish_s[early].tobytes()
    on_npu = found.instance == 1
    problem = service.resolved[0].problem
    load_s = sum(
        problem.routes[0][1].seconds(constant.nbytes * 0 + total)
        for constant, total in [(problem.constants[0], sum(c.nbytes for c in problem.constants))]
    )
    back_s = at_s + for_s + load_s
    assert not (on_npu & (found.sent_s >= at_s) & (found.sent_s < back_s * (1 - 1e-9))).any()
    assert (on_npu & (found.sent_s >= back_s * (1 - 1e-9))).any()
    assert (on_npu & (found.sent_s < at_s)).any()
    failures = service.failures
    assert failures is not None
    assert calm.failures is None
    [model], [stream] = failures.models, failures.streams
    assert (model.available, model.outages) == (1.0, 0)
    assert model.windows[0].begin_s == at_s
    assert model.windows[0].works_s == pytest.approx(back_s, rel=1e-9)
    assert stream.retried <= 1
    parts = (stream.before, stream.during, stream.after)
    assert sum(part.requests for part in parts) == 1000
    assert stream.during.mean_s > 1.5 * stream.before.mean_s
    assert failures.devices[0].down_s == pytest.approx(for_s)
    record = service_record(service)["failures"]
    assert record["streams"][0]["during"]["requests"] == stream.during.requests
    assert record["asked"]["injected"][0]["for_s"] == for_s


def test_what_waits_while_nothing_works(
    fixed: str, platform: hetsim.Platform, seen: list[Outcomes]
) -> None:
    took_s = alone_s(fixed, platform)
    policy = QueuePolicy(max_queue_size=10, default_timeout_us=int(15e6 * took_s))
    deployment = deployed(fixed, queue_policy=policy)
    failure = Failure("cpu", 100.5 * took_s, "kill", 100 * took_s)
    workload = poisson(fixed, 0.5 / took_s, 400, failures=Failing((failure,)))
    service = hetsim.simulate(deployment, workload, platform=platform)
    [found] = seen
    failures = service.failures
    assert failures is not None
    [model], [stream] = failures.models, failures.streams
    assert model.outages == 1
    out_s = (1 - model.available) * service.duration_s
    assert out_s == pytest.approx(100 * took_s)
    assert stream.during.rejected > 20
    assert stream.before.rejected == stream.after.rejected == 0
    ended = found.finish_s[np.isfinite(found.finish_s)]
    assert not ((ended > failure.at_s) & (ended <= failure.back_s)).any()
    assert model.recoveries_s[0] >= 100 * took_s


def test_random_failures_are_honest_about_how_few_they_are(
    fixed: str, platform: hetsim.Platform
) -> None:
    took_s = alone_s(fixed, platform)
    slo = Slo(0.5, 100 * took_s)
    deployment = deployed(fixed, instances=BOTH)
    workload = poisson(fixed, 1.2 / took_s, 20_000, slos=(slo,))
    rare, often = (
        replace(
            workload,
            failures=Failing(mtbf_s={"npu": mtbf * took_s}, mttr_s={"npu": 20 * took_s}),
        )
        for mtbf in (6000.0, 60.0)
    )
    [few] = hetsim.simulate(deployment, rare, platform=platform).streams
    service = hetsim.simulate(deployment, often, platform=platform)
    [many] = service.streams
    # Nobody is ever that late: it is chance alone that few failures may have been kind.
    assert few.objectives[0].verdict.answer == "undecided"
    assert few.objectives[0].verdict.more > 100_000
    assert service.failures is not None
    assert service.failures.random
    assert len(service.failures.models[0].windows) > 50
    assert many.objectives[0].on_time == 1.0
    down_s = service.failures.devices[0].down_s
    assert down_s / service.duration_s == pytest.approx(0.25, rel=0.2)


def test_failures_between_which_nothing_ends_are_refused(
    fixed: str, platform: hetsim.Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hetsim.simulation.failures.serving.MOST_VAIN", 50)
    short_s = alone_s(fixed, platform) / 100
    failing = Failing(mtbf_s={"cpu": short_s}, mttr_s=short_s, times="constant")
    with pytest.raises(WorkloadError, match="none was answered; give a longer time"):
        hetsim.simulate(
            deployed(fixed), poisson(fixed, 1 / short_s, 5, failures=failing), platform=platform
        )


def test_a_rate_is_not_looked_for(fixed: str, platform: hetsim.Platform) -> None:
    failing = Failing((Failure("npu", 1.0),))
    workload = poisson(fixed, 10.0, 10, failures=failing, slos=(Slo(0.9, 0.1),))
    with pytest.raises(UsageError, match="not looked for where devices fail"):
        hetsim.capacity(deployed(fixed), workload, platform=platform)


def test_models_that_take_turns_do_not_fail(fixed: str, platform: hetsim.Platform) -> None:
    workload = poisson(fixed, 10.0, 10, failures=Failing((Failure("npu", 1.0),)))
    deployment = deployed(fixed, strategy="single:npu", loading="on_demand", instances=BOTH)
    with pytest.raises(UsageError, match="loading on_demand cannot be combined"):
        hetsim.simulate(deployment, workload, platform=platform)
