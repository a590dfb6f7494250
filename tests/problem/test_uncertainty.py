"""How far times may be off: what is common to devices, and the problem at the bad end."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hetsim
from full_problems import full_problems
from hetsim.analysis.what_if import faster_device, missing_ops, wider_link, with_nodes_on
from hetsim.hardware.catalog import platform_names
from hetsim.hardware.kernel_figures import weakest
from hetsim.problem.evidence import DATASHEET_SD, LINK_SD
from hetsim.problem.parts import Z80, Evidence, scaled, uncertainty_of
from hetsim.problem.problem import Problem
from sweeps import examples, sweep

FACTORS = np.array([2.0, 0.5, 3.0])


def test_z80_is_the_end_of_the_middle_80_percent() -> None:
    assert math.erf(Z80 / math.sqrt(2)) == pytest.approx(0.8, abs=1e-12)


def test_what_is_common_is_one_source_and_what_is_not_is_one_each() -> None:
    devices = [
        Evidence("cpu", "a", "fitted", 0.5, 0.3, kin="k"),
        Evidence("gpu.0", "b", "fitted", 0.5, 0.4, kin="k"),
        Evidence("gpu.1", "b", "fitted", 0.5, 0.4, kin="k"),
        Evidence("npu", "c", "prior", 0.2, 0.2, kin="other"),
    ]
    links = [Evidence("l0", "pcie", "estimate", 0.1), Evidence("l1", "wire", "estimate", 0.2)]
    weights = np.zeros((4, 4, 2))
    weights[0, 1] = weights[1, 0] = [1, 0]
    weights[0, 3] = [0.25, 0.75]
    known = uncertainty_of(devices, links, weights)
    assert known.sources == ("kin k", "device a", "device b", "kin other", "link pcie", "link wire")
    assert known.device_sd == pytest.approx([0.5, 0.5, 0.5, 0.2])
    covariance = known.devices @ known.devices.T
    assert covariance[0, 1] == pytest.approx(0.3 * 0.4)
    assert covariance[1, 2] == pytest.approx(0.5**2)
    assert covariance[0, 3] == 0
    assert (known.routes[0, 1] == known.routes[1, 0]).all()
    assert known.route_sd[0, 3] == pytest.approx(math.hypot(0.25 * 0.1, 0.75 * 0.2))


@examples(quick=15, full=300)
@given(full_problems(max_devices=3), st.data())
def test_a_scaled_problem_takes_as_much_longer(problem: Problem, data: st.DataObject) -> None:
    """Whatever a device does: kernels alone or joined, what is the least, starting, staging."""
    count = len(problem.devices)
    few = st.tuples(*[st.sampled_from((0.0, 0.5, 1.0)) for _ in problem.devices])
    least = data.draw(st.dictionaries(st.integers(0, problem.n - 1), few, max_size=2))
    problem = replace(problem, least_s=least)
    devices, routes = FACTORS[:count], np.arange(1.0, 1 + count**2).reshape(count, count)
    drawn = scaled(problem, devices, routes)
    nodes = sorted(data.draw(st.sets(st.integers(0, problem.n - 1), min_size=1)))
    assert (drawn.supported == problem.supported).all()
    assert (drawn.runnable == problem.runnable).all()
    for p in range(count):
        once = problem.group_seconds(p, nodes)
        assert drawn.group_seconds(p, nodes) == pytest.approx(once * devices[p])
        for known, then in (
            (problem.shared_seconds, drawn.shared_seconds),
            (problem.least_seconds, drawn.least_seconds),
        ):
            assert then[:, p] == pytest.approx(known[:, p] * devices[p])
        assert drawn.dispatch_s[p] == pytest.approx(problem.dispatch_s[p] * devices[p])
        for q in range(count):
            if p != q:
                took_s = problem.routes[p][q].seconds(7)
                assert drawn.routes[p][q].seconds(7) == pytest.approx(routes[p, q] * took_s)


@sweep("name", quick=platform_names()[::6], full=platform_names())
def test_every_device_and_link_says_how_far_it_may_be_off(name: str) -> None:
    problem = Problem.of(hetsim.load_model("zoo:squeezenet"), hetsim.load_platform(name))
    assert [each.name for each in problem.evidence] == list(problem.devices)
    assert problem.platform is not None
    assert [each.name for each in problem.link_evidence] == [
        link.name for link in problem.platform.links
    ]
    for each in (*problem.evidence, *problem.link_evidence):
        assert 0 < each.sd < 1.5
        assert 0 <= each.common <= each.sd
    known = problem.uncertainty
    assert known.device_sd == pytest.approx([each.sd for each in problem.evidence])
    for p, row in enumerate(problem.routes):
        for q, route in enumerate(row):
            assert (known.route_sd[p, q] > 0) == bool(route.links)
            back = problem.routes[q][p].links
            if sorted(back) == sorted(route.links):
                assert known.routes[p, q] == pytest.approx(known.routes[q, p])


def test_at_the_bad_end_each_time_is_at_the_end_of_its_own_interval() -> None:
    model, platform = hetsim.load_model("zoo:squeezenet"), hetsim.load_platform("laptop")
    problem = Problem.of(model, platform, cost="roofline")
    bad = Problem.of(model, platform, cost="roofline", pessimistic=True)
    assert bad.pessimistic
    assert not problem.pessimistic
    assert bad.at_bad_end() is bad
    assert bad.fingerprint == problem.at_bad_end().fingerprint != problem.fingerprint
    worse = math.exp(Z80 * DATASHEET_SD)
    for p in range(3):
        nodes = np.flatnonzero(problem.runnable[:, p]).tolist()
        expected = problem.group_seconds(p, nodes) * worse
        assert bad.group_seconds(p, nodes) == pytest.approx(expected)
    took_s = problem.routes[0][1].seconds(10**6)
    assert bad.routes[0][1].seconds(10**6) == pytest.approx(took_s * math.exp(Z80 * LINK_SD))


def test_arrays_are_exact_unless_they_say_how_far_they_are_off() -> None:
    exact = Problem.from_arrays([[1.0, 2.0]])
    assert exact.uncertainty.certain
    assert exact.at_bad_end().seconds.tolist() == [[1.0, 2.0]]
    vague = Problem.from_arrays([[1.0, 2.0]], sd=[0.0, 0.5])
    assert vague.uncertainty.sources == ("device d1",)
    worse = math.exp(Z80 * 0.5)
    assert vague.at_bad_end().seconds == pytest.approx(np.array([[1.0, 2.0 * worse]]))


def test_a_link_may_state_how_far_it_is_off(tmp_path: Path) -> None:
    text = """
host: cpu
devices: {cpu: intel-core-ultra-155h-cpu, npu: intel-core-ultra-155h-npu}
links:
  - {between: [cpu, npu], link: pcie4-x4, sd: 0.1}
"""
    (tmp_path / "own.yaml").write_text(text)
    platform = hetsim.load_platform(tmp_path / "own.yaml")
    problem = Problem.of(hetsim.load_model("zoo:squeezenet"), platform)
    (link,) = problem.link_evidence
    assert (link.name, link.of, link.sd) == ("cpu-npu", "pcie4-x4", 0.1)
    assert link.status == weakest(status for status, _ in platform.links[0].provenance.values())
    assert problem.uncertainty.route_sd[0, 1] == pytest.approx(0.1)


def test_what_ifs_are_judged_at_the_same_end() -> None:
    model, platform = hetsim.load_model("zoo:inception_v1"), hetsim.load_platform("rock-5b")
    problem = Problem.of(model, platform)
    for change in (
        lambda asked: wider_link(asked, "cpu-gpu"),
        lambda asked: faster_device(asked, 1),
        lambda asked: with_nodes_on(asked, (one := missing_ops(asked)[0]).device, one.nodes),
    ):
        first, second = change(problem.at_bad_end()), change(problem).at_bad_end()
        assert first.seconds == pytest.approx(second.seconds)
        for p, row in enumerate(first.routes):
            for q, route in enumerate(row):
                if p != q:
                    took_s = second.routes[p][q].seconds(10**6)
                    assert route.seconds(10**6) == pytest.approx(took_s)
