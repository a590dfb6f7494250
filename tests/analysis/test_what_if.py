"""Problems on better hardware: what is faster is as much faster, and all else as it was."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hetsim
from builders import BOX, problems
from hetsim.analysis.what_if import (
    Missing,
    WarmStart,
    faster_device,
    link_names,
    missing_ops,
    supposed_seconds,
    wider_link,
    with_nodes_on,
)
from hetsim.cost.prices import Prices
from hetsim.cost.registry import cost_model
from hetsim.errors import InvalidInput, UsageError
from hetsim.graph.work import graph_work
from hetsim.placement.objective import latency_of
from hetsim.problem.parts import Z80
from hetsim.problem.problem import Problem
from onnx_builders import if_model
from sweeps import examples

INF = math.inf


@examples(quick=30, full=300)
@given(
    st.lists(
        st.tuples(*[st.sampled_from((0.0, 1.0, 2.0, 5.0, INF))] * 3).filter(
            lambda row: min(row) < INF
        ),
        min_size=1,
        max_size=6,
    ),
    st.integers(0, 2),
)
def test_what_a_device_would_take_is_the_least_elsewhere_at_its_usual_ratio(
    seconds: list[tuple[float, ...]], device: int
) -> None:
    """The geometric mean over the nodes that both take in some time; 1 where there is none."""
    problem = Problem.from_arrays(seconds)
    least = [min(row[:device] + row[device + 1 :]) for row in seconds]
    logs = [
        math.log(row[device] / other)
        for row, other in zip(seconds, least, strict=True)
        if 0 < row[device] < INF and 0 < other < INF
    ]
    ratio = math.exp(sum(logs) / len(logs)) if logs else 1.0
    found = supposed_seconds(problem, device, range(problem.n))
    assert found == pytest.approx([other * ratio for other in least])
    assert supposed_seconds(problem, device, []) == []


def test_nodes_that_are_taken_have_these_times_and_no_refusal() -> None:
    problem = Problem.from_arrays(
        [[4.0, 2.0], [INF, 3.0], [6.0, INF], [INF, 5.0], [8.0, INF]], devices=("a", "b")
    )
    assert [sorted(of_device) for of_device in problem.refusals] == [[1, 3], [2, 4]]
    found = with_nodes_on(problem, 0, (1, 3))
    assert found.seconds.tolist() == [[4, 2], [6, 3], [6, INF], [10, 5], [8, INF]]
    assert [sorted(of_device) for of_device in found.refusals] == [[], [2, 4]]
    one = with_nodes_on(problem, 1, (4,))
    assert one.seconds[:, 1].tolist() == [2, 3, INF, 5, 4]
    assert [sorted(of_device) for of_device in one.refusals] == [[1, 3], [2]]
    assert problem.seconds[1, 0] == INF
    bare = with_nodes_on(replace(problem, refusals=()), 0, (1,))
    assert (bare.refusals, bare.seconds[1, 0]) == ((), 6.0)


def test_what_nothing_is_known_of_stays_and_what_follows_it_is_taken() -> None:
    problem = Problem.from_arrays([[1.0, 1.0]] * 3)
    seconds = np.array([[INF, INF], [2.0, INF], [INF, INF]])
    nowhere = replace(problem, seconds=seconds)
    found = with_nodes_on(nowhere, 1, (0, 1, 2))
    assert found.seconds.tolist() == [[INF, INF], [2.0, 2.0], [INF, INF]]


def test_ops_that_are_lacking_are_told_by_device_and_op() -> None:
    problem = Problem.from_arrays([[1, INF], [INF, 1], [1, INF], [1, INF], [1, 1]])
    problem = replace(problem, op_types=("B", "A", "A", "B", "C"))
    assert missing_ops(problem) == (
        Missing(0, "A", (1,)), Missing(1, "A", (2,)), Missing(1, "B", (0, 3)),
    )  # fmt: skip
    assert missing_ops(with_nodes_on(problem, 1, (0, 3)))[-1] == Missing(1, "A", (2,))
    for nodes, device in (((5,), 2), ((5,), -1), ((-1,), 0)):
        with pytest.raises(InvalidInput):
            with_nodes_on(problem, device, nodes)


def test_a_faster_device_is_so_with_all_that_it_runs_and_nothing_else() -> None:
    problem = Problem.from_arrays(
        [[4.0, 2.0], [8.0, 6.0]], edges=[(0, 1, 8)], dispatch_s=0.5, streams=[1, 2],
        composites=[(0, (0, 1), 10.0), (1, (0, 1), 7.0)],
    )  # fmt: skip
    problem = replace(problem, least_s={1: (2.0, 3.0)})
    found = faster_device(problem, 1, 4.0)
    assert found.seconds.tolist() == [[4.0, 0.5], [8.0, 1.5]]
    assert {(one.device, one.seconds) for one in found.fused} == {(0, 10.0), (1, 1.75)}
    assert found.least_s == {1: (2.0, 0.75)}
    assert (found.dispatch_s, found.routes) == (problem.dispatch_s, problem.routes)
    assert faster_device(problem, 0).seconds[:, 0].tolist() == [2.0, 4.0]
    for device in (-1, 2):
        with pytest.raises(InvalidInput):
            faster_device(problem, device)
    with pytest.raises(InvalidInput):
        faster_device(problem, 0, 0.0)


def test_a_wider_link_widens_the_routes_that_hold_it() -> None:
    problem = Problem.from_arrays([[1.0, 1.0, 1.0]], bytes_per_s=8.0, contention="fifo")
    assert link_names(problem) == problem.link_names
    name = problem.link_names[1]
    found = wider_link(problem, name, 3.0)
    for row, wider in zip(problem.routes, found.routes, strict=True):
        for route, after in zip(row, wider, strict=True):
            times = 3.0 if 1 in route.resources else 1.0
            assert after == replace(route, bytes_per_s=route.bytes_per_s * times)
    with pytest.raises(UsageError, match="no link 'nothing'"):
        wider_link(problem, "nothing")
    with pytest.raises(InvalidInput):
        wider_link(problem, name, 0.0)


@pytest.fixture(scope="module")
def squeezenet() -> hetsim.Model:
    return hetsim.load_model("zoo:squeezenet")


@pytest.mark.parametrize("pessimistic", [False, True])
def test_on_a_platform_the_cost_model_says_what_a_node_would_take(
    squeezenet: hetsim.Model, pessimistic: bool
) -> None:
    """By all that the device takes; at the bad end where all is judged at that."""
    platform = hetsim.load_platform(str(BOX))
    problem = Problem.of(squeezenet, platform, pessimistic=pessimistic)
    graph = squeezenet.graph
    works = graph_work(graph)
    for device, name in enumerate(problem.devices):
        by = cost_model(problem.cost)
        likely = problem.evidence[device].likely
        prices = Prices(platform.devices[name], by.of_works(works, likely))  # type: ignore[attr-defined]
        worse = math.exp(Z80 * problem.evidence[device].sd) if pessimistic else 1.0
        nodes = [0, 3]
        expected = [worse * prices.node(graph, graph.nodes[v])[0] for v in nodes]
        assert supposed_seconds(problem, device, nodes) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("pessimistic", [False, True])
def test_a_wider_link_of_a_platform_is_that_of_the_platform_changed(
    squeezenet: hetsim.Model, pessimistic: bool
) -> None:
    platform = hetsim.load_platform(str(BOX))
    problem = Problem.of(squeezenet, platform, pessimistic=pessimistic)
    for link in platform.links:
        found = wider_link(problem, link.name)
        on = hetsim.what_if(platform, f"link {link.name}.bandwidth x2")
        expected = Problem.of(squeezenet, on, pessimistic=pessimistic)
        for row, other in zip(found.routes, expected.routes, strict=True):
            for route, after in zip(row, other, strict=True):
                assert route.bytes_per_s == pytest.approx(after.bytes_per_s)
                assert route.latency_s == pytest.approx(after.latency_s)
        # The platform stays as it was read: it is not what is asked anew.
        assert found.platform == platform
        assert found.link_names == expected.link_names


def test_of_what_data_decide_the_most_is_supposed() -> None:
    model = hetsim.model_of(if_model())
    platform = hetsim.load_platform(str(BOX))
    problem = Problem.of(model, platform, cost="roofline")
    (node,) = (v for v in range(problem.n) if v in problem.least_s)
    for device, name in enumerate(problem.devices):
        prices = Prices(platform.devices[name], cost_model("roofline"))
        most, least = prices.node(model.graph, model.graph.nodes[node])
        assert most > least
        assert supposed_seconds(problem, device, [node]) == [most]


@examples(quick=7, full=200)
@given(problems(), st.floats(1.0, 4.0), st.booleans())
def test_a_search_from_the_plan_there_is_counts_what_a_change_gains_alone(
    problem: Problem, factor: float, limited: bool
) -> None:
    plan = hetsim.plan(problem, "single")
    if limited:
        plan = replace(plan, options={"max_devices": "1"})
    cost_s = latency_of(plan)
    search = WarmStart.of(plan, cost_s)
    if search is None:
        return  # Of no time, or of none that the search leaves.
    assert search.usual <= 1.0
    assert search.cost_s(problem, cost_s) == pytest.approx(cost_s)
    faster = faster_device(problem, problem.devices.index(plan.devices_used[0]), factor)
    kept_s = latency_of(replace(plan, problem=faster))
    assert search.cost_s(faster, kept_s) <= kept_s / search.usual * (1 + 1e-12)
    if limited:
        open_to = search.coarse.fine.runnable.any(axis=0)
        assert [problem.devices[p] for p in np.flatnonzero(open_to)] == list(plan.devices_used)
