"""Parts of a model are less sure than the whole, which is as sure as it was."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

import hetsim
from hetsim.analysis.sureness import LEAST_SHARE, costs_over, draw, part_sd, spread
from hetsim.partitioning.groups import Group
from hetsim.problem.evidence_of_platform import BY_KERNEL


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
    sd = asked.evidence[gpu].sd
    for cut in range(1, asked.n):
        plan = split_at(cut)
        share = (asked.group_seconds(gpu, range(cut)) - asked.dispatch_s[gpu]) / whole_s
        share = min(max(share, LEAST_SHARE), 1.0)
        found = part_sd(plan)[gpu]
        assert found**2 == pytest.approx(BY_KERNEL * sd**2 * (1 / share - 1), rel=1e-6, abs=1e-12)
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


def test_the_interval_of_a_split_is_wider_than_with_one_factor_a_device() -> None:
    plan = split_at(12)
    asked = plan.problem
    blunt = replace(asked, evidence=tuple(replace(one, by_kernel=0.0) for one in asked.evidence))
    wide, narrow = spread(plan), spread(replace(plan, problem=blunt))
    assert wide is not None
    assert narrow is not None
    assert wide.latency_s.high / wide.latency_s.low > narrow.latency_s.high / narrow.latency_s.low
    drawn = draw(asked.uncertainty, 200, 0)
    costs = costs_over(plan, drawn, "latency")
    assert (np.quantile(costs, 0.9) - np.quantile(costs, 0.1)) > 0


def test_replicas_are_as_sure_as_the_parts_that_they_are() -> None:
    asked = problem()
    whole, halves = hetsim.plan(asked, "single:gpu"), split_at(12)
    gpu = asked.device_index("gpu")
    dealt = hetsim.Plan.dealt([whole, halves], [0, 1], strategy="both")
    assert 0 < part_sd(dealt)[gpu] < part_sd(halves)[gpu]


def test_what_is_given_as_arrays_has_one_factor_a_device() -> None:
    found = hetsim.Problem.from_arrays([[1.0, 2.0], [2.0, 1.0]], edges=[(0, 1, 8)], sd=0.3)
    plan = hetsim.plan(found, "heft")
    assert not part_sd(plan).any()
