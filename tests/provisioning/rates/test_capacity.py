"""What a deployment carries, end to end: closed forms, fractions, and what must hold."""

from __future__ import annotations

import re
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import brentq

import hetsim
from deployments import alone_s, deployed, poisson, replayed
from hetsim.core.text import to_json
from hetsim.errors import UsageError
from hetsim.provisioning.rates.answer import Capacity, Rates
from hetsim.provisioning.rates.ceiling import demand_of
from hetsim.reporting.tables.capacity import capacity_record
from hetsim.simulation.service.serving import serve
from hetsim.workload.arrivals import Burst, Closed, Poisson, Replay
from hetsim.workload.deployment import DynamicBatching, Instances, QueuePolicy, Served
from hetsim.workload.workload import Slo, Stream, Workload
from oracles.exact_stretch import least_stretch_of_chains
from queues import latency_at
from sweeps import sweep


def m_d_1_load(services: float, percentile: float) -> float:
    """The load at which a percentile of M/D/1 is so many services."""
    root: float = brentq(
        lambda load: latency_at("M/D/1", load, percentile) - services, 0.01, 0.9, xtol=1e-6
    )
    return root


@sweep(
    "services, percentile",
    quick=[(6.0, 90.0)],
    full=[(6.0, 90.0), (3.0, 99.0), (2.5, 90.0), (9.0, 99.0)],
)
def test_of_m_d_1_the_true_capacity_lies_between(
    services: float, percentile: float, fixed: str, platform: hetsim.Platform
) -> None:
    took_s = alone_s(fixed, platform)
    slo = Slo.at_percentile(percentile, services * took_s)
    workload = poisson(fixed, 1.0, 1, slos=(slo,))
    found = hetsim.capacity(deployed(fixed), workload, platform=platform, most_requests=2**17)
    row = found.best
    truth = m_d_1_load(services, percentile)
    [span] = row.rates
    assert row.one_span is None
    assert (span.low_per_s, row.how, row.answer) == (0, "verdicts", "meets")
    assert span.misses_above_per_s is not None
    assert span.high_per_s * took_s <= truth <= span.misses_above_per_s * took_s
    assert span.misses_above_per_s <= 1.3 * span.high_per_s
    assert row.ceiling_per_s * took_s == pytest.approx(1, rel=1e-6)
    assert row.ceiling_binds == "device cpu"
    assert row.utilization == pytest.approx(span.high_per_s * took_s, rel=1e-6)
    assert row.sample_per_s is not None
    assert row.sample_per_s * took_s == pytest.approx(truth, rel=0.15)
    assert row.at is not None
    assert row.at.streams[0].objectives[0].verdict.answer == "meets"
    assert found.bound_per_s is not None
    assert found.bound_per_s >= row.highest_per_s
    # The same answer again, to the last byte.
    again = hetsim.capacity(deployed(fixed), workload, platform=platform, most_requests=2**17)
    assert to_json(capacity_record(again)) == to_json(capacity_record(found))
    for rate, code in ((span.high_per_s, 0), (span.misses_above_per_s, 5), (1e9, 4)):
        if code == 0:
            assert found.require(rate) is row
        else:
            with pytest.raises(hetsim.HetsimError) as raised:
                found.require(rate)
            assert raised.value.exit_code == code
    if span.misses_above_per_s > 1.001 * span.high_per_s:
        with pytest.raises(hetsim.errors.Undecided):
            found.require(1.0005 * span.high_per_s)


def test_of_a_trace_it_is_that_of_fractions(
    fixed: str, platform: hetsim.Platform, tmp_path: Path
) -> None:
    took_s = alone_s(fixed, platform)
    for seed in range(6):
        rng = np.random.default_rng(seed)
        times = np.cumsum(rng.exponential(took_s, 24) * rng.integers(0, 3, 24)).tolist()
        slo = Slo(float(rng.choice([0.5, 0.9])), took_s * float(rng.choice([1.5, 2.5])))
        workload = replayed(tmp_path, fixed, times, slo)
        served = deployed(fixed, dynamic_batching=DynamicBatching(1))
        row = hetsim.capacity(served, workload, platform=platform).best
        came = workload.streams[0].arrivals
        assert isinstance(came, Replay)
        stretch = least_stretch_of_chains(
            [Fraction(one) for one in came.trace().arrival_s.tolist()],
            [[Fraction(took_s)]] * 24,
            [[[]]] * 24,
            [[[0]]] * 24,
            Fraction(slo.latency_s),
            12 if slo.share == 0.5 else 2,
        )
        assert (row.how, row.one_span) == ("exact", None)
        assert stretch is not None
        if stretch == 0:
            assert row.highest_per_s == float("inf")
            continue
        assert row.factor == 1 / stretch
        # What is played agrees on both sides of it, but for what its sums are rounded by.
        for by, late in ((1 - 1e-9, False), (1 + 1e-9, True)):
            service = serve(served, workload.faster(float(row.factor) * by), platform)
            on_time = service.streams[0].objectives[0].on_time
            assert (on_time < slo.share) == late


def test_between_two_rates_alone(open_: str, platform: hetsim.Platform) -> None:
    # At low rates a request waits the whole delay; at high ones its batch is full sooner.
    took_s = alone_s_of_batch(open_, platform, 4)
    delay_us = int(10e6 * took_s)
    batching = DynamicBatching(4, (), delay_us)
    slo = Slo(0.5, 6 * took_s)
    workload = poisson(open_, 1.0, 1, slos=(slo,))
    deployment = deployed(open_, dynamic_batching=batching, batch_sizes=(1, 2, 4))
    found = hetsim.capacity(deployment, workload, platform=platform, most_requests=2**16)
    row = found.best
    assert row.one_span is not None
    assert "batched" in row.one_span
    [span] = row.rates
    assert span.misses_below_per_s is not None
    assert 0 < span.misses_below_per_s < span.low_per_s < span.high_per_s < row.ceiling_per_s
    for rate, answer in (
        (span.misses_below_per_s, "misses"),
        (span.low_per_s, "meets"),
        (span.high_per_s, "meets"),
    ):
        service = hetsim.simulate(
            deployment,
            replace(workload.faster(rate), requests=2**16),
            platform=platform,
            until_answered=True,
        )
        assert service.streams[0].objectives[0].verdict.answer == answer
    # A trace of the same: a list of spans as well, from the requests themselves.
    assert row.at_rate(row.ceiling_per_s) == "misses"
    assert row.at_rate(span.low_per_s * 0.9) == "undecided"


def alone_s_of_batch(model: str, platform: hetsim.Platform, size: int) -> float:
    problem = hetsim.Problem.of(hetsim.load_model(model, dims={"batch": size}), platform)
    return hetsim.simulate(hetsim.plan(problem, "single:cpu")).latency_s


def test_what_no_rate_meets_is_proved(fixed: str, platform: hetsim.Platform) -> None:
    workload = poisson(fixed, 1.0, 1, slos=(Slo(0.99, 1e-9),))
    found = hetsim.capacity(deployed(fixed), workload, platform=platform)
    assert (found.best.answer, found.best.proved, found.best.rates) == ("misses", True, ())
    assert found.impossible is not None
    with pytest.raises(hetsim.Infeasible, match="no plan of"):
        found.require()
    # Quicker than this plan, and not than every one: missed by what was asked about alone.
    problem = hetsim.Problem.of(hetsim.load_model(fixed), platform)
    took_s = {
        name: hetsim.simulate(hetsim.plan(problem, f"single:{name}")).latency_s
        for name in ("cpu", "npu")
    }
    worse = max(took_s, key=lambda name: took_s[name])
    between = poisson(fixed, 1.0, 1, slos=(Slo(0.99, sum(took_s.values()) / 2),))
    found = hetsim.capacity(deployed(fixed, strategy=f"single:{worse}"), between, platform=platform)
    assert (found.best.proved, found.impossible) == (True, None)
    with pytest.raises(hetsim.errors.ObjectiveMissed, match="alone takes"):
        found.require()


def test_rows_are_in_order_and_what_cannot_be_served_is_last(
    fixed: str, platform: hetsim.Platform
) -> None:
    took_s = alone_s(fixed, platform)
    workload = poisson(fixed, 1.0, 1, slos=(Slo(0.9, 4 * took_s),))
    named = {
        "one": deployed(fixed),
        "nowhere": deployed(fixed, instances=(Instances(1, devices=("npu",)),)),
        "the same": deployed(fixed, strategy="hetero:cpu"),
    }
    try:
        hetsim.simulate(named["nowhere"], poisson(fixed, 1.0, 10), platform=platform)
        nowhere = False
    except hetsim.Infeasible:
        nowhere = True
    found = hetsim.capacity(named, workload, platform=platform, most_requests=2**14)
    assert [row.refused is None for row in found.rows] == [True, True, not nowhere]
    if nowhere:
        assert found.rows[-1].name == "nowhere"
        assert found.rows[-1].refused is not None
    assert [row.highest_per_s for row in found.rows] == sorted(
        (row.highest_per_s for row in found.rows), reverse=True
    )


def test_bursts_that_no_rate_pulls_apart(fixed: str, platform: hetsim.Platform) -> None:
    took_s = alone_s(fixed, platform)
    stream = hetsim.Stream("all", fixed, Burst(1.0, 8), slos=(Slo(0.9, 4.5 * took_s),))
    workload = hetsim.Workload((stream,), requests=1)
    found = hetsim.capacity(deployed(fixed), workload, platform=platform, most_requests=2**16)
    assert found.best.rates == ()
    assert found.best.sample_per_s == 0
    with pytest.raises(hetsim.HetsimError) as raised:
        found.require()
    assert raised.value.exit_code in (5, 6)


def test_clients_beside_requests_at_a_rate(fixed: str, platform: hetsim.Platform) -> None:
    took_s = alone_s(fixed, platform)
    workload = poisson(fixed, 0.1 / took_s, 1, slos=(Slo(0.9, 6 * took_s),))
    clients = hetsim.Stream("clients", fixed, Closed(1, 10 * took_s))
    mixed = replace(workload, streams=(*workload.streams, clients))
    found = hetsim.capacity(deployed(fixed), mixed, platform=platform, most_requests=2**14)
    [span] = found.best.rates
    # Nothing is claimed of rates below.
    assert found.best.one_span == "clients wait for answers"
    assert 0 < span.low_per_s == span.high_per_s < 1 / took_s


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"slos": ()}, "no stream has an objective"),
        ({"arrivals": Closed(2)}, "nothing comes at a rate"),
    ],
)
def test_what_cannot_be_asked(
    changes: dict[str, object], says: str, fixed: str, platform: hetsim.Platform
) -> None:
    workload = poisson(fixed, 1.0, 1, slos=(Slo(0.9, 1.0),))
    stream = replace(workload.streams[0], **changes)  # type: ignore[arg-type]
    with pytest.raises(hetsim.errors.UsageError, match=says):
        hetsim.capacity(deployed(fixed), replace(workload, streams=(stream,)), platform=platform)


WHY: list[tuple[dict[str, object], str | None]] = [
    ({}, None),
    ({"instances": (Instances(2),), "routing": "round_robin"}, None),
    ({"instances": (Instances(1, max_in_flight=1),)}, None),
    ({"instances": (Instances(2),)}, "looks at the instances"),
    ({"instances": (Instances(2, max_in_flight=1),)}, "share devices"),
    ({"instances": (Instances(1, max_in_flight=2),)}, "several requests under way"),
    ({"queue_policy": QueuePolicy(max_queue_size=4)}, "rejected"),
    ({"priority_levels": 2, "default_priority_level": 1}, "priorities"),
    ({"dynamic_batching": DynamicBatching(2)}, "batched"),
]


@sweep("changes, says", quick=WHY[::4], full=WHY)
def test_where_the_faster_the_later_is_proved(
    changes: dict[str, object], says: str | None, open_: str, platform: hetsim.Platform
) -> None:
    given = {"batch_sizes": (1, 2)} if "dynamic_batching" in changes else {}
    deployment = deployed(open_, **given, **changes)
    took_s = alone_s_of_batch(open_, platform, 1)
    workload = poisson(open_, 1.0, 1, slos=(Slo(0.5, 3 * took_s),))
    found = hetsim.capacity(deployment, workload, platform=platform, most_requests=2**11)
    why = found.best.one_span
    assert (why is None) == (says is None)
    assert says is None or says in str(why)


def test_a_mixture_of_streams_comes_faster_as_a_whole(
    fixed: str, platform: hetsim.Platform
) -> None:
    took_s = alone_s(fixed, platform)
    one = poisson(fixed, 1.0, 1, slos=(Slo(0.9, 4 * took_s),)).streams[0]
    other = replace(one, name="other", arrivals=replace(one.arrivals, rate_per_s=3.0), slos=())  # type: ignore[type-var, arg-type]
    both = hetsim.Workload((one, other), requests=1)
    found: Capacity = hetsim.capacity(deployed(fixed), both, platform=platform, most_requests=2**16)
    truth = m_d_1_load(4.0, 90.0)
    [span] = found.best.rates
    assert isinstance(span, Rates)
    assert found.rate_per_s == 4
    assert span.misses_above_per_s is not None
    assert span.high_per_s * took_s <= truth <= span.misses_above_per_s * took_s


def test_why_a_rate_misses_where_requests_are_rejected_or_never_come(
    fixed: str, platform: hetsim.Platform
) -> None:
    [stream] = poisson(fixed, 1.0, 1, slos=(Slo(0.99, 4 * alone_s(fixed, platform)),)).streams
    never = replace(stream, name="never", arrivals=Poisson(1e-9), slos=())
    workload = hetsim.Workload((never, stream), requests=1)
    ends = [
        hetsim.capacity(served, workload, platform=platform, most_requests=2**15).best.ends
        for served in (deployed(fixed), deployed(fixed, queue_policy=QueuePolicy(max_queue_size=1)))
    ]
    assert re.search(r" p99 is [^;]* and the mean wait \d", ends[0])
    assert ends[1].endswith(" p99 is beyond the answered requests")


def test_served_names_are_told_apart(fixed: str, platform: hetsim.Platform) -> None:
    workload = poisson(fixed, 1.0, 1, slos=(Slo(0.9, 1.0),))
    with pytest.raises(hetsim.errors.UsageError, match="no deployment"):
        hetsim.capacity({}, workload, platform=platform)
    with pytest.raises(hetsim.errors.WorkloadError):
        hetsim.capacity(hetsim.Deployment((Served("zoo:none"),)), workload, platform=platform)


def test_requests_that_come_at_one_moment_have_no_rate(tmp_path: Path) -> None:
    path = tmp_path / "once.csv"
    path.write_text("5\n5\n5\n")
    workload = Workload((Stream("once", "m.onnx", Replay(str(path)), slos=(Slo(0.9, 1.0),)),))
    with pytest.raises(UsageError, match="all requests of 'once' come at one time"):
        demand_of(workload)
