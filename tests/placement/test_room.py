"""What a list scheduler may still fill, against intervals and sets of weights counted anew."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from hetsim.placement.listing.list_schedule import INFINITY, Room, earliest, take
from hetsim.problem.parts import Constant
from hetsim.problem.problem import Problem
from sweeps import examples


def first_free(taken: list[tuple[int, int]], ready: int, duration: int) -> int:
    """The first whole moment from `ready` on at which nothing stands in the way."""
    begin = ready
    while any(begin < end and start < begin + duration for start, end in taken):
        begin += 1
    return begin


@examples(quick=100, full=500)
@given(
    st.integers(0, 3),
    st.lists(st.tuples(st.integers(0, 12), st.integers(0, 4)), max_size=12),
)
def test_gaps_are_what_no_interval_takes(shortest: int, asked: list[tuple[int, int]]) -> None:
    """Whole numbers, so that gaps often fit to the second."""
    space = 2 * len(asked) + 2
    starts, ends, gaps = [0.0] * space, [INFINITY] * space, 1
    taken: list[tuple[int, int]] = []
    for ready, more in asked:
        duration = shortest + more
        begin = earliest(starts, ends, 0, gaps, ready, duration)
        assert begin == first_free(taken, ready, duration)
        gaps = take(starts, ends, 0, gaps, begin, begin + duration, shortest)
        if duration:
            # What takes no time stands in nobody's way.
            taken.append((int(begin), int(begin) + duration))
    free = list(zip(starts[:gaps], ends[:gaps], strict=True))
    assert free == sorted(free)
    assert all(end - start >= shortest for start, end in free)
    assert free[-1][1] == INFINITY


@examples(quick=60, full=300)
@given(st.data())
def test_room_is_what_the_weights_on_a_device_leave(data: st.DataObject) -> None:
    """A constant that several nodes on a device read takes its bytes there once."""
    n, devices = 6, 2
    readers = st.sets(st.integers(0, n - 1), min_size=1).map(lambda nodes: tuple(sorted(nodes)))
    constants = tuple(
        Constant(f"c{k}", data.draw(st.integers(1, 9)), data.draw(readers)) for k in range(4)
    )
    problem = Problem.from_arrays(np.ones((n, devices)), capacity_bytes=[30, 20])
    problem = replace(problem, constants=constants)
    homes = data.draw(st.lists(st.integers(-1, devices - 1), min_size=n, max_size=n))
    room = Room(problem, homes)
    placed: dict[int, int] = {}

    def held(device: int) -> int:
        where = {v: placed.get(v, homes[v]) for v in range(n)}
        return sum(c.nbytes for c in constants if any(where[v] == device for v in c.consumers))

    for _ in range(10):
        node, device = data.draw(st.integers(0, n - 1)), data.draw(st.integers(0, devices - 1))
        if node in placed:
            room.give_back(node, placed.pop(node))
        else:
            free = [capacity - held(p) for p, capacity in enumerate((30, 20))]
            before = held(device)
            kept = homes[node]
            homes[node] = device
            more = held(device) - before
            homes[node] = kept
            assert room.needs(node, device) == more
            assert room.holds(node, device) == (
                more <= free[device] or not problem.constants_of[node]
            )
            room.take(node, device)
            placed[node] = device
        assert room.left == [30 - held(0), 20 - held(1)]
