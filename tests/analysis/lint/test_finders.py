"""What each finder suspects of a plan made by hand: what it is of, what it costs, what it tries."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import hetsim
from builders import BOX
from hetsim.analysis.lint.finders import (
    borders_of,
    links,
    precision,
    refused,
    seconds_on,
    split,
    tiny,
    to_and_fro,
)
from hetsim.analysis.lint.lint import Finding, lint
from hetsim.analysis.lint.suspects import Asked, Change, Seen, Suspect, targets_of
from hetsim.analysis.what_if import faster_device
from hetsim.errors import UsageError
from hetsim.problem.groups import Group
from hetsim.problem.plan import Plan
from hetsim.problem.problem import Problem

INF = math.inf


def chain(seconds: list[list[float]], sizes: list[int], **more: Any) -> Problem:
    """Nodes one after another on devices a, b, c; a byte takes a second on each link."""
    edges = [(v, v + 1, nbytes) for v, nbytes in enumerate(sizes)]
    devices = tuple("abc"[: len(seconds[0])])
    return Problem.from_arrays(seconds, edges=edges, devices=devices, bytes_per_s=1.0, **more)


def seen(problem: Problem, *devices: str, device: str | None = None) -> Seen:
    """The plan that has each node by itself on these devices; none of these: no plan."""
    groups = tuple(Group(name, (v,)) for v, name in enumerate(devices))
    plan = Plan(problem, "by hand", groups) if groups else None
    return Seen(Asked(problem, "heft", "latency", {}), plan, targets_of(problem, device))


def found(finder: Callable[[Seen], Iterator[Suspect]], *asked: Any, **more: Any) -> list[Suspect]:
    return list(finder(seen(*asked, **more)))


def test_links_are_suspected_by_the_seconds_that_both_ways_take() -> None:
    problem = chain([[1.0] * 3] * 4, [2, 3, 5])
    first, second = found(links, problem, "a", "b", "a", "c")
    assert (first.device, first.cost_s, first.nodes) == ("a and b", 5.0, ())
    assert (second.device, second.cost_s) == ("a and c", 5.0)
    assert [change.wider for change in first.changes] == [("a>b", "b>a")]
    assert first.changes[0].say == "double the bandwidth of a>b, b>a"
    # The larger stand first; what takes no time is none.
    larger = found(links, chain([[1.0] * 3] * 4, [2, 3, 6]), "a", "b", "a", "c")
    assert [(one.device, one.cost_s) for one in larger] == [("a and c", 6.0), ("a and b", 5.0)]
    nothing = chain([[1.0] * 3] * 2, [0])
    assert found(links, nothing, "a", "b") == []
    assert found(links, problem, *"aaaa") == found(links, problem) == []


def test_a_plan_over_several_devices_is_suspected_of_all_that_it_moves() -> None:
    problem = chain([[1.0, 1.0], [1.0, 1.0], [1.0, INF]], [2, 3])
    (one,) = found(split, problem, "a", "b", "a")
    assert (one.cost_s, one.nodes, one.device) == (5.0, (0, 1, 2), "")
    assert one.what == "the plan is split over 2 devices"
    # All of it on each device that takes it.
    assert [change.pins for change in one.changes] == [(("n0", "a"), ("n1", "a"), ("n2", "a"))]
    assert found(split, problem, "a", "a", "a") == found(split, problem) == []
    # The host is one of them, of others that are alike the first.
    alike = Problem.from_arrays(
        [[1.0] * 3] * 2, edges=[(0, 1, 2)], devices=("a", "g.0", "g.1"), bytes_per_s=1.0, host=0
    )
    (one,) = found(split, alike, "g.0", "g.1")
    assert [dict(change.pins)["n0"] for change in one.changes] == ["a", "g.0"]


def test_a_subgraph_is_tiny_that_takes_longer_to_start_and_feed_than_to_run() -> None:
    """Beside others, and for a device next to it that takes it: the one of most seconds first."""
    problem = chain([[9.0] * 3, [4.0] * 3, [9.0] * 3], [1, 2])
    assert found(tiny, problem, "a", "b", "c") == []
    problem = chain([[9.0] * 3, [2.9] * 3, [9.0] * 3], [1, 2])
    (one,) = found(tiny, problem, "a", "b", "c")
    assert (one.device, one.nodes, one.cost_s) == ("b", (1,), 3.0)
    assert one.what == "g1 on b takes longer to start than to run"
    assert [change.pins for change in one.changes] == [(("n1", "c"),), (("n1", "a"),)]
    even = chain([[9.0] * 3, [3.0] * 3, [9.0] * 3], [1, 2])
    assert found(tiny, even, "a", "b", "c") == []
    # Starting it counts as well; one that nothing else takes is none, nor is a plan of one.
    slow = chain([[9.0] * 3, [4.0] * 3, [9.0] * 3], [1, 2], dispatch_s=[0.0, 1.5, 0.0])
    assert [suspect.cost_s for suspect in found(tiny, slow, "a", "b", "c")] == [4.5]
    alone = chain([[9.0] * 3, [INF, 1.0, INF], [9.0] * 3], [1, 2])
    assert found(tiny, alone, "a", "b", "c") == []
    single = Problem.from_arrays([[1.0, 1.0]], devices=("a", "b"), dispatch_s=9.0)
    assert found(tiny, single, "a") == []
    # What is read counts as what is written; equal ones go in the order of devices.
    for sizes, first in (([4, 3], "c"), ([3, 4], "a"), ([3, 3], "a")):
        near = chain([[9.0] * 3, [2.0] * 3, [9.0] * 3], sizes)
        (one,) = found(tiny, near, "c", "b", "a")
        assert dict(one.changes[0].pins)["n1"] == first
    same = chain([[9.0] * 3, [2.0] * 3, [9.0] * 3], [2, 2])
    (one,) = found(tiny, same, "c", "b", "a")
    assert [dict(change.pins)["n1"] for change in one.changes] == ["a", "c"]


def test_several_tiny_subgraphs_are_one_suspect_more() -> None:
    times = [[9.0] * 2, [1.0] * 2, [9.0] * 2, [2.0] * 2, [9.0] * 2]
    suspects = found(tiny, chain(times, [1, 1, 2, 2]), *"ababa")
    assert [(one.nodes, one.cost_s) for one in suspects] == [
        ((3,), 4.0), ((1,), 2.0), ((1, 3), 6.0),
    ]  # fmt: skip
    (change,) = suspects[-1].changes
    assert dict(change.pins) == {"n1": "a", "n3": "a"}
    assert suspects[-1].what == "2 subgraphs take longer to start than to run"
    # What nothing next to it takes is none of them.
    times[3] = [INF, 2.0]
    suspects = found(tiny, chain(times, [1, 1, 2, 2]), *"ababa")
    assert [one.nodes for one in suspects] == [(1,), (1,)]
    many = [[9.0] * 2 if v % 2 == 0 else [1.0] * 2 for v in range(21)]
    suspects = found(tiny, chain(many, [1] * 20), *("ab"[v % 2] for v in range(21)))
    assert len(suspects) == 8 + 1
    assert len(suspects[-1].nodes) == 10


def test_what_leaves_a_device_and_comes_back_is_suspected_of_both_ways() -> None:
    problem = chain([[1.0] * 3] * 3, [2, 3])
    (one,) = found(to_and_fro, problem, "a", "b", "a")
    assert (one.device, one.nodes, one.cost_s) == ("a and b", (1,), 5.0)
    assert one.what == "g1 goes from a to b and back"
    pinned, wide = one.changes
    assert (pinned.pins, wide.wider) == ((("n1", "a"),), ("a>b", "b>a"))
    assert found(to_and_fro, problem, "a", "b", "c") == []
    # One that the other device does not take is left where it is.
    lacking = chain([[1.0] * 2, [INF, 1.0], [1.0] * 2], [2, 3])
    (one,) = found(to_and_fro, lacking, "a", "b", "a")
    assert [change.pins for change in one.changes] == [()]
    # Several between the same two are one more, of those that can go back.
    several = found(to_and_fro, chain([[1.0] * 2] * 5, [1, 1, 2, 2]), *"ababa")
    assert several[-1].cost_s == 6.0
    assert several[-1].what == "2 subgraphs go from a to b and back"
    assert dict(several[-1].changes[0].pins) == {"n1": "a", "n3": "a"}


def test_what_a_device_refuses_is_suspected_by_op_and_in_all() -> None:
    problem = chain([[2.0, 1.0], [4.0, INF], [2.0, 1.0], [6.0, INF]], [1, 1, 1], host=0)
    suspects = found(refused, problem, "b", "a", "b", "a")
    (one,) = suspects
    assert (one.kind, one.device, one.nodes) == ("refused-other", "b", (1, 3))
    assert one.changes[0].takes == (("b", (1, 3)),)
    # On b they would take half, and nothing would move.
    moved = 1.0 + 1.0 + 1.0
    assert one.cost_s == pytest.approx((4.0 - 2.0) + (6.0 - 3.0) + moved)
    assert found(refused, problem)[0].cost_s is None
    assert found(refused, problem, "b", "a", "b", "a", device="a") == []
    whole = chain([[2.0, 1.0]] * 2, [1], host=0)
    assert found(refused, whole, "a", "b") == []


def test_borders_are_the_transfers_of_each_subgraph_by_their_ends() -> None:
    problem = Problem.from_arrays(
        [[4.0, 3.0]] * 3, tensors=[(-1, 5, (0,)), (0, 2, (1,)), (1, 3, (2,)), (2, 7, ())],
        devices=("a", "b"), bytes_per_s=1.0, host=0, dispatch_s=[0.5, 0.25],
    )  # fmt: skip
    (template,) = seen(problem, "b", "a", "b").templates
    first, middle, last = borders_of(problem, template)
    assert (first.reads, first.writes) == ({0: 5.0}, {0: 2.0})
    assert (first.reads_from, first.writes_to) == (frozenset(), frozenset({0}))
    assert (middle.reads, middle.writes, middle.moves_s) == ({1: 2.0}, {1: 3.0}, 5.0)
    assert (middle.reads_from, middle.writes_to) == ({1}, {1})
    assert (last.reads, last.writes) == ({0: 3.0}, {0: 7.0})
    assert (last.reads_from, last.writes_to) == ({0}, frozenset())
    assert [border.work_s for border in (first, middle, last)] == [3.0, 4.0, 3.0]
    assert [border.dispatch_s for border in (first, middle, last)] == [0.25, 0.5, 0.25]
    assert [border.group for border in (first, middle, last)] == [0, 1, 2]


def test_kernels_on_some_devices_at_other_prices_over_replicas_the_mean() -> None:
    problem = Problem.from_arrays([[1.0, 4.0]] * 2, edges=[(0, 1, 0)], devices=("a", "b"))
    twice = faster_device(problem, 1)
    whole = [Plan(problem, "s", (Group(name, (0, 1)),)) for name in "ab"]
    assert seconds_on(whole[1], {1}, problem) == 8.0
    assert seconds_on(whole[1], {1}, twice) == 4.0
    assert seconds_on(whole[1], {0}, twice) == 0.0
    dealt = Plan.dealt(whole, [0, 0, 0, 1], strategy="both")
    assert seconds_on(dealt, {0, 1}, problem) == (3 * 2.0 + 8.0) / 4
    assert seconds_on(dealt, {1}, twice) == 1.0
    # What cannot run there any more counts as it does.
    gone = Problem.from_arrays([[1.0, np.inf], [1.0, 4.0]], edges=[(0, 1, 0)], devices=("a", "b"))
    assert seconds_on(whole[1], {1}, gone) == 8.0


def test_those_are_looked_at_that_are_no_host_alike_ones_as_one() -> None:
    devices = ("cpu", "gpu.0", "gpu.1", "npu.0", "npu.1")
    problem = Problem.from_arrays([[1.0] * 5, [1.0, 1.0, 1.0, 1.0, INF]], devices=devices, host=0)

    def told(device: str | None) -> list[tuple[str, tuple[int, ...]]]:
        return [(one.name, one.devices) for one in targets_of(problem, device)]

    assert told(None) == [("gpu", (1, 2)), ("npu.0", (3,)), ("npu.1", (4,))]
    assert told("gpu") == [("gpu", (1, 2))]
    assert told("npu") == [("npu", (3, 4))]
    assert told("gpu.1") == [("gpu.1", (2,))]
    assert told("cpu") == [("cpu", (0,))]
    with pytest.raises(UsageError, match="no device 'dsp'"):
        targets_of(problem, "dsp")
    one = targets_of(Problem.from_arrays([[1.0]], devices=("cpu",), host=0), None)
    assert [(target.name, target.first) for target in one] == [("cpu", 0)]
    odd = Problem.from_arrays(
        [[1.0] * 4, [1.0, 1.0, INF, 1.0]], devices=("cpu", "g.0", "g.1", "g.2"), host=0
    )
    assert [(t.name, t.devices) for t in targets_of(odd, None)] == [
        ("g.0, g.2", (1, 3)), ("g.1", (2,)),
    ]  # fmt: skip


def finding(before_s: float | None, after_s: float) -> Finding:
    return Finding("k", "d", "w", (), (), None, Change("c"), before_s, after_s)


@pytest.mark.parametrize(
    ("before_s", "after_s", "gain_s", "gain"),
    [
        (4.0, 3.0, 1.0, 0.25), (4.0, 5.0, -1.0, -0.25), (4.0, 4.0, 0.0, 0.0),
        (4.0, INF, -INF, -INF), (None, 3.0, INF, 1.0), (None, INF, -INF, -INF),
        (0.0, 0.0, 0.0, 0.0), (0.0, 1.0, -1.0, 0.0), (4.0, 0.0, 4.0, 1.0),
    ],
)  # fmt: skip
def test_a_gain_is_what_a_change_saves_of_what_it_was(
    before_s: float | None, after_s: float, gain_s: float, gain: float
) -> None:
    one = finding(before_s, after_s)
    assert (one.gain_s, one.gain) == (gain_s, gain)


def test_findings_gain_the_least_that_is_asked_for_the_most_first() -> None:
    problem = chain([[4.0, 1.0], [4.0, INF], [4.0, 1.0]], [1, 1], host=0)
    every = lint(problem, least=0.0)
    assert every.before_s is not None
    gains = [one.gain for one in (*every.findings, *every.others)]
    assert gains == sorted(gains, reverse=True)
    assert all(one.gain > 1e-7 for one in every.findings)
    assert all(one.gain < 1e-6 for one in every.others)
    best = every.findings[0].gain
    assert lint(problem, least=best).findings[0].gain == best
    assert lint(problem, least=best + 1e-9).findings == ()
    # A change that several find is told once.
    changes = [one.change for one in (*every.findings, *every.others)]
    assert len(changes) == len(set(changes))


@pytest.fixture(scope="module")
def box() -> Problem:
    return Problem.of(hetsim.load_model("zoo:squeezenet"), hetsim.load_platform(str(BOX)))


def changed(box: Problem, name: str, **figures: Any) -> Problem:
    """The problem on the box where a device has other figures, priced as before."""
    platform = box.platform
    assert platform is not None
    devices = {**platform.devices, name: replace(platform.devices[name], **figures)}
    return replace(box, platform=replace(platform, devices=devices))


def precisions(problem: Problem, device: str) -> list[tuple[str, tuple[str, ...]]]:
    """What is said of a device, and what it is tried in."""
    return [
        (one.what, tuple(kind for change in one.changes for _, kind in change.execute))
        for one in found(precision, problem, device=device)
    ]


def test_a_device_is_tried_in_the_precisions_that_it_has_rates_for(box: Problem) -> None:
    assert precisions(box, "cpu") == [("cpu computes in float32", ("float16",))]
    assert precisions(box, "npu") == [("npu computes in float16", ("int8",))]
    rates = {"float32": 1e12, "float16": 2e12, "bfloat16": 2e12, "int8": 4e12, "int4": 8e12}
    every = changed(box, "npu", flops_per_s=rates)
    ((_, kinds),) = precisions(every, "npu")
    assert set(kinds) >= {"float32", "int8"}
    assert "float16" not in kinds
    # What computes no integers is tried in floats alone; what it executes in already is none.
    assert "int8" not in precisions(changed(every, "npu", quantized=frozenset()), "npu")[0][1]
    now = precisions(changed(every, "npu", executes="int8"), "npu")
    assert now[0][0] == "npu computes in int8"
    assert "int8" not in now[0][1]
    assert "float16" in now[0][1]
    one = changed(box, "npu", flops_per_s={"float16": 1e12})
    assert precisions(one, "npu") == []
    lacking = changed(box, "npu", flops_per_s={"int8": 1e12}, execution_dtype={})
    assert precisions(lacking, "npu") == [("npu has no rate for float32", ("int8",))]
    arrays = Problem.from_arrays([[1.0, 1.0]], devices=("cpu", "npu"))
    assert found(precision, arrays) == []


def test_a_precision_costs_what_the_plan_itself_would_take_less(box: Problem) -> None:
    plan = hetsim.plan(box, "hetero:npu,cpu")
    looked = Seen(Asked(box, "heft", "latency", {}), plan, targets_of(box, "npu"))
    (one,) = precision(looked)
    npu = box.device_index("npu")
    (change,) = one.changes
    there = looked.after(change)
    assert there is not None
    less = seconds_on(plan, {npu}, box) - seconds_on(plan, {npu}, there)
    assert one.cost_s == max(less, 0.0)
    mine = {v for group in plan.groups if group.device == "npu" for v in group.nodes}
    assert one.nodes == tuple(sorted(mine))
    assert looked.after(Change("odd", execute=(("npu", "nothing"),))) is None
