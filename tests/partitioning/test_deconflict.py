"""De-conflict: priority texts, pins, composites that win or are dropped, clear refusals."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import hetsim
from hetsim.errors import UnsupportedNode, UsageError
from hetsim.partitioning.deconflict import device_order, resolve
from hetsim.partitioning.regions import Region, annotate
from hetsim.partitioning.sizes import SizeRules
from hetsim.problem.problem import Problem
from hetsim.problem.validator import check
from sweeps import examples

INF = float("inf")


def chain(
    seconds: list[list[float]], composites: Any = (), devices: Any = ("npu", "gpu", "cpu")
) -> Problem:
    return Problem.from_arrays(
        seconds,
        [(v, v + 1, 4) for v in range(len(seconds) - 1)],
        devices=devices,
        host=len(devices) - 1,
        composites=composites,
    )


@pytest.mark.parametrize(
    ("text", "order"),
    [
        ("gpu >> npu >> cpu", (1, 0, 2)),
        ("cpu,npu", (2, 0)),
        (("gpu",), (1,)),
        (None, (0, 1, 2)),
    ],
)
def test_priority_in_every_form(text: Any, order: tuple[int, ...]) -> None:
    assert device_order(chain([[1.0, 1.0, 1.0]]), text) == order


@pytest.mark.parametrize("text", ["", "npu >> ", "npu,,cpu", "npu,npu", (), "tpu", "by-memory"])
def test_priority_that_makes_no_sense(text: Any) -> None:
    with pytest.raises(UsageError):
        device_order(chain([[1.0, 1.0, 1.0]]), text)


def test_a_pin_goes_before_priority_and_a_composite_is_kept_for_it() -> None:
    problem = chain([[INF, 1.0, 1.0]] * 2 + [[1.0, 1.0, 1.0]], [(0, (0, 1), 0.5)])
    regions = annotate(problem)
    solved = resolve(regions, (1, 0, 2), pins={1: 0})
    assert solved.assignment == (0, 0, 1)
    assert solved.atoms == ((0, 1),)
    # A pin elsewhere breaks the composite up, and its other node goes by priority.
    solved = resolve(regions, (0, 1, 2), pins={1: 2})
    assert solved.assignment == (1, 2, 0)
    assert [entry.region for entry in solved.dropped] == [Region("npu", (0, 1), "composite0")]
    assert solved.dropped[0].reason == "'n1' went to cpu"


def test_pins_that_cannot_be_kept() -> None:
    problem = chain([[INF, 1.0, 1.0]] * 3, [(0, (0, 1), 0.5)])
    with pytest.raises(UnsupportedNode, match=r"'n2'.*pinned to 'npu', which does not support it"):
        resolve(annotate(problem), (0, 1, 2), pins={2: 0})
    with pytest.raises(UnsupportedNode, match=r"'n0'.*pattern 'composite0': 'n1' went to gpu"):
        resolve(annotate(problem), (0, 1, 2), pins={0: 0, 1: 1})


def test_no_device_for_a_node_names_every_reason() -> None:
    problem = chain([[INF, 1.0, INF]] * 2, [(0, (0, 1), 0.5)])
    regions = annotate(problem).without([(1, (1,), "withdrawn here")])
    assert resolve(regions, (0, 1, 2)).assignment == (0, 0)
    with pytest.raises(UnsupportedNode) as error:
        resolve(regions, (1, 0, 2), pins={0: 1})
    assert "pattern 'composite0': 'n0' went to gpu" in str(error.value)
    assert "gpu: withdrawn here" in str(error.value)


def test_a_choice_that_is_not_offered() -> None:
    problem = chain([[1.0, INF, 1.0]])
    with pytest.raises(UsageError, match="returns 'gpu', which does not support 'n0'"):
        resolve(annotate(problem), (0, 1, 2), choose=lambda node, offers: "gpu")


def test_a_choice_that_cannot_be_granted_goes_by_priority() -> None:
    # Each node would go to the composite's device alone, but one of them is sent away.
    problem = chain([[INF, 1.0, 1.0]] * 2, [(0, (0, 1), 0.5)])
    wanted = {0: "npu", 1: "cpu"}
    solved = resolve(annotate(problem), (0, 1, 2), choose=lambda node, _: wanted[node])
    assert solved.assignment == (1, 2)


def test_composites_that_are_cyclic_together_are_not_both_kept() -> None:
    problem = Problem.from_arrays(
        [[INF, INF, 1.0]] * 4,
        [(0, 1, 4), (2, 3, 4)],
        composites=[(0, (0, 3), 0.5), (1, (1, 2), 0.5)],
    )
    solved = resolve(annotate(problem), (0, 1, 2))
    assert solved.atoms == ((0, 3),)
    assert "depend on its own output through n2 > n3 > n0 > n1" in solved.dropped[0].reason.replace(
        "'", ""
    )


def test_a_composite_above_the_largest_group_is_dropped_and_said() -> None:
    problem = chain([[INF, 9.0, 9.0]] * 2 + [[1.0, 9.0, 9.0]], [(0, (0, 1), 0.5)])
    made = hetsim.partition(problem, sizes=SizeRules(max_nodes_per_group=1))
    assert [g.device for g in made.groups] == ["gpu", "gpu", "npu"]
    assert made.notes == (
        "npu: pattern 'composite0' of 2 nodes at 'n0' is above max_nodes_per_group",
    )


@st.composite
def contested(draw: st.DrawFn) -> tuple[Problem, dict[int, int]]:
    n = draw(st.integers(2, 10))
    pairs = [(u, v) for v in range(n) for u in range(v)]
    edges = sorted(draw(st.sets(st.sampled_from(pairs), max_size=2 * n)))
    alone = draw(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=n, max_size=n))
    composites = []
    for device in (0, 1):
        free = draw(st.permutations(range(n)))
        while len(free) > 1 and draw(st.booleans()):
            size = draw(st.integers(2, min(3, len(free))))
            composites.append((device, tuple(free[:size]), 0.5))
            free = free[size:]
    problem = Problem.from_arrays(
        [[1.0 if a else INF, 1.0 if b else INF, 2.0] for a, b in alone],
        [(u, v, 1) for u, v in edges],
        composites=composites,
    )
    pins = draw(st.dictionaries(st.integers(0, n - 1), st.integers(0, 2), max_size=3))
    return problem, pins


@examples(quick=15, full=100)
@given(contested(), st.permutations(range(3)))
def test_every_node_once_regions_whole_and_pins_kept(
    case: tuple[Problem, dict[int, int]], order: list[int]
) -> None:
    problem, pins = case
    regions = annotate(problem)
    try:
        solved = resolve(regions, order, pins=pins)
    except UnsupportedNode:
        # Device 2 takes every node: only a pin can be beyond reach.
        assert any(not problem.supported[node, device] for node, device in pins.items())
        return
    kept = {(solved.assignment[atom[0]], atom) for atom in solved.atoms}
    offered = {(kernel.device, kernel.nodes) for kernel in problem.composites}
    assert kept <= offered
    assert len(kept) + len(solved.dropped) == len(offered)
    held = [node for _, atom in kept for node in atom]
    assert len(held) == len(set(held))
    for node, device in enumerate(solved.assignment):
        assert node in held or problem.supported[node, device]
        if node not in held and node not in pins:
            # No device before it takes the node alone.
            earlier = order[: order.index(device)]
            assert not any(problem.supported[node, d] for d in earlier)
    assert all(solved.assignment[node] == device for node, device in pins.items())
    for method in hetsim.methods():
        made = hetsim.partition(problem, method.name, resolution=solved)
        check(problem, made.groups, connected="connected" in method.promises)
