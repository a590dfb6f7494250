"""Tandems of stages against closed forms from queueing theory."""

from __future__ import annotations

from itertools import accumulate, permutations

from hypothesis import given
from hypothesis import strategies as st

from hetsim.simulation.simulate import simulate
from oracles.clock_plans import Stage, tandem
from sweeps import examples

eighths = st.integers(0, 24).map(lambda k: k / 8)


@examples(quick=15, full=100)
@given(
    st.lists(st.builds(Stage, eighths, eighths), min_size=1, max_size=4),
    eighths,
    st.lists(eighths, min_size=1, max_size=12),
)
def test_tandem_obeys_friedman(stages: list[Stage], back_s: float, gaps: list[float]) -> None:
    """Sojourn = sum of services + the wait of a queue at the slowest stage alone.

    H. D. Friedman, "Reduction methods for tandem queuing systems", Operations Research
    13(1), 1965. Stages of constant service, one server each, first come first served, any
    arrivals. Links are stages too.
    """
    arrivals = list(accumulate(gaps))
    services = [s for stage in stages for s in (stage.seconds, stage.move_s)] + [back_s]
    wait = 0.0
    expected = []
    for index, arrival in enumerate(arrivals):
        if index:
            wait = max(0.0, wait + max(services) - (arrival - arrivals[index - 1]))
        expected.append(sum(services) + wait)
    timeline = simulate(tandem(stages, back_s), arrivals_s=arrivals)
    assert timeline.latencies_s == tuple(expected)
    for order in permutations(stages):
        again = simulate(tandem(order, back_s), arrivals_s=arrivals, trace=False)
        assert again.latencies_s == timeline.latencies_s


@examples(quick=15, full=50)
@given(
    st.lists(eighths, min_size=1, max_size=4),
    st.lists(eighths, min_size=1, max_size=12),
    st.integers(1, 3),
)
def test_tandem_of_several_streams(services: list[float], gaps: list[float], streams: int) -> None:
    """The same theorem holds where every stage has the same number of servers."""
    arrivals = list(accumulate(gaps))
    starts: list[float] = []
    for index, arrival in enumerate(arrivals):
        freed = starts[index - streams] + max(services) if index >= streams else 0.0
        starts.append(max(arrival, freed))
    plan = tandem([Stage(s, 0.0) for s in services], 0.0, streams)
    assert simulate(plan, arrivals_s=arrivals).latencies_s == tuple(
        start - arrival + sum(services) for start, arrival in zip(starts, arrivals, strict=True)
    )
