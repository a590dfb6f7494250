"""LoadGen's rule, against the binomial sum it stands for and what LoadGen printed."""

from __future__ import annotations

import pytest
import scipy

from hetsim.errors import InvalidInput
from hetsim.statistics.early_stopping import early_stopping, least_on_time


@pytest.mark.parametrize("share", [0.5, 0.9, 0.97, 0.99])
@pytest.mark.parametrize("late", [0, 1, 2, 7, 60])
def test_so_many_on_time_are_the_least_that_the_binomial_distribution_allows(
    share: float, late: int
) -> None:
    least = least_on_time(late, share)
    for on_time, passes in ((least, True), (least - 1, False)):
        chance = scipy.stats.binom.cdf(late, on_time + late, 1 - share) if on_time else 1.0
        assert (chance < 0.01) == passes


@pytest.mark.parametrize(
    ("queries", "discarded"), [(2048, 172), (2116, 178), (2145, 181), (7469, 685)]
)
def test_single_stream_runs_discard_as_many_as_loadgen_printed(
    queries: int, discarded: int
) -> None:
    """Published summaries of single-stream runs at the 90th percentile; 64 queries are needed."""
    assert least_on_time(1, 0.9) + 1 == 64
    assert least_on_time(discarded + 1, 0.9) + discarded + 1 <= queries
    assert least_on_time(discarded + 2, 0.9) + discarded + 2 > queries


def test_verdicts_and_what_is_missing() -> None:
    needed = least_on_time(10, 0.99) + 10
    assert early_stopping(needed, 10, 0.99).valid
    short = early_stopping(needed - 5, 10, 0.99)
    assert (short.valid, short.more) == (False, 5)
    assert early_stopping(458, 0, 0.99).more == 1
    assert early_stopping(459, 0, 0.99).valid


@pytest.mark.parametrize(
    "given", [(-1, 0, 0.9), (5, 6, 0.9), (5, 1, 1.0), (5, 1, 0.0), (5, 1, 0.9, 1.0)]
)
def test_what_makes_no_sense_is_refused(given: tuple[float, ...]) -> None:
    with pytest.raises(InvalidInput):
        early_stopping(*given)  # type: ignore[arg-type]
