"""Which instance a request goes to, and what is known of plans for that, by definition."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetsim.problem.plan import Plan
from hetsim.simulation.clock.metrics import busy_seconds
from hetsim.simulation.clock.templates import laid_out, tasks_of_plan
from hetsim.simulation.serving.engine import Serving
from hetsim.simulation.serving.setup import ModelSetup, Outcomes, RequestSource
from hetsim.simulation.serving.tables import loads, seconds_alone
from hetsim.workload.deployment import ROUTINGS, Routing
from oracles.clock_plans import dealt_plans
from oracles.random_layouts import Shape, layout_of
from oracles.virtual_clock import replay
from sweeps import examples


@examples(quick=15, full=300)
@given(dealt_plans())
def test_what_a_template_takes_alone_and_asks_the_most_of(plan: Plan) -> None:
    tasks = tasks_of_plan(plan, plan.problem.contention)
    duration = np.concatenate([one.duration for one in tasks.templates])
    layout = laid_out(tasks)
    taken, asked = seconds_alone(layout, duration), loads(layout, duration)
    assert len(taken) == len(asked) == len(plan.replicas)
    for at, replica in enumerate(plan.replicas):
        assert taken[at] == replay(replica, [0.0], plan.problem.contention).finish[0]
        once = [int(at == other) for other in range(len(plan.replicas))]
        devices, links = busy_seconds(tasks, once)
        each = [busy / width for busy, width in zip(devices, plan.problem.streams, strict=True)]
        assert asked[at] == pytest.approx(max([*each, *links], default=0.0))


class Instance:
    """Two devices in a row: the first and the second half of each request."""

    def __init__(self, first_s: float, second_s: float, limit: int) -> None:
        self.first_s, self.second_s, self.limit = first_s, second_s, limit
        self.ends: list[float] = []
        self.first_free_s = self.free_s = -math.inf

    def under_way(self, now: float) -> int:
        return sum(end > now for end in self.ends)

    def takes(self, now: float) -> bool:
        return self.limit == 0 or self.under_way(now) < self.limit

    def would_end(self, now: float) -> float:
        """Were each alone with those before it: one may begin once its slower half is free."""
        return self.begin(now) + self.first_s + self.second_s

    def begin(self, now: float) -> float:
        return max(now, self.free_s) if self.under_way(now) else now

    def run(self, now: float) -> float:
        self.free_s = self.begin(now) + max(self.first_s, self.second_s)
        self.first_free_s = max(now, self.first_free_s) + self.first_s
        end = max(self.first_free_s, self.ends[-1] if self.ends else -math.inf) + self.second_s
        self.ends.append(end)
        return end


@examples(quick=15, full=500)
@given(
    st.lists(
        st.tuples(st.integers(1, 9), st.integers(1, 9), st.integers(0, 3)), min_size=1, max_size=4
    ),
    st.lists(st.integers(0, 6), min_size=1, max_size=30),
    st.sampled_from(ROUTINGS),
    st.data(),
)
def test_a_request_goes_to_the_next_the_shortest_or_where_it_would_end_first(
    given_: list[tuple[int, int, int]], gaps: list[int], routing: Routing, data: st.DataObject
) -> None:
    count = len(given_)
    more = data.draw(st.lists(st.integers(0, count - 1), max_size=3))
    cycle = data.draw(st.permutations([*range(count), *more]))
    turn = 0
    arrival = np.cumsum(gaps).astype(float)
    instances = [Instance(*one) for one in given_]
    expected: list[tuple[int, float, float]] = []
    now = -math.inf
    for came in arrival.tolist():
        # Those that wait go in order; what ends at a moment makes room at it.
        now = max(now, came) if any(one.limit for one in instances) else came
        while not any(one.takes(now) for one in instances):
            now = min(end for one in instances for end in one.ends if end > now)
        able = [at for at, one in enumerate(instances) if one.takes(now)]
        if routing == "round_robin":
            while cycle[turn % len(cycle)] not in able:
                turn += 1
            best = cycle[turn % len(cycle)]
            turn += 1
        else:
            ask = Instance.under_way if routing == "shortest_queue" else Instance.would_end
            best = min((ask(instances[at], now), at) for at in able)[1]
        expected.append((best, now, instances[best].run(now)))
    layout = layout_of(
        [Shape([2 * k, 2 * k + 1], [], [[], [0]]) for k in range(count)], [1] * 2 * count, 0
    )
    duration = np.array([seconds for first, second, _ in given_ for seconds in (first, second)])
    model = ModelSetup(
        np.arange(count).reshape(1, count, 1),
        tuple(one.limit for one in instances),
        routing=routing,
        cycle=tuple(cycle),
    )
    what = (layout, duration.astype(float), [model], [RequestSource(0)])
    for engine in (
        Serving(*what, machine_code=False),
        Serving(*what, machine_code=False, known=(seconds_alone(*what[:2]), loads(*what[:2]))),
    ):
        told = engine.serve(arrival, np.zeros(len(arrival), dtype=np.int64))
        found = Outcomes.joined([told, engine.close()])
        columns = (found.instance, found.sent_s, found.finish_s)
        assert list(zip(*(column.tolist() for column in columns), strict=True)) == expected
