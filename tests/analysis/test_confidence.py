"""How sure an order is: against every plan played on every drawn problem, and closed forms."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given

import hetsim
from builders import problems
from hetsim.analysis.confidence import LEAST_SHARE, draw, normals, part_sd, spread
from hetsim.errors import InvalidInput, UsageError
from hetsim.problem.evidence import BY_KERNEL
from hetsim.problem.groups import Group
from hetsim.problem.parts import Z80, Evidence, scaled, uncertainty_of
from hetsim.problem.problem import Problem
from sweeps import examples

STRATEGIES = ("single", "heft", "chain-dp")


def test_two_devices_are_in_order_as_often_as_the_normal_distribution_says() -> None:
    problem = Problem.from_arrays([[1.0, 1.3]], devices=("a", "b"), sd=[0.3, 0.4])
    found = hetsim.compare(problem, ["single"], samples=4000)
    sure = {row.strategy: row.sure for row in found.rows}
    first, second = sure["single:a"], sure["single:b"]
    assert first is not None
    assert second is not None
    truth = NormalDist().cdf(np.log(1.3) / 0.5)
    assert first.best == pytest.approx(truth, abs=0.005)
    assert second.best == pytest.approx(1 - first.best)
    assert second.pays == pytest.approx(1 - first.best)
    assert first.cost_s.low == pytest.approx(np.exp(-Z80 * 0.3), rel=1e-3)
    assert first.cost_s.high == pytest.approx(np.exp(Z80 * 0.3), rel=1e-3)
    # E[max(0, X - Y)] of lognormals, by the formula for options (Margrabe).
    normal, s = NormalDist(), 0.5
    x, y = np.exp(0.3**2 / 2), 1.3 * np.exp(0.4**2 / 2)
    d = np.log(x / y) / s + s / 2
    regret = x * normal.cdf(d) - y * normal.cdf(d - s)
    assert first.regret_mean_s == pytest.approx(regret, rel=0.03)


@examples(quick=5, full=100)
@given(problems(max_nodes=6))
def test_what_is_common_to_all_leaves_the_order(problem: Problem) -> None:
    free = replace(problem, routes=tuple(
        tuple(replace(r, latency_s=0.0, bytes_per_s=np.inf) for r in row) for row in problem.routes
    ))  # fmt: skip
    common = replace(
        free,
        evidence=tuple(
            Evidence(name, name, "prior", 0.6, 0.6, kin="k") for name in problem.devices
        ),
    )
    found = hetsim.compare(common, STRATEGIES, samples=7)
    sures = [row.sure for row in found.rows if row.sure is not None]
    costs = [row.cost_s for row in found.rows if row.cost_s is not None]
    for sure, cost_s in zip(sures, costs, strict=True):
        assert sure.best == float(cost_s <= costs[0] * (1 + 1e-9))
        if costs[0] > 0:
            assert sure.regret_mean == pytest.approx(cost_s / costs[0] - 1, abs=1e-9)
    exact = hetsim.compare(free, STRATEGIES)
    assert [row.strategy for row in exact.rows] == [row.strategy for row in found.rows]


def test_nothing_is_drawn_of_what_is_exact_or_at_the_bad_end_or_not_asked() -> None:
    exact = Problem.from_arrays([[1.0, 2.0]])
    vague = Problem.from_arrays([[1.0, 2.0]], sd=0.5)
    for problem, draws in ((exact, 200), (vague.at_bad_end(), 200), (vague, 0)):
        found = hetsim.compare(problem, ["single"], samples=draws)
        assert found.draws == 0
        assert all(row.sure is None for row in found.rows)
        assert spread(found.rows[0].plan, samples=draws) is None  # type: ignore[arg-type]
    with pytest.raises((InvalidInput, UsageError), match="samples"):
        hetsim.compare(vague, ["single"], samples=-1)


def test_at_the_bad_end_all_are_judged_alike() -> None:
    problem = Problem.from_arrays([[1.0, 1.1], [2.0, 1.0]], edges=[(0, 1, 4)], sd=[0.1, 0.9])
    by_hand = scaled(problem, np.exp(Z80 * np.array([0.1, 0.9])), np.ones((2, 2)))
    found, expected = (hetsim.compare(p, STRATEGIES) for p in (problem.at_bad_end(), by_hand))
    assert [row.strategy for row in found.rows] == [row.strategy for row in expected.rows]
    assert [row.cost_s for row in found.rows] == [row.cost_s for row in expected.rows]
    assert found.bound_s == expected.bound_s
    plan = hetsim.plan(problem, "single:d1")
    assert hetsim.simulate(plan.at_bad_end()).latency_s == pytest.approx(2.1 * np.exp(Z80 * 0.9))


def test_an_interval_of_many_requests() -> None:
    problem = Problem.from_arrays([[2.0]], sd=0.3)
    plan = hetsim.plan(problem, "single:d0")
    found = spread(plan, [0.0, 0.0, 100.0])
    assert found is not None
    low, high = np.exp(-Z80 * 0.3), np.exp(Z80 * 0.3)
    assert found.latency_s.low == pytest.approx(8 / 3 * low, rel=1e-3)
    assert found.latency_s.high == pytest.approx(8 / 3 * high, rel=1e-3)
    assert found.makespan_s.high == pytest.approx(100 + 2 * high, rel=1e-3)


NONE = np.zeros((3, 3, 0))


@pytest.mark.parametrize("count", [2, 7, 200])
@pytest.mark.parametrize("sources", [1, 2, 5, 12])
def test_each_source_alone_is_as_even_as_it_can_be(count: int, sources: int) -> None:
    drawn = normals(count, sources, 3)
    quantiles = [NormalDist().inv_cdf((k + 0.5) / count) for k in range(count)]
    assert drawn.shape == (count, sources)
    for column in drawn.T:
        assert sorted(column) == quantiles


@pytest.mark.parametrize("sources", [2, 4, 8])
def test_sources_are_independent(sources: int) -> None:
    drawn = normals(2000, sources, 0)
    assert np.cov(drawn.T) == pytest.approx(np.eye(sources), abs=0.06)
    # How often one is larger than another, and two are large together.
    for a in range(sources):
        for b in range(a):
            assert (drawn[:, a] > drawn[:, b]).mean() == pytest.approx(0.5, abs=0.02)
            both = (drawn[:, a] > 1) & (drawn[:, b] > 1)
            assert both.mean() == pytest.approx(0.1587**2, abs=0.01)


def test_the_same_seed_gives_the_same_draws_and_another_gives_others() -> None:
    assert (normals(50, 3, 5) == normals(50, 3, 5)).all()
    assert not (normals(50, 3, 5) == normals(50, 3, 6)).all()


def test_what_is_one_thing_has_one_draw() -> None:
    devices = [
        Evidence("a", "x", "fitted", 0.4, 0.4, kin="k"),
        Evidence("b", "y", "fitted", 0.2, 0.2, kin="k"),
        Evidence("c", "z", "fitted", 0.3),
    ]
    found = draw(uncertainty_of(devices, (), NONE), 200, 0)
    assert found.devices[:, 0] == pytest.approx(found.devices[:, 1] ** 2)
    assert (found.routes == 1).all()
    logs = np.log(found.devices)
    assert logs.std(axis=0) == pytest.approx([0.4, 0.2, 0.3], rel=0.02)
    assert abs(np.corrcoef(logs[:, 0], logs[:, 2])[0, 1]) < 0.1


def test_80_percent_of_the_draws_are_within_the_interval() -> None:
    devices = [Evidence("a", "x", "fitted", 0.5, 0.3, kin="k")]
    found = draw(uncertainty_of(devices, (), np.zeros((1, 1, 0))), 2000, 0).devices[:, 0]
    end = np.exp(1.2815515655446004 * 0.5)
    assert ((found > 1 / end) & (found < end)).mean() == pytest.approx(0.8, abs=0.01)


@cache
def problem() -> hetsim.Problem:
    return hetsim.Problem.of(hetsim.load_model("zoo:resnet18"), hetsim.load_platform("laptop"))


def split_at(cut: int, first: str = "gpu", then: str = "npu") -> hetsim.Plan:
    """The nodes before a place on one device, the others on another."""
    asked = problem()
    nodes = range(asked.n)
    groups = (Group(first, tuple(nodes[:cut])), Group(then, tuple(nodes[cut:])))
    made = hetsim.Plan(asked, "split", tuple(group for group in groups if group.nodes))
    made.validate()
    return made


@pytest.mark.parametrize("device", ["cpu", "gpu", "npu"])
def test_the_interval_of_the_whole_is_that_of_its_device(device: str) -> None:
    asked = problem()
    plan = hetsim.plan(asked, f"single:{device}")
    assert not part_sd(plan).any()
    drawn = draw(asked.uncertainty, 200, 0)
    assert (drawn.of_devices(plan) == drawn.devices).all()
    assert (part_sd(hetsim.plan(asked, "multi:cpu,gpu")) == 0).all()


def test_a_part_is_as_much_less_sure_as_its_share_is_small() -> None:
    asked = problem()
    gpu = asked.device_index("gpu")
    whole_s = asked.group_seconds(gpu, range(asked.n)) - asked.dispatch_s[gpu]
    evidence = asked.evidence[gpu]
    of_kernels = evidence.by_kernel * evidence.sd**2
    assert 0 < of_kernels < BY_KERNEL * evidence.sd**2, "the error of one source is of the whole"
    for cut in range(1, asked.n):
        plan = split_at(cut)
        share = (asked.group_seconds(gpu, range(cut)) - asked.dispatch_s[gpu]) / whole_s
        share = min(max(share, LEAST_SHARE), 1.0)
        found = part_sd(plan)[gpu]
        assert found**2 == pytest.approx(of_kernels * (1 / share - 1), rel=1e-6, abs=1e-12)
    assert part_sd(split_at(5))[gpu] > part_sd(split_at(20))[gpu] > part_sd(split_at(40))[gpu] > 0


def test_draws_of_a_part_are_wider_by_that_and_those_of_devices_are_the_same() -> None:
    asked = problem()
    gpu, plan = asked.device_index("gpu"), split_at(12)
    drawn = draw(asked.uncertainty, 4000, 0)
    whole, part = (np.log(f[:, gpu]) for f in (drawn.devices, drawn.of_devices(plan)))
    expected = np.hypot(asked.evidence[gpu].sd, part_sd(plan)[gpu])
    assert part_sd(plan)[gpu] > 0.1 * asked.evidence[gpu].sd
    assert whole.std() == pytest.approx(asked.evidence[gpu].sd, rel=0.01)
    assert part.std() == pytest.approx(expected, rel=0.03)
    assert abs(np.corrcoef(part - whole, whole)[0, 1]) < 0.05


def test_what_is_given_as_arrays_has_one_factor_a_device() -> None:
    found = hetsim.Problem.from_arrays([[1.0, 2.0], [2.0, 1.0]], edges=[(0, 1, 8)], sd=0.3)
    plan = hetsim.plan(found, "heft")
    assert not part_sd(plan).any()
