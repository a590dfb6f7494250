"""Plans of several replicas for real: requests dealt out, outputs right, losses got over."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import onnx
import pytest

import hetsim
from builders import BOX
from execution.conftest import Cut, Executor, Groups
from hetsim.errors import UsageError
from hetsim.execution.compiled.write import compile_plan
from hetsim.execution.program import assemble, roundings_of
from hetsim.execution.transports.threads import ThreadTransport
from hetsim.graph.inputs.samples import random_inputs
from hetsim.problem.plan import Plan
from hetsim.workload.failure import Failure
from onnx_builders import assert_bitwise_equal, run_whole
from sweeps import sweep

WHOLE = [("gpu", range(6))]
SPLIT = [("cpu", [0]), ("gpu", [1]), ("npu", [2, 3]), ("cpu", [4, 5])]


def dealt(cut: Cut, proto: onnx.ModelProto, *replicas: Groups, deal: Sequence[int]) -> Plan:
    """The plan that deals requests out to some cuts of a model."""
    first = cut(proto, replicas[0])
    others = [
        Plan(first.problem, "manual", tuple(hetsim.Group(d, tuple(nodes)) for d, nodes in groups))
        for groups in replicas[1:]
    ]
    return Plan.dealt([first, *others], deal, strategy="manual")


def check(session: hetsim.Session, seeds: range) -> None:
    model = session.plan.problem.model
    assert model is not None
    requests = [session.run_async(seed=seed) for seed in seeds]
    for seed, request in zip(seeds, requests, strict=True):
        assert_bitwise_equal(request.result(60), run_whole(model, random_inputs(model, seed)))


def test_requests_go_where_the_deal_says(
    cut: Cut, diamond: onnx.ModelProto, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: dict[int, set[str]] = {}
    call = ThreadTransport.call

    def noted(self: Any, given: Any, *arguments: Any) -> None:
        asked.setdefault(given.request, set()).add(given.device)
        call(self, given, *arguments)

    monkeypatch.setattr(ThreadTransport, "call", noted)
    plan = dealt(cut, diamond, WHOLE, SPLIT, deal=(0, 0, 1))
    with hetsim.Session(plan, "threads") as session:
        check(session, range(12))
        assert session.steps == 4
    used = [{"gpu"}, {"gpu"}, {"cpu", "gpu", "npu"}]
    assert asked == {request: used[request % 3] for request in range(12)}


def test_a_run_asks_every_replica(cut: Cut, diamond: onnx.ModelProto) -> None:
    plan = dealt(cut, diamond, WHOLE, SPLIT, deal=(0, 0, 0, 1))
    run = hetsim.run(plan, executor="threads")
    assert run.bitwise_equal
    assert len(run.timeline.latencies_s) == 2
    assert {event.device for event in run.timeline.events} >= {"cpu", "gpu", "npu"}


@sweep("executor", quick=["threads"], full=["threads", "ray"], indirect=True)
def test_where_a_device_stays_away_the_other_replicas_carry_on(
    cut: Cut, diamond: onnx.ModelProto, executor: Executor
) -> None:
    plan = dealt(cut, diamond, WHOLE, [("cpu", range(6))], [("npu", range(6))], deal=(0, 1, 2))
    with hetsim.Session(plan, executor, max_restarts=0) as session:
        check(session, range(6))
        session.inject([Failure("gpu", 0.0)])
        check(session, range(6, 18))
        assert "replanned" in [recovery.how for recovery in session.recoveries]
        assert set(session.processes()) == {"cpu", "npu"}


def test_what_one_folder_cannot_hold_is_said(tmp_path: Path) -> None:
    problem = hetsim.Problem.of(hetsim.load_model("zoo:squeezenet"), hetsim.load_platform(BOX))
    plan = hetsim.plan(problem, "multi")
    with pytest.raises(UsageError, match=r"2 replicas.*plan\.replicas"):
        compile_plan(plan, tmp_path / "compiled")
    compile_plan(plan.replicas[1], tmp_path / "compiled")


def test_replicas_that_round_in_different_ways_are_refused() -> None:
    model = hetsim.load_model("zoo:squeezenet")
    problem = hetsim.Problem.of(model, hetsim.load_platform("laptop"))
    plan = hetsim.plan(problem, "multi")
    with pytest.raises(UsageError, match="round in different ways"):
        roundings_of(plan)
    program = assemble(plan, model)
    assert [replica.count for replica in program.replicas] == [1, 1, 1]
    assert program.deal == plan.deal
