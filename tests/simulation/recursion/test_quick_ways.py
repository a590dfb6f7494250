"""The quickest ways are taken wherever they apply; that they are right is asked elsewhere."""

from __future__ import annotations

import numpy as np
import pytest

from hetsim.simulation.orders import Order, order_of
from hetsim.simulation.recursion.least import Replicas, replicas_of
from hetsim.simulation.recursion.rows import Stages, stages_of
from oracles.random_layouts import Shape, layout_of

CHAIN = Shape([0, 1], [(0,)], [[], [2], [0]])
"""A subgraph, its value over a link, a subgraph there."""


def order(shapes: list[Shape], streams: list[int], links: int = 0) -> Order:
    layout = layout_of(shapes, streams, links)
    found = order_of(layout, np.ones(layout.first[-1]))
    assert found is not None
    return found


def stages(shape: Shape, streams: list[int], links: int = 0) -> list[list[int]] | None:
    """Devices and links by stage, a link after all devices; None where there are no stages."""
    found = order([shape], streams, links)
    told = stages_of(found, 0)
    if told is None:
        return None
    check(told, found)
    return [
        told.held[told.held_at[k] : told.held_at[k + 1]].tolist()
        for k in range(len(told.task_at) - 1)
    ]


def check(told: Stages, found: Order) -> None:
    """Every task is in one stage, in order, and those that nobody waits for are known."""
    assert sorted(told.tasks.tolist()) == list(range(len(found.of_layout)))
    followed = set(found.waits.tolist())
    assert told.last.tolist() == [k for k in range(len(found.of_layout)) if k not in followed]


def test_each_task_of_a_chain_is_a_stage() -> None:
    assert stages(CHAIN, [1, 1], 1) == [[0], [2], [1]]
    # Whatever streams its devices have.
    assert stages(CHAIN, [2, 3], 1) == [[0], [2], [1]]
    # What holds nothing is a stage as well.
    assert stages(Shape([0], [()], [[1], []]), [1]) == [[], [0]]


def test_what_follows_on_one_stream_without_a_gap_is_one_stage() -> None:
    row = Shape([0, 0, 0], [], [[], [0], [1]])
    found = order([row], [1])
    told = stages_of(found, 0)
    assert told is not None
    check(told, found)
    assert told.task_at.tolist() == [0, 3]
    # On several streams the next request may be between.
    assert stages(row, [2]) is None


def test_who_shares_part_of_what_it_holds_is_in_no_stage() -> None:
    apart = Shape([], [(0, 1), (2,)], [[], []])
    assert stages(apart, [], 3) == [[0, 1], [2]]
    together = Shape([], [(0, 1), (1, 2)], [[], []])
    assert stages(together, [], 3) is None
    alike = Shape([], [(0, 1), (0, 1)], [[], []])
    assert stages(alike, [], 2) == [[0, 1]]


def replicas(shapes: list[Shape], streams: list[int], links: int = 0) -> Replicas | None:
    found = order(shapes, streams, links)
    seconds = np.arange(1.0, 1 + len(found.of_layout))
    return replicas_of(found, seconds)


def test_replicas_of_tasks_that_share_nothing_are_played_at_once() -> None:
    other = Shape([2, 3], [(1,)], [[], [2], [0]])
    found = replicas([CHAIN, other], [1, 1, 1, 1], 2)
    assert found is not None
    assert found.chained == 1
    assert list(found.holds) == [1] * 6
    # They take 1, 2, 3 and 4, 5, 6 seconds: no two alike.
    assert list(found.alike) == [0, 1]
    assert list(found.first) == [0, 3, 6]


@pytest.mark.parametrize(
    ("shapes", "streams", "links"),
    [
        # Two replicas on one device; two tasks of one; two streams.
        ([Shape([0], [], [[]]), Shape([0], [], [[]])], [1], 0),
        ([Shape([0, 0], [], [[], [0]])], [1], 0),
        ([Shape([0], [], [[]])], [2], 0),
        ([Shape([], [(0,), (0,)], [[], []])], [], 1),
    ],
)
def test_replicas_that_share_something_are_not(
    shapes: list[Shape], streams: list[int], links: int
) -> None:
    assert replicas(shapes, streams, links) is None


def test_replicas_that_take_as_long_are_tried_once() -> None:
    shapes = [Shape([k], [], [[]]) for k in range(4)]
    found = replicas_of(order(shapes, [1] * 4), np.array([2.0, 1.0, 2.0, 1.0]))
    assert found is not None
    assert list(found.alike) == [0, 1, 0, 1]
    # By what waits for what, too: a fork takes less than a row.
    row = Shape([0, 1, 2], [], [[], [0], [1]])
    fork = Shape([3, 4, 5], [], [[], [0], [0]])
    found = replicas_of(order([row, fork], [1] * 6), np.ones(6))
    assert found is not None
    assert list(found.alike) == [0, 1]
    assert found.chained == 0


def test_what_holds_nothing_is_shared_by_all() -> None:
    found = replicas_of(order([Shape([0], [()], [[1], []])], [1]), np.ones(2))
    assert found is not None
    assert list(found.holds) == [0, 1]
