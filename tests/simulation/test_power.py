"""Devices that are busy at once within what their platform may draw."""

from __future__ import annotations

from dataclasses import replace

import pytest

import hetsim
from hetsim.hardware.spec import Platform
from hetsim.simulation.power import slowdown, within_power

MODEL = "zoo:resnet18"


def problem_at(power_w: float | None, idle_w: float = 0.0) -> hetsim.Problem:
    """A network on two devices that draw 20 W and 10 W when busy."""
    laptop = hetsim.load_platform("laptop")
    devices = {
        name: replace(laptop.devices[name], idle_w=idle_w, busy_w=busy)
        for name, busy in (("cpu", 20.0), ("gpu", 10.0))
    }
    links = tuple(link for link in laptop.links if {link.a, link.b} == {"cpu", "gpu"})
    platform = Platform("two", devices, links, "cpu", "two", "0" * 64, power_w)
    return hetsim.Problem.of(hetsim.load_model(MODEL), platform, cost="roofline")


def test_a_device_alone_keeps_the_speed_that_it_was_measured_at() -> None:
    for power_w in (5.0, 20.0):
        plan = hetsim.plan(problem_at(power_w), "single:cpu")
        calm, long = hetsim.simulate(plan, 5), hetsim.simulate(plan, 5, sustained=True)
        assert long.makespan_s == calm.makespan_s


@pytest.mark.parametrize("power_w", [None, 30.0, 1000.0])
def test_enough_power_changes_nothing(power_w: float | None) -> None:
    plan = hetsim.plan(problem_at(power_w), "multi:cpu,gpu")
    assert within_power(plan, hetsim.simulate(plan, 40)) is plan


def test_what_is_drawn_beyond_the_limit_slows_down_by_its_third_root() -> None:
    plan = hetsim.plan(problem_at(20.0), "multi:cpu,gpu")
    calm = hetsim.simulate(plan, 40)
    drawn = 20 * calm.device_utilization["cpu"] + 10 * calm.device_utilization["gpu"]
    assert drawn > 20
    factor = slowdown(plan, calm)
    assert factor == pytest.approx((drawn / 20) ** (1 / 3))
    slower = within_power(plan, calm).problem
    assert slower.seconds == pytest.approx(plan.problem.seconds * factor)
    assert slower.routes == plan.problem.routes
    long = hetsim.simulate(plan, 40, sustained=True)
    # Devices work together here: links, whose speed is kept, are seldom waited for.
    assert calm.makespan_s < long.makespan_s <= calm.makespan_s * factor * (1 + 1e-9)
    hetsim.check_timeline(slower, within_power(plan, calm), long)


def test_devices_that_take_turns_draw_their_mean() -> None:
    """One request through both: while one computes the other idles."""
    plan = hetsim.plan(problem_at(20.0, idle_w=0.0), "hetero:gpu,cpu", affinity=_halves())
    calm = hetsim.simulate(plan)
    assert 0 < calm.device_utilization["cpu"] < 1
    assert hetsim.simulate(plan, sustained=True).latency_s == calm.latency_s


def _halves() -> hetsim.Affinity:
    """The pooling at the end on the cpu."""
    model = hetsim.load_model(MODEL)
    late = [node.name for node in model.graph.nodes[-3:]]
    return hetsim.Affinity(pins=dict.fromkeys(late, "cpu"))


def test_a_platform_file_may_state_it(tmp_path) -> None:  # type: ignore[no-untyped-def]
    text = "host: cpu\npower_w: 28\ndevices: {cpu: intel-core-i7-1185g7-cpu}\n"
    path = tmp_path / "one.yaml"
    path.write_text(text)
    stated = hetsim.load_platform(str(path))
    assert stated.power_w == 28
    path.write_text(text.replace("power_w: 28\n", ""))
    assert hetsim.load_platform(str(path)).power_w is None
    assert hetsim.load_platform(str(path)).sha256 != stated.sha256
    path.write_text(text.replace("28", "0"))
    with pytest.raises(hetsim.HetsimError, match="power_w"):
        hetsim.load_platform(str(path))
