"""What a trace counts is what the clock says: requests, what waits, memory, and power."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import problems
from hetsim.placement.planning import plan
from hetsim.problem.groups import Group
from hetsim.problem.plan import Plan
from hetsim.problem.problem import Problem
from hetsim.problem.timeline import Timeline
from hetsim.reporting.trace import trace_pieces
from hetsim.simulation.simulate import simulate
from hetsim.workload.failure import Failure
from oracles.trace_import import Imported, imported
from sweeps import examples

Values = list[tuple[int, float]]


def drawn(made: Plan, timeline: Timeline, arrivals_s: list[float]) -> Imported:
    found = imported("".join(trace_pieces(made, timeline, (), arrivals_s)))
    assert found.complaints == []
    return found


def counter(found: Imported, process: str, name: str) -> Values:
    pids = {name: pid for pid, name in found.processes.items()}
    return found.counters.get((pids[process], name), [])


def integral(values: Values, end_s: float) -> float:
    """Of what is counted, over seconds."""
    steps = [*values, (round(end_s * 1e9), 0.0)]
    return sum(value * (then - at) for (at, value), (then, _) in pairwise(steps)) / 1e9


@given(problems(), st.lists(st.floats(0, 3), min_size=1, max_size=4))
@examples(quick=10, full=300)
def test_counters_are_what_the_clock_says(problem: Problem, gaps_s: list[float]) -> None:
    problem = replace(
        problem,
        idle_w=tuple(1.0 + k for k in range(len(problem.devices))),
        busy_w=tuple(10.0 + k for k in range(len(problem.devices))),
    )
    made = plan(problem, "heft")
    arrivals_s = [sum(gaps_s[: k + 1]) for k in range(len(gaps_s))]
    timeline = simulate(made, arrivals_s=arrivals_s)
    found = drawn(made, timeline, arrivals_s)
    rounding = 1e-6 * (1 + len(timeline.events))

    requests = found.of("requests")
    assert [
        (one.name, one.start_ns) for one in sorted(requests, key=lambda r: r.args["request"])
    ] == [(f"request {k}", round(at_s * 1e9)) for k, at_s in enumerate(arrivals_s)]
    inside = counter(found, "requests", "requests under way")
    most = max((value for _, value in inside), default=0)
    assert integral(inside, timeline.makespan_s) == pytest.approx(
        sum(timeline.latencies_s), rel=1e-6, abs=rounding
    )
    assert most <= len(arrivals_s)
    joules = 0.0
    for device in problem.devices:
        index = problem.devices.index(device)
        process = f"device {device}"
        power = counter(found, process, "power W") or [(0, problem.idle_w[index])]
        joules += integral(power, timeline.makespan_s)
        assert all(value >= problem.idle_w[index] - 1e-9 for _, value in power)
        memory = counter(found, process, "memory bytes")
        held = max((value for _, value in memory), default=timeline.weight_bytes.get(device, 0))
        if timeline.peak_memory_bytes:
            assert held <= timeline.peak_memory_bytes[device]
            if memory:
                assert memory[0][1] >= timeline.weight_bytes[device]
        waits = counter(found, process, "waiting subgraphs")
        assert all(value >= 0 for _, value in waits)
        if waits:
            assert waits[-1][1] == 0
    assert joules == pytest.approx(timeline.energy_j, rel=1e-6, abs=rounding * 20)


def three_on_one(capacity: bool) -> tuple[Plan, list[float]]:
    """A request is one subgraph of a second, with an output of 8 bytes; three come at once."""
    problem = Problem.from_arrays(
        [[1.0, 9.0], [1.0, 9.0]],
        edges=[(0, 1, 8)],
        devices=("cpu", "gpu"),
        weight_bytes=[100, 20],
        host=0,
        **({"capacity_bytes": [1000, 1000]} if capacity else {}),
    )
    return Plan(problem, "by hand", (Group("cpu", (0,)), Group("cpu", (1,)))), [0.0, 0.0, 0.0]


def test_what_waits_is_what_could_start() -> None:
    made, arrivals_s = three_on_one(capacity=False)
    timeline = simulate(made, arrivals_s=arrivals_s)
    found = drawn(made, timeline, arrivals_s)
    waits = counter(found, "device cpu", "waiting subgraphs")
    ready = {}
    for event in timeline.events:
        before = [
            e.end_s for e in timeline.events if e.request == event.request and e.group < event.group
        ]
        ready[event] = max(before, default=0.0)
    for at, value in waits:
        now = at / 1e9
        assert value == sum(1 for event in timeline.events if ready[event] <= now < event.start_s)
    assert max(value for _, value in waits) == 2


def test_memory_reaches_its_peak() -> None:
    made, arrivals_s = three_on_one(capacity=True)
    timeline = simulate(made, arrivals_s=arrivals_s)
    memory = counter(drawn(made, timeline, arrivals_s), "device cpu", "memory bytes")
    assert memory[-1][1] == timeline.weight_bytes["cpu"] == 120
    assert max(value for _, value in memory) == timeline.peak_memory_bytes["cpu"]


@pytest.mark.parametrize("kind", ["kill", "hang"])
def test_what_fails_is_drawn_and_only_what_is_known_counted(kind: str) -> None:
    problem = Problem.from_arrays(
        [[1.0, 2.0], [2.0, 1.0], [1.0, 2.0]],
        edges=[(0, 1, 8), (1, 2, 8)],
        devices=("cpu", "gpu"),
        bytes_per_s=80.0,
        host=0,
    )
    made = Plan(problem, "by hand", (Group("cpu", (0,)), Group("gpu", (1,)), Group("cpu", (2,))))
    arrivals_s = [0.0, 0.5]
    fails = Failure("gpu", 1.5, kind, 0.7)  # type: ignore[arg-type]
    timeline = simulate(made, arrivals_s=arrivals_s, failures=[fails])
    found = drawn(made, timeline, arrivals_s)
    assert any(span.name == kind for span in found.of("device gpu"))
    assert counter(found, "requests", "requests under way")
    assert not counter(found, "device cpu", "waiting subgraphs")


def test_readers_complain_of_what_is_wrong() -> None:
    """The reader of these tests sees what it is there for."""
    named = (
        '{"ph":"M","name":"process_name","pid":1,"args":{"name":"p"}},'
        '{"ph":"M","name":"thread_name","pid":1,"tid":9,"args":{"name":"t"}},'
    )
    row = '"pid":1,"tid":9'
    for events, says in (
        (f'{{"ph":"X","name":"a",{row},"ts":0,"dur":-1}}', "duration"),
        (f'{{"ph":"X","name":"a",{row},"ts":0,"dur":5}},'
         f'{{"ph":"X","name":"b",{row},"ts":3,"dur":5}}', "reaches beyond"),
        (f'{{"ph":"X","name":"a",{row},"ts":3,"dur":5}},'
         f'{{"ph":"X","name":"b",{row},"ts":1,"dur":1}}', "earlier"),
        (f'{{"ph":"s","name":"a","id":1,{row},"ts":0}}', "outside any slice"),
        (f'{{"ph":"X","name":"a",{row},"ts":0,"dur":5}},'
         f'{{"ph":"s","name":"a","id":1,{row},"ts":1}}', "never ends"),
        (f'{{"ph":"X","name":"a",{row},"ts":0,"dur":5}},'
         f'{{"ph":"f","bp":"e","name":"a","id":1,{row},"ts":1}}', "never began"),
        ('{"ph":"C","name":"a","pid":1,"ts":0,"args":{}}', "without values"),
        ('{"ph":"C","name":"a","pid":1,"ts":0,"args":{"x":NaN}}', "not finite"),
        ('{"ph":"C","name":"a","pid":1,"ts":0,"args":{"x":"1"}}', "no number"),
        (f'{{"ph":"Z","name":"a",{row},"ts":0}}', "phase"),
        ('{"ph":"X","name":"a","pid":1,"tid":8,"ts":0,"dur":1}', "without a name"),
        ('{"ph":"M","name":"thread_name","pid":1,"tid":9,"args":{"name":"u"}}', "is taken"),
    ):  # fmt: skip
        found = imported(f'{{"traceEvents":[{named}{events}]}}')
        assert any(says in complaint for complaint in found.complaints), (says, found.complaints)
