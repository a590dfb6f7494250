"""Workloads, objectives and deployments made in Python: what does not fit is refused."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetsim.errors import HetsimError, WorkloadError
from hetsim.workload.arrivals import Closed, Poisson, Replay
from hetsim.workload.deployment import (
    Deployment,
    DynamicBatching,
    Instances,
    QueuePolicy,
    Served,
)
from hetsim.workload.workload import Follows, Slo, Stream, Workload, by_model, parse_slo


@pytest.mark.parametrize(
    ("text", "share", "latency_s"),
    [
        ("p99=50ms", 0.99, 0.05),
        ("P99<=50ms", 0.99, 0.05),
        ("p99.9 < 0.05 s", 0.999, 0.05),
        ("99.9%<=50ms", 0.999, 0.05),
        ("50 % < 2s", 0.5, 2.0),
        ("p50=100us", 0.5, 1e-4),
        ("p50=100µs", 0.5, 1e-4),
        ("p99.99=1e3ns", 0.9999, 1e-6),
    ],
)
def test_what_is_said_in_short(text: str, share: float, latency_s: float) -> None:
    assert parse_slo(text) == Slo(share, latency_s)


def test_a_percentile_and_a_share_on_time_are_one_objective() -> None:
    assert Slo.at_percentile(99.9, 0.05) == Slo(0.999, 0.05) == parse_slo("p99.9=50ms")
    assert Slo(0.999, 0.05).percentile == Slo(np.float64(0.999), np.float32(0.5)).percentile == 99.9
    assert str(Slo(0.999, 0.05)) == "p99.9 <= 50.0 ms"
    assert str(Slo(0.9999999, 0.05)) == "p99.99999 <= 50.0 ms"


@given(st.integers(1, 99_999), st.integers(1, 10**6))
def test_what_is_read_is_what_was_written(permille: int, micros: int) -> None:
    percentile = permille / 1000
    slo = parse_slo(f"p{percentile}={micros}us")
    assert slo.percentile == percentile
    assert slo == parse_slo(f"{percentile}% <= {micros / 1000} ms")
    assert parse_slo(str(slo)).share == pytest.approx(slo.share, rel=1e-4)


@pytest.mark.parametrize(
    "text",
    [
        "", "p99", "99=50ms", "p99=50", "p99=50m", "p0=50ms", "p100=50ms", "p-1=50ms",
        "100%<=50ms", "0%<=50ms", "p99=0ms", "p99=-5ms", "p99=nanms", "pnan=5ms", "p99=1e999s",
        "p1e999=5ms", "99%=50ms", "mean=5ms", "p99=50ms p95=20ms", "p99=50MS", "p9e-400=5ms",
    ],
)  # fmt: skip
def test_what_says_no_objective_is_refused_in_one_line_with_what_to_write(text: str) -> None:
    with pytest.raises(WorkloadError) as caught:
        parse_slo(text)
    assert caught.value.hint
    assert "\n" not in str(caught.value)


CHAT = Stream("chat", "m.onnx", Poisson(3.0), slos=(Slo(0.99, 0.05),), dims={"batch": 1})
PART = Stream("part", "m.onnx", share=1.0)
BATCHED = Served("m.onnx", dynamic_batching=DynamicBatching(8, (2, 4), 100), priority_levels=2,
                 default_priority_level=1)  # fmt: skip


def test_records_can_be_copied_sent_and_compared() -> None:
    workload = Workload((CHAT, PART), duration_s=3.0, arrivals=Poisson(1.0))
    for twin in (copy.deepcopy(workload), pickle.loads(pickle.dumps(workload))):
        assert twin == workload
        assert hash(twin) == hash(workload)
    assert by_model(workload) == {"m.onnx": (CHAT, PART)}
    assert pickle.loads(pickle.dumps(Deployment((BATCHED,)))) == Deployment((BATCHED,))


def test_sizes_that_a_model_is_planned_for() -> None:
    assert Served("m").sizes == (1,)
    assert BATCHED.sizes == tuple(range(1, 9))
    assert Served("m", batch_sizes=(1, 8), dynamic_batching=DynamicBatching(8)).sizes == (1, 8)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Stream("", "m", Poisson(1)), "has no name"),
        (lambda: Stream("a", "m"), "neither arrivals and a share"),
        (lambda: Stream("a", "m", Poisson(1), share=0.5), "both arrivals and a share"),
        (lambda: Stream("a", "m", "poisson"), "not one of constant"),
        (lambda: Stream("a", "m", Poisson(1), priority=0), "priority is 0"),
        (lambda: Stream("a", "m", Poisson(1), dims={"n": -1}), "dims['n'] is -1"),
        (lambda: Stream("a", "m", Poisson(1), dims={"n": Follows("c", (1,))}), "not a replay"),
        (lambda: Follows("c", ()), "do not ascend"),
        (lambda: Follows("c", (2, 2)), "do not ascend"),
        (lambda: Follows("c", (2,), "drop"), "above is 'drop'"),
        (lambda: Stream("a", "m", Replay("x"), dims={"n": Follows("c", tuple(range(1, 300)))})
         .variants, "299 bindings"),
        (lambda: Workload((), duration_s=1.0), "no stream"),
        (lambda: Workload((CHAT, CHAT), duration_s=1.0), "two streams are named 'chat'"),
        (lambda: Workload((CHAT,)), "the workload has no end"),
        (lambda: Workload((CHAT,), duration_s=-1.0), "duration_s is -1.0"),
        (lambda: Workload((CHAT,), requests=0), "requests is 0"),
        (lambda: Workload((CHAT,), duration_s=1.0, seed=-1), "seed is -1"),
        (lambda: Workload((CHAT,), duration_s=1.0, warm_up_s=1.0), "warm-up does not end"),
        (lambda: Workload((PART,), duration_s=1.0), "without arrivals to share"),
        (lambda: Workload((CHAT,), duration_s=1.0, arrivals=Poisson(1)), "no stream has a share"),
        (lambda: Workload((PART,), duration_s=1.0, arrivals=Closed(2)), "cannot be shared"),
        (lambda: Workload((Stream("a", "m", share=0.3), PART), duration_s=1.0,
                          arrivals=Poisson(1)), "add up to 1.3, not 1"),
        (lambda: Deployment(()), "no model is served"),
        (lambda: Deployment((BATCHED, BATCHED)), "'m.onnx' is served twice"),
        (lambda: Instances(0), "count is 0"),
        (lambda: Instances(1, ("gpu", "gpu")), "named twice"),
        (lambda: Instances(1, strategy="heft", plan="p.json"), "a strategy and a plan"),
        (lambda: QueuePolicy(-1), "max_queue_size is -1"),
        (lambda: QueuePolicy(timeout_action="drop"), "timeout_action is 'drop'"),
        (lambda: DynamicBatching(0), "max_batch_size is 0"),
        (lambda: DynamicBatching(8, (4, 2)), "does not ascend"),
        (lambda: DynamicBatching(8, (4, 16)), "has 16, above max_batch_size 8"),
        (lambda: DynamicBatching(8, max_queue_delay_us=-5), "max_queue_delay_us is -5"),
        (lambda: Served("m", routing="random"), "routing is 'random'"),
        (lambda: Served("m", batch_sizes=(1, 4), dynamic_batching=DynamicBatching(8)), "end at 4"),
        (lambda: Served("m", batch_sizes=(4, 1)), "do not ascend"),
        (lambda: Served("m", instances=()), "has no instance"),
        (lambda: Served("m", priority_levels=2), "default_priority_level is 0"),
        (lambda: Served("m", default_priority_level=1), "add priority_levels:"),
        (lambda: Deployment((BATCHED,)).of("n.onnx"), "no model 'n.onnx' is served"),
        (lambda: Deployment((Served("m.onnx"),)).check(
            Workload((Stream("a", "m.onnx", Poisson(1), priority=1),), requests=1)),
         "has priority 1, and 'm.onnx' has 0 levels"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(make: Any, says: str) -> None:
    with pytest.raises(HetsimError) as caught:
        make()
    assert says in str(caught.value)
    assert caught.value.exit_code == 3
    assert "\n" not in str(caught.value)
