"""The front of rows is what its definition says, by looking at every pair."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetsim.errors import UsageError
from hetsim.sweeping.rows import COLUMNS, front_of, read_front
from sweeps import examples

FIGURES = st.one_of(st.none(), st.integers(0, 4).map(float))


def row(**figures: Any) -> dict[str, Any]:
    return {**dict.fromkeys(COLUMNS), **figures}


@examples(quick=40, full=100)
@given(
    st.lists(st.tuples(FIGURES, FIGURES, st.sampled_from([None, None, "it failed"])), max_size=12)
)
def test_no_row_of_the_front_is_beaten(
    figures: list[tuple[float | None, float | None, str | None]],
) -> None:
    rows = [row(latency_s=a, throughput_per_s=b, error=error) for a, b, error in figures]
    wishes = read_front(["latency_s", "throughput_per_s"])
    assert [wish.larger for wish in wishes] == [False, True]
    there = [r for r in rows if r["error"] is None
             and r["latency_s"] is not None and r["throughput_per_s"] is not None]  # fmt: skip

    def beats(one: dict[str, Any], other: dict[str, Any]) -> bool:
        mine = (one["latency_s"], -one["throughput_per_s"])
        its = (other["latency_s"], -other["throughput_per_s"])
        return mine != its and mine[0] <= its[0] and mine[1] <= its[1]

    expected = [r for r in there if not any(beats(other, r) for other in there)]
    found = front_of(rows, wishes)
    assert len(found) == len(expected)
    assert all(one is other for one, other in zip(found, expected, strict=True))


def test_wishes_are_read() -> None:
    assert front_of([row(latency_s=1.0)], ()) == ()
    (wish,) = read_front(["latency_s:max"])
    assert (wish.column, wish.larger, str(wish)) == ("latency_s", True, "latency_s (most)")
    for texts, says in (
        (["latencys"], "did you mean 'latency_s'"),
        (["strategy"], "no column 'strategy' of numbers"),
        (["p99_s:less"], "'less' is neither min nor max"),
        (["p99_s", "p99_s:max"], "given twice"),
    ):
        with pytest.raises(UsageError, match=says):
            read_front(texts)
