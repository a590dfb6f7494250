"""What each finder suspects of a plan made by hand: what it is of, what it costs, what it tries."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

import hetsim
from builders import BOX
from hetsim.analysis.lint.finders import precision, round_trips, tiny
from hetsim.analysis.lint.suspects import LintInput, LintQuestion, Suspect, targets_of
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


def seen(problem: Problem, *devices: str, device: str | None = None) -> LintInput:
    """The plan that has each node by itself on these devices; none of these: no plan."""
    groups = tuple(Group(name, (v,)) for v, name in enumerate(devices))
    plan = Plan(problem, "by hand", groups) if groups else None
    return LintInput(
        LintQuestion(problem, "heft", "latency", {}), plan, targets_of(problem, device)
    )


def found(
    finder: Callable[[LintInput], Iterator[Suspect]], *asked: Any, **more: Any
) -> list[Suspect]:
    return list(finder(seen(*asked, **more)))


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


def test_what_leaves_a_device_and_comes_back_is_suspected_of_both_ways() -> None:
    problem = chain([[1.0] * 3] * 3, [2, 3])
    (one,) = found(round_trips, problem, "a", "b", "a")
    assert (one.device, one.nodes, one.cost_s) == ("a and b", (1,), 5.0)
    assert one.what == "g1 goes from a to b and back"
    pinned, wide = one.changes
    assert (pinned.pins, wide.wider) == ((("n1", "a"),), ("a>b", "b>a"))
    assert found(round_trips, problem, "a", "b", "c") == []
    # One that the other device does not take is left where it is.
    lacking = chain([[1.0] * 2, [INF, 1.0], [1.0] * 2], [2, 3])
    (one,) = found(round_trips, lacking, "a", "b", "a")
    assert [change.pins for change in one.changes] == [()]
    # Several between the same two are one more, of those that can go back.
    several = found(round_trips, chain([[1.0] * 2] * 5, [1, 1, 2, 2]), *"ababa")
    assert several[-1].cost_s == 6.0
    assert several[-1].what == "2 subgraphs go from a to b and back"
    assert dict(several[-1].changes[0].pins) == {"n1": "a", "n3": "a"}


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
