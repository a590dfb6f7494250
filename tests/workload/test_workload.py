"""Workloads and deployments made in Python: what does not fit is refused."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from hetsim.errors import HetsimError, InvalidInput, WorkloadError
from hetsim.workload.arrivals import Burst, Closed, Mmpp, Poisson, Replay
from hetsim.workload.deployment import (
    Deployment,
    DynamicBatching,
    Instances,
    QueuePolicy,
    Served,
)
from hetsim.workload.workload import Follows, Slo, Stream, Workload, by_model

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
        (lambda: Stream("", "m", Poisson(1)), "without a name"),
        (lambda: Stream("a", "m"), "neither arrivals and a share"),
        (lambda: Stream("a", "m", Poisson(1), share=0.5), "both arrivals and a share"),
        (lambda: Stream("a", "m", "poisson"), "none of constant"),
        (lambda: Stream("a", "m", Poisson(1), priority=0), "priority is 0"),
        (lambda: Stream("a", "m", Poisson(1), dims={"n": -1}), "dims['n'] is -1"),
        (lambda: Stream("a", "m", Poisson(1), dims={"n": Follows("c", (1,))}), "no replay"),
        (lambda: Follows("c", ()), "do not ascend"),
        (lambda: Follows("c", (2, 2)), "do not ascend"),
        (lambda: Follows("c", (2,), "drop"), "above is 'drop'"),
        (lambda: Stream("a", "m", Replay("x"), dims={"n": Follows("c", tuple(range(1, 300)))})
         .variants, "299 bindings"),
        (lambda: Workload((), duration_s=1.0), "no stream"),
        (lambda: Workload((CHAT, CHAT), duration_s=1.0), "two streams are called 'chat'"),
        (lambda: Workload((CHAT,)), "nothing says when it ends"),
        (lambda: Workload((CHAT,), duration_s=-1.0), "duration_s is -1.0"),
        (lambda: Workload((CHAT,), requests=0), "requests is 0"),
        (lambda: Workload((CHAT,), duration_s=1.0, seed=-1), "seed is -1"),
        (lambda: Workload((CHAT,), duration_s=1.0, warm_up_s=1.0), "warm-up is not over"),
        (lambda: Workload((PART,), duration_s=1.0), "no arrivals to share"),
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
        (lambda: Served("m", priority_levels=2), "default_priority_level is 0 of 2 levels"),
        (lambda: Served("m", default_priority_level=1), "write priority_levels:, too"),
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


def test_a_deployment_that_serves_a_workload_passes() -> None:
    Deployment((BATCHED,)).check(Workload((CHAT,), requests=1))
    with pytest.raises(WorkloadError, match=r"no model 'm\.onnx' is served"):
        Deployment((Served("n.onnx"),)).check(Workload((CHAT,), requests=1))


WRONG = [-1, None, "x", b"x", [None], {"a": 1}, 1.5, float("nan"), float("inf"), 10**30, object()]
RECORDS: list[tuple[Callable[..., Any], dict[str, Any]]] = [
    (Stream, {"name": "a", "model": "m.onnx", "arrivals": Poisson(1.0), "slos": (), "dims": {}}),
    (Workload, {"streams": (Stream("a", "m.onnx", Poisson(1.0)),), "requests": 5, "seed": 0}),
    (Slo, {"share": 0.5, "latency_s": 1.0}),
    (Follows, {"column": "x", "buckets": (1, 2), "above": "error"}),
    (Replay, {"path": "t.csv", "speed_up": 1.0, "column": "x", "columns": ()}),
    (Poisson, {"rate_per_s": 1.0}),
    (Mmpp, {"rates_per_s": (1.0, 2.0), "sojourns_s": (1.0, 2.0)}),
    (Burst, {"rate_per_s": 1.0, "size": 2, "spacing": "constant"}),
    (Closed, {"concurrency": 2, "think_time_s": 0.0, "think": "constant"}),
    (Served, {"model": "m.onnx", "strategy": "heft", "batch_sizes": (), "batch_dim": None,
              "instances": (Instances(),), "routing": "round_robin", "queue_policy": QueuePolicy(),
              "priority_levels": 0, "dynamic_batching": None}),
    (Instances, {"count": 1, "devices": (), "strategy": None, "plan": None, "max_in_flight": None}),
    (DynamicBatching, {"max_batch_size": 4, "preferred_batch_size": (), "max_queue_delay_us": 0}),
    (Deployment, {"models": (Served("m.onnx"),)}),
]  # fmt: skip


@pytest.mark.parametrize(("record", "right"), RECORDS, ids=lambda v: getattr(v, "__name__", ""))
def test_what_records_are_made_of_is_checked(
    record: Callable[..., Any], right: dict[str, Any]
) -> None:
    record(**right)
    refused = 0
    for field in right:
        for wrong in WRONG:
            with suppress(InvalidInput):
                record(**{**right, field: wrong})
                continue
            refused += 1
    assert refused > len(right) * len(WRONG) / 2
