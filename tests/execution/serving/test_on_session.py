"""Workloads on a session that is open: who came when, where it ran, and what it answered."""

from __future__ import annotations

import math

import numpy as np
import pytest

import hetsim
from deployments import deployed
from hetsim.errors import UsageError, WorkloadError
from hetsim.execution.serving.load_test import LoadTest
from hetsim.execution.serving.on_session import serve_on
from hetsim.workload.arrivals import Closed, Constant, Poisson
from hetsim.workload.failure import Failing, Failure
from hetsim.workload.workload import Workload


@pytest.fixture
def plan(model: str, cut: str, platform: hetsim.Platform) -> hetsim.Plan:
    given = hetsim.load_plan(cut)
    assert given.problem.model is not None
    assert given.problem.model.dims == {"batch": 1}
    return given


def workload(model: str, *arrivals: object, **changes: object) -> Workload:
    streams = tuple(
        hetsim.Stream(str(at), model, one, slos=(hetsim.Slo(0.9, 5.0),))  # type: ignore[arg-type]
        for at, one in enumerate(arrivals)
    )
    return Workload(streams, **{"requests": 30, **changes})  # type: ignore[arg-type]


def served(session: hetsim.Session, asked: Workload, **changes: object) -> LoadTest:
    given: dict[str, object] = {"inputs": None, "verify": True, "seed": 0, "late_share": math.inf}
    return serve_on(session, asked, **{**given, **changes})  # type: ignore[arg-type]


def test_each_request_is_sent_and_answered_rightly(model: str, plan: hetsim.Plan) -> None:
    with hetsim.Session(plan, "threads") as session:
        found = served(session, workload(model, Poisson(300.0), Poisson(100.0)))
        again = served(session, workload(model, Poisson(300.0), requests=5))
    assert found.outputs is not None
    assert found.outputs.mismatches == ()
    assert found.outputs.alone == found.outputs.compared == found.outputs.answered == 30
    assert found.host.calls == 30 * len(plan.groups)
    assert not found.emulated
    for told, real in zip(found.simulated.streams, found.measured.streams, strict=True):
        assert told.requests == real.requests == real.answered > 0
        assert real.mean_s > 0
    assert found.measured.duration_s > 0
    for name, use in found.measured.devices.items():
        assert (use.busy_s > 0) == (name in plan.devices_used), name
        streams = plan.problem.streams[plan.problem.devices.index(name)]
        assert use.busy_s <= found.measured.duration_s * streams
    assert again.measured.requests == 5
    assert again.host.calls == 5 * len(plan.groups)


def test_clients_wait_for_their_answers(model: str, plan: hetsim.Plan) -> None:
    asked = workload(model, Closed(2, 0.002), Constant(50.0), requests=40)
    with hetsim.Session(plan, "threads") as session:
        found = served(session, asked)
    clients, alone = found.measured.streams
    assert clients.requests + alone.requests == 40
    # Each of the two has thought before each request, and waited for the answer.
    together_s = (clients.mean_s + 0.002) * clients.requests
    assert together_s <= 2 * found.measured.duration_s * (1 + 1e-9)
    assert found.outputs is not None
    assert found.outputs.alone == 40


def test_replicas_get_what_the_deal_gives_them(
    model: str, platform: hetsim.Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = hetsim.Problem.of(hetsim.load_model(model, dims={"batch": 1}), platform)
    alone = [hetsim.plan(problem, f"single:{name}") for name in ("cpu", "npu")]
    dealt = hetsim.Plan.dealt(alone, (0, 1, 1), strategy="by hand")
    with hetsim.Session(dealt, "threads") as session:
        found = served(session, workload(model, Poisson(200.0)))
    for side in (found.simulated, found.measured):
        shares = [int(np.rint(side.models[0].batches))]
        assert shares == [30]
    resolved = found.measured.resolved[0]
    assert [one.devices_used for rows in resolved.plans for [one] in rows] == [("cpu",), ("npu",)]
    busy = {name: use.busy_s for name, use in found.simulated.devices.items()}
    assert busy["cpu"] == pytest.approx(10 * resolved.seconds[0][0][0])
    assert busy["npu"] == pytest.approx(20 * resolved.seconds[1][0][0], rel=0.5)
    assert found.outputs is not None
    assert found.outputs.alone == 30


def test_a_device_that_dies_meanwhile_is_got_over(model: str, plan: hetsim.Plan) -> None:
    with hetsim.Session(plan, "threads") as session:
        session.inject([Failure("npu", 0.02, "kill")])
        found = served(session, workload(model, Constant(300.0), requests=60))
        assert [one.device for one in session.recoveries] == ["npu"]
    assert found.outputs is not None
    assert found.outputs.alone == found.outputs.answered == 60


def test_what_a_session_cannot_serve_is_said(
    model: str, plan: hetsim.Plan, platform: hetsim.Platform
) -> None:
    asked = workload(model, Poisson(300.0))
    session = hetsim.Session(plan, "threads")
    with session:
        with pytest.raises(WorkloadError, match="needs 'zoo:squeezenet', but the session has"):
            hetsim.serve(session, workload("zoo:squeezenet", Poisson(1.0)))
        lost = Workload(asked.streams, requests=3, failures=Failing((Failure("npu", 0.0, "kill"),)))
        with pytest.raises(UsageError, match="only simulated"):
            hetsim.serve(session, lost)
        with pytest.raises(UsageError, match="platform of a session"):
            hetsim.serve(session, asked, platform)
        with pytest.raises(UsageError, match="time_scale of a session"):
            hetsim.serve(session, asked, time_scale=2.0)
        urgent = hetsim.Stream("a", model, Poisson(1.0), priority=1)
        with pytest.raises(WorkloadError, match="priority"):
            hetsim.serve(session, Workload((urgent,), requests=3))
    with pytest.raises(UsageError, match="the session is closed"):
        hetsim.serve(session, asked)
    with pytest.raises(UsageError, match="needs a platform"):
        hetsim.serve(deployed(model), asked)
