"""The boundary method equals its rule taken literally, and is valid."""

from __future__ import annotations

import math

import hetsim


def test_readers_of_one_input_or_constant_are_joined_on_its_device() -> None:
    # Values 0 and 1: an input that all read, a value of node 0. The first device that is asked and
    # has a reader of the input gets it: 1 and 2 are joined there, 0 and 3 on the other are not.
    free = [[1.0, math.inf], [math.inf, 1.0], [math.inf, 1.0], [1.0, math.inf]]
    problem = hetsim.Problem.from_arrays(free, tensors=[(-1, 4, (0, 1, 2, 3))])
    order = ("d1", "d0")
    made = hetsim.partition(problem, "boundary", priority=order)
    assert {group.nodes for group in made.groups} == {(0,), (1, 2), (3,)}
    made = hetsim.partition(problem, "boundary", priority=order[::-1])
    assert {group.nodes for group in made.groups} == {(0, 3), (1,), (2,)}
    # Other methods join by what nodes make alone.
    assert len(hetsim.partition(problem, "compact").groups) == 4


def test_sets_that_are_kept_whole_are_one_op() -> None:
    # 1 and 2 run as one on d0 alone; the input that 0 and 2 read joins 0 to both.
    free = [[1.0, 9.0], [math.inf, math.inf], [math.inf, math.inf], [math.inf, 1.0]]
    problem = hetsim.Problem.from_arrays(
        free,
        tensors=[(-1, 4, (0, 2)), (0, 4, (3,)), (1, 4, (2,)), (2, 4, ()), (3, 4, ())],
        composites=[(0, (1, 2), 1.0)],
    )
    made = hetsim.partition(problem, "boundary", priority=("d0", "d1"))
    assert [(group.device, group.nodes) for group in made.groups] == [
        ("d0", (0, 1, 2)),
        ("d1", (3,)),
    ]
