"""What ``explain`` names is what the clock says, and every change it offers holds."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings

import hetsim
from builders import problems
from hetsim.analysis import explanation
from hetsim.analysis.comparison import compare
from hetsim.analysis.explanation import explain
from hetsim.analysis.what_if import faster_device, link_names, missing_ops, wider_link, with_op
from hetsim.errors import UsageError
from hetsim.partitioning.groups import Group
from hetsim.plans.plan import Plan
from hetsim.problem.problem import Problem


def two_devices(*, nbytes: int = 8) -> Problem:
    """The second op runs on the host alone, where it is slow: the tensor must go back."""
    problem = Problem.from_arrays(
        [[4.0, 1.0], [6.0, np.inf], [4.0, 1.0]],
        tensors=[(0, nbytes, (1,)), (1, 8, (2,))],
        devices=("cpu", "npu"),
        bytes_per_s=8.0,
        contention="fifo",
    )
    return replace(problem, op_types=("Conv", "Softmax", "Conv"))


def test_the_path_and_its_shares() -> None:
    problem = two_devices()
    groups = (Group("npu", (0,)), Group("cpu", (1,)), Group("npu", (2,)))
    found = explain(Plan(problem, "hetero", groups))
    assert [(step.where, step.seconds) for step in found.path] == [
        ("npu", 1.0), ("npu>cpu", 1.0), ("cpu", 6.0), ("cpu>npu", 1.0), ("npu", 1.0)
    ]  # fmt: skip
    assert found.cost_s == 10.0 == sum(found.shares.values())
    assert found.limited_by == "cpu"
    assert dict(found.shares) == {"cpu": 6.0, "npu": 2.0, "npu>cpu": 1.0, "cpu>npu": 1.0}
    best = found.changes[0]
    # Softmax on the npu: the least time elsewhere, 6 s, at the npu's usual quarter.
    assert (best.kind, best.cost_s) == ("op", 1.0 + 1.5 + 1.0)
    assert best.what == "npu: support for Softmax (1 node)"
    assert best.gain == pytest.approx(0.65)
    assert len(found.changes) == 3


def test_throughput_is_limited_by_the_largest_load() -> None:
    problem = two_devices(nbytes=56)
    groups = (Group("npu", (0,)), Group("cpu", (1,)), Group("npu", (2,)))
    found = explain(Plan(problem, "hetero", groups), objective="throughput")
    assert found.cost_s == 7.0
    assert found.limited_by == "npu>cpu"
    assert found.bound_s == pytest.approx(6.0)


def test_shares_of_many_requests_are_over_the_streams_of_a_device() -> None:
    # 12 s a request on three streams are 4 s; one stream of the other device takes 5 s.
    problem = Problem.from_arrays(
        [[12.0, np.inf], [np.inf, 5.0]],
        edges=[(0, 1, 8)],
        devices=("cpu", "npu"),
        bytes_per_s=8.0,
        contention="fifo",
        streams=[3, 1],
    )
    plan = Plan(problem, "hetero", (Group("cpu", (0,)), Group("npu", (1,))))
    found = explain(plan, objective="throughput")
    assert list(found.shares.items()) == [("npu", 5.0), ("cpu", 4.0), ("cpu>npu", 1.0)]
    assert found.cost_s == 5.0
    assert found.limited_by == "npu"
    # As many requests show: a device does them at its share each, and the largest paces all.
    long = hetsim.simulate(plan, 60)
    assert long.makespan_s == 12.0 + 1.0 + 5.0 * 60
    busy = {name: share / found.cost_s for name, share in found.shares.items()}
    for name, share in long.device_utilization.items():
        assert share * long.makespan_s / 60 == pytest.approx(busy[name] * 5.0)


@settings(max_examples=25, deadline=None)
@given(problems(max_nodes=7))
def test_every_change_saves_and_the_path_is_gapless(problem: Problem) -> None:
    plan = hetsim.plan(problem, "hetero")
    found = explain(plan)
    assert found.cost_s == hetsim.simulate(plan).latency_s
    assert found.bound_s <= found.cost_s
    assert len(found.changes) <= 3
    assert sum(step.seconds for step in found.path) == pytest.approx(found.cost_s)
    assert all(0 < change.gain <= 1 and change.cost_s < found.cost_s for change in found.changes)
    costs = [change.cost_s for change in found.changes]
    assert costs == sorted(costs)
    for change in found.changes:
        if change.kind == "link":
            name = change.what.removeprefix("link ").partition(":")[0]
            assert name in link_names(problem)


def test_a_dear_strategy_plans_for_what_promises_most(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of four devices all but one are idle: two alike, and one too slow to matter."""
    problem = Problem.from_arrays(
        [[8.0, 2.0, 2.0, 90.0]] * 4,
        edges=[(v, v + 1, 8) for v in range(3)],
        devices=("cpu", "gpu.0", "gpu.1", "dsp"),
        bytes_per_s=8.0,
        contention="fifo",
    )
    plan = hetsim.plan(problem, "auto")
    asked: list[Problem] = []

    def counted(made: Plan, changed: Problem) -> Plan:
        asked.append(changed)
        return hetsim.plan(changed, made.strategy)

    monkeypatch.setattr(explanation, "again", counted)
    told: list[str] = []
    found = explain(plan, tell=told.append)
    assert len(asked) == explanation.AGAIN
    best = found.changes[0]
    (used,) = plan.devices_used
    assert (best.what, best.cost_s) == (f"{used}: kernels twice as fast", 4.0)
    # The one whose change helps is among those asked; of alike devices one is tried.
    assert any((changed.seconds[:, problem.devices.index(used)] == 1.0).all() for changed in asked)
    assert sum("gpu." in text and "kernels" in text and "by auto" not in text for text in told) == 1
    total = int(told[0].split()[2].rstrip(":"))
    assert [text.partition(":")[0] for text in told] == [
        f"{at} of {total}" for at in range(1, total + 1)
    ]
    assert found.tried == total - explanation.AGAIN


def test_changed_hardware_is_what_it_says() -> None:
    problem = two_devices()
    wide = wider_link(problem, "cpu>npu")
    assert wide.routes[0][1].bytes_per_s == 16.0
    assert wide.routes[1][0].bytes_per_s == 8.0
    with pytest.raises(UsageError, match="did you mean 'cpu>npu'"):
        wider_link(problem, "cpu>np")
    assert faster_device(problem, 0).seconds[:, 0].tolist() == [2.0, 3.0, 2.0]
    (lacking,) = missing_ops(problem)
    assert (lacking.device, lacking.op, lacking.nodes) == (1, "Softmax", (1,))
    assert with_op(problem, lacking).seconds[1, 1] == 1.5
    assert missing_ops(with_op(problem, lacking)) == ()


@pytest.fixture(scope="module")
def laptop() -> Problem:
    return Problem.of(hetsim.load_model("zoo:squeezenet"), hetsim.load_platform("laptop"))


def test_on_a_platform_links_go_by_their_names_and_ops_get_estimates(laptop: Problem) -> None:
    platform = laptop.platform
    assert platform is not None
    assert link_names(laptop) == tuple(link.name for link in platform.links)
    name = platform.links[0].name
    wide = wider_link(laptop, name)
    before = [route.bytes_per_s for row in laptop.routes for route in row]
    after = [route.bytes_per_s for row in wide.routes for route in row]
    assert all(a >= b for a, b in zip(after, before, strict=True))
    assert after != before
    for missing in missing_ops(laptop):
        held = with_op(laptop, missing)
        assert np.isfinite(held.seconds[list(missing.nodes), missing.device]).all()


def test_throughput_rows_are_sorted_by_seconds_a_request() -> None:
    problem = Problem.from_arrays(
        [[2.0, 2.0]] * 6, edges=[(v, v + 1, 1) for v in range(5)], bytes_per_s=1.0
    )
    latency = compare(problem, ["single", "slice"])
    assert latency.rows[0].strategy == "single:d0"
    found = compare(problem, ["single", "slice", "chain-dp"], objective="throughput")
    assert found.rows[0].strategy in ("slice", "chain-dp")
    assert found.rows[0].cost_s == 6.0
    assert found.bound_s == pytest.approx(6.0)
    assert found.ceiling == pytest.approx(2.0)
    assert found.single_s == {"d0": 12.0, "d1": 12.0}
    # A strategy that takes an objective plans for it.
    assert {row.cost_s for row in found.rows if row.strategy == "chain-dp"} == {6.0}
    with pytest.raises(UsageError, match="did you mean 'latency'"):
        compare(problem, ["single"], objective="latncy")  # type: ignore[arg-type]


def test_replicas_are_explained_by_their_deal() -> None:
    problem = hetsim.Problem.from_arrays([[1.0, 3.0]], devices=("a", "b"))
    plan = hetsim.plan(problem, "multi")
    assert plan.shares == (3, 1)
    found = hetsim.explain(plan, objective="throughput")
    assert found.cost_s == pytest.approx(0.75)
    assert found.shares == pytest.approx({"a": 0.75, "b": 0.75})
    assert found.bound_s <= found.cost_s
    assert found.changes
    assert all(change.cost_s < found.cost_s for change in found.changes)
