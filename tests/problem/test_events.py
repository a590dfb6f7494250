"""Events in arrays are the tuple of them, however they are read."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetsim.problem.timeline import AT_A_TIME, Event, Events
from sweeps import examples

SORTS = (
    Event("compute", "g0", 0, 0.0, 0.0, ("cpu/0",), "cpu", group=0),
    Event("compute", "g0", 0, 0.0, 0.0, ("cpu/0",), "cpu", group=0, lost=True),
    Event("transfer", "x", 0, 0.0, 0.0, ("cpu>gpu", "pcie"), "gpu", "cpu", 1, 64),
    Event("failure", "kill", 0, 0.0, 0.0, ("gpu/0",), "gpu"),
)
TIMES = st.floats(0, 9, width=16)
EVENTS = st.lists(
    st.builds(
        lambda sort, request, start_s, lasts_s: replace(
            sort, request=request, start_s=start_s, end_s=start_s + lasts_s
        ),
        st.sampled_from(SORTS), st.integers(-1, 3), TIMES, TIMES,
    ),
    max_size=8,
)  # fmt: skip
BOUNDS = st.none() | st.integers(-10, 10)


@examples(quick=40, full=300)
@given(EVENTS, st.builds(slice, BOUNDS, BOUNDS, BOUNDS.filter(lambda step: step != 0)))
def test_they_are_read_as_the_tuple_is(events: list[Event], of: slice) -> None:
    plain, packed = tuple(events), Events.of(events)
    assert Events.of(packed) is packed
    assert len(packed) == len(plain)
    assert tuple(packed) == plain
    assert packed[of] == plain[of]
    assert repr(packed) == repr(plain)
    assert hash(packed) == hash(plain)
    for at in range(-len(plain) - 2, len(plain) + 2):
        if -len(plain) <= at < len(plain):
            assert packed[at] == plain[at]
        else:
            with pytest.raises(IndexError, match=f"event {at} of {len(plain)}"):
                packed[at]


@examples(quick=25, full=300)
@given(EVENTS, EVENTS, st.permutations(range(len(SORTS))))
def test_they_equal_what_has_the_same_events(
    one: list[Event], other: list[Event], order: list[int]
) -> None:
    first, second = Events.of(one), Events.of(other)
    assert (first == second) == (one == other)
    assert (first == tuple(other)) == (one == other)
    assert first == Events.of(one)
    # Whatever the order in which their sorts are kept, and whether all of these occur.
    sort = [order[SORTS.index(replace(e, request=0, start_s=0.0, end_s=0.0))] for e in one]
    kept = tuple(SORTS[order.index(k)] for k in range(len(SORTS)))
    again = Events(kept, np.array(sort, dtype=np.int64), first.request, first.start_s, first.end_s)
    assert again == first == again == tuple(one)
    assert (first == list(one)) is False


@pytest.mark.parametrize("count", [AT_A_TIME - 1, AT_A_TIME, AT_A_TIME + 1, 2 * AT_A_TIME + 5])
def test_none_is_lost_between_the_blocks_that_are_made_at_once(count: int) -> None:
    times = np.arange(count, dtype=np.float64)
    packed = Events(SORTS[:1], np.zeros(count, dtype=np.int64), np.arange(count), times, times + 1)
    assert [event.request for event in packed] == list(range(count))
    assert (
        packed[count - 1]
        == packed[-1]
        == replace(SORTS[0], request=count - 1, start_s=count - 1.0, end_s=float(count))
    )
