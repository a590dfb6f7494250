"""Devices that are busy at once for long: what they draw, and that they are slower for it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hetsim
from builders import problems
from hetsim.analysis.sustained_speed import SustainedSpeed, overlaps, shares_something, steady
from hetsim.cost.kernels.formula import COLUMN
from hetsim.cost.kernels.networks import network_table
from hetsim.hardware.variants import at_bandwidth
from hetsim.placement.objective import bottleneck
from hetsim.problem.problem import Problem
from hetsim.problem.repriced import SLOWEST, RepricedModel, moved_bytes
from hetsim.simulation.power import slowdown
from sweeps import examples, sweep

UNITS = ("gpu", "dla")
MOVED = [COLUMN[name] for name in ("read_bytes", "write_bytes", "weight_bytes")]


def problem_of(
    network: str = "zoo:resnet18",
    platform: str = "jetson-agx-orin",
    *,
    bytes_per_s: float | None = None,
    power_w: float | None = None,
    cost: str = "fitted",
) -> hetsim.Problem:
    """A network in int8 on the units of one chip, whose memory is as stated, or given here."""
    found = hetsim.load_platform(platform)
    memories = found.memories
    if bytes_per_s is not None:
        memories = tuple(replace(memory, bytes_per_s=bytes_per_s) for memory in memories)
    found = replace(found, memories=memories, power_w=power_w)
    asked = dict.fromkeys(UNITS, "int8")
    return hetsim.Problem.of(hetsim.load_model(network), found, execute=asked, cost=cost)


def test_bytes_of_a_whole_network_are_those_of_its_kernels() -> None:
    problem = problem_of()
    assert problem.model is not None
    table = network_table(problem.model.graph)
    expected = float(table.counts @ table.at(1, 1)[:, MOVED].sum(axis=1))
    found = moved_bytes(problem, problem.device_index("gpu"), range(problem.n))
    assert found == pytest.approx(expected, rel=0.02)


@pytest.mark.parametrize("cost", ["fitted", "roofline"])
def test_less_bandwidth_is_slower_and_never_more_than_in_proportion(cost: str) -> None:
    problem = problem_of(cost=cost)
    priced = RepricedModel(problem, ("cpu", "gpu", "dla"))
    for device in range(len(problem.devices)):
        groups = [(tuple(range(problem.n)), 1)]
        times = np.geomspace(1.0, SLOWEST, 25)
        found = np.array([priced.slower(device, groups, float(x)) for x in times])
        assert found[0] == 1.0
        assert (np.diff(found) >= 0).all()
        assert (found <= times * (1 + 1e-12)).all()
        assert found[-1] > 1.2


def test_between_two_prices_the_line_is_no_lower_than_the_price() -> None:
    problem = problem_of()
    assert problem.platform is not None
    assert problem.model is not None
    gpu, nodes = problem.device_index("gpu"), tuple(range(problem.n))
    priced = RepricedModel(problem, ("gpu",))
    for times in (1.1, 1.7, 4.0, 7.0, 15.0):
        slow = at_bandwidth(problem.platform, ("gpu",), 1.0 / times)
        exact = hetsim.Problem.of(problem.model, slow).group_seconds(gpu, nodes)
        line = priced.slower(gpu, [(nodes, 1)], times) * problem.group_seconds(gpu, nodes)
        assert exact <= line * (1 + 1e-9)
        assert line == pytest.approx(exact, rel=0.05)


def test_a_device_alone_is_as_fast_as_it_was_measured() -> None:
    problem = problem_of(bytes_per_s=1e9)
    plan = hetsim.plan(problem, "single:gpu")
    sustaining = SustainedSpeed(problem)
    assert sustaining.of_stream(plan) is plan
    assert sustaining.of_requests(plan, [0.0] * 5) is plan


def test_a_memory_without_end_slows_nobody_down() -> None:
    problem = problem_of(bytes_per_s=1e18)
    plan = hetsim.plan(problem, "multi:gpu,dla")
    slower = SustainedSpeed(problem).of_stream(plan).problem.slower
    assert slower is None or max(slower.factors) < 1.0001


def test_units_leave_each_other_what_they_do_not_draw() -> None:
    """The fixed point, told anew: bandwidth that is left, and factors at it, agree."""
    problem = problem_of()
    plan = hetsim.plan(problem, "multi:gpu,dla")
    slower = SustainedSpeed(problem).of_stream(plan).problem.slower
    assert slower is not None
    assert problem.platform is not None
    (memory,) = problem.platform.memories
    most = memory.bytes_per_s * max(
        spec.memory_efficiency for spec in problem.platform.devices.values()
    )
    load_s, every_s = hetsim_loads(plan), bottleneck(plan)
    nodes = tuple(range(problem.n))
    priced = RepricedModel(problem, memory.devices)
    drawn = {}
    for name in UNITS:
        p = problem.device_index(name)
        rate = moved_bytes(problem, p, nodes) / problem.group_seconds(p, nodes)
        drawn[p] = rate / slower.memory[p]
    for p in drawn:
        others = 0.0
        for q, rate in drawn.items():
            streams = problem.streams[q]
            running = load_s[q] * streams / every_s
            others += rate * running * (1 - 1 / streams if p == q else 1.0)
        left = 1.0 - others / most
        assert slower.memory[p] == pytest.approx(
            priced.slower(p, [(nodes, 1)], 1.0 / left), rel=1e-4
        )
    assert slower.memory[problem.device_index("cpu")] == 1.0


def hetsim_loads(plan: hetsim.Plan) -> list[float]:
    """Seconds a request by device, over its streams, straight from the groups."""
    problem, found = plan.problem, [0.0] * len(plan.problem.devices)
    for replica, share in zip(plan.replicas, plan.shares, strict=True):
        for group in replica.groups:
            p = problem.devices.index(group.device)
            found[p] += share * problem.group_seconds(p, group.nodes)
    return [
        busy / width / len(plan.period) for busy, width in zip(found, problem.streams, strict=True)
    ]


def test_devices_that_take_turns_draw_nothing_of_each_other() -> None:
    problem = problem_on_laptop(None)
    model = problem.model
    assert model is not None
    late = [node.name for node in model.graph.nodes[-3:]]
    plan = hetsim.plan(
        problem, "hetero:gpu,cpu", affinity=hetsim.Affinity(pins=dict.fromkeys(late, "cpu"))
    )
    assert SustainedSpeed(problem).of_requests(plan) is plan


def problem_on_laptop(power_w: float | None) -> hetsim.Problem:
    found = replace(hetsim.load_platform("laptop"), power_w=power_w)
    return hetsim.Problem.of(hetsim.load_model("zoo:resnet18"), found)


def test_power_is_that_of_the_clock_alone_where_no_memory_is_stated() -> None:
    found = replace(hetsim.load_platform("laptop"), memories=())
    problem = hetsim.Problem.of(hetsim.load_model("zoo:resnet18"), found)
    plan = hetsim.plan(problem, "multi:cpu,gpu")
    slow = SustainedSpeed(problem).of_requests(plan, [0.0] * 40)
    burst = hetsim.simulate(plan, 40)
    assert slow.problem.slower is not None
    assert slow.problem.slower.power == pytest.approx(slowdown(plan, burst))
    assert hetsim.simulate(slow, 40).makespan_s == pytest.approx(
        hetsim.simulate(plan, 40, sustained=True).makespan_s
    )


@sweep("objective", quick=["latency"], full=["latency", "throughput"])
def test_a_comparison_judges_all_and_its_bound_holds(objective: str) -> None:
    problem = problem_on_laptop(20.0)
    names = ["single", "hetero", "heft", "multi:cpu,gpu,npu"]
    calm = hetsim.compare(problem, names, objective=objective, samples=8)
    long = hetsim.compare(problem, names, objective=objective, samples=8, sustained=True)
    assert long.sustained
    assert not calm.sustained
    assert long.bound_s == calm.bound_s
    costs = {row.strategy: row.cost_s for row in calm.rows}
    for row in long.rows:
        assert row.cost_s is not None
        assert row.cost_s >= costs[row.strategy] * (1 - 1e-12) or row.plan.deal != ()
        assert row.gap is not None
        assert row.gap >= 0
        assert row.sure is not None
        assert row.cost_s < row.sure.cost_s.high
        assert all(0 <= share <= 1 for share in long.busy(row).values())
    if objective == "throughput":
        multi = next(row for row in long.rows if row.strategy.startswith("multi"))
        assert multi.slower is not None
        assert multi.slower.power > 1
        assert multi.cost_s > costs[multi.strategy]
        # Its plan is of the problem that was asked, and can be kept.
        assert multi.plan.problem is problem


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        ("{devices: [cpu], bandwidth_gbytes_s: 34}", "2 or more entries"),
        ("{devices: [cpu, npuu], bandwidth_gbytes_s: 34}", "unknown device 'npuu'"),
        ("{devices: [cpu, cpu], bandwidth_gbytes_s: 34}", "already has a memory"),
        ("{devices: [cpu, npu], bandwidth_gbytes_s: 0}", "above 0"),
        ("{devices: [cpu, npu]}", "bandwidth_gbytes_s"),
        ("7", "mapping"),
    ],
)
def test_a_wrong_memory_is_refused_by_line(tmp_path, entry: str, says: str) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / "board.yaml"
    path.write_text(
        "host: cpu\ndevices: {cpu: rockchip-rk3588-cpu, npu: rockchip-rk3588-npu}\n"
        "links: [{between: [cpu, npu], latency_us: 20, bandwidth_gbytes_s: 3}]\n"
        f"memories:\n  - {entry}\n"
    )
    with pytest.raises(hetsim.errors.PlatformError, match=says) as caught:
        hetsim.load_platform(str(path))
    assert "board.yaml:5" in str(caught.value)


def test_every_memory_of_the_catalog_is_that_of_its_links() -> None:
    """Copies within a memory read and write it: links have half, before their efficiency."""
    from hetsim.hardware.catalog import platform_names

    found = [hetsim.load_platform(name) for name in platform_names()]
    shared = [one for one in found if any(link.bus == "memory" for link in one.links)]
    assert len(shared) >= 9
    for one in shared:
        (memory,) = one.memories
        assert set(memory.devices) == {end for link in one.links for end in (link.a, link.b)}
        for link in one.links:
            assert 0.25 * memory.bytes_per_s <= link.bytes_per_s <= 0.5 * memory.bytes_per_s


@examples(quick=20, full=200)
@given(problems(max_nodes=6), st.lists(st.integers(0, 12), min_size=1, max_size=5))
def test_tasks_beside_a_task_are_those_of_every_pair(problem: Problem, quarters: list[int]) -> None:
    arrivals_s = [quarter / 4 for quarter in sorted(quarters)]
    timeline = hetsim.simulate(hetsim.plan(problem, "hetero"), arrivals_s=arrivals_s)
    found = overlaps(problem, timeline)
    ran = [event for event in timeline.events if event.kind == "compute"]
    for p, name in enumerate(problem.devices):
        busy = sum(event.end_s - event.start_s for event in ran if event.device == name)
        for q, other in enumerate(problem.devices):
            together = sum(
                max(0.0, min(e.end_s, f.end_s) - max(e.start_s, f.start_s))
                for e in ran
                if e.device == name
                for f in ran
                if f.device == other and f is not e
            )
            assert found[p, q] == pytest.approx(together / busy if busy else 0.0, abs=1e-12)


def test_several_streams_of_a_device_are_beside_each_other() -> None:
    problem = Problem.from_arrays([[2.0, 9.0]], devices=("a", "b"), streams=[2, 1])
    plan = hetsim.plan(problem, "single:a")
    both = overlaps(problem, hetsim.simulate(plan, arrivals_s=(0.0, 1.0)))
    # From 1 to 2 both run: half of the time of each.
    assert both.tolist() == [[0.5, 0.0], [0.0, 0.0]]


def test_without_times_devices_are_beside_each_other_as_often_as_they_are_busy() -> None:
    found = steady(np.array([6.0, 2.0, 0.0]), 4.0, (2, 1, 3))
    # 1.5 of 2 streams, of which one is the task's own; another device's all count.
    assert found.tolist() == [[0.75, 0.5, 0.0], [1.5, 0.0, 0.0], [1.5, 0.5, 0.0]]
    assert not steady(np.zeros(2), 0.0, (1, 1)).any()


def test_a_platform_shares_what_it_states() -> None:
    read = hetsim.load_platform("laptop")
    assert not shares_something(None)
    for power_w, memories, shares in ((None, (), False), (9.0, (), True),
                                      (None, read.memories, True)):  # fmt: skip
        assert read.memories
        assert shares_something(replace(read, power_w=power_w, memories=memories)) == shares
