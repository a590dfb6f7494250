"""The rules of the clock without a clock, played at the clock's own times."""

from __future__ import annotations

import heapq

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from builders import problems
from hetsim.placement.planning import plan
from hetsim.problem.plan import Plan
from hetsim.problem.problem import Problem
from hetsim.simulation.clock.runs import Turns, play
from hetsim.simulation.clock.templates import tasks_of_plan
from hetsim.simulation.simulate import arrivals
from sweeps import examples


def played(made: Plan, arrival: list[float]) -> tuple[list[float], dict[tuple[int, int], float]]:
    """When each request ends and each task starts, by ``Turns`` on a heap of ends."""
    turns = Turns(tasks_of_plan(made, made.problem.contention))
    heap: list[tuple[float, int, int]] = [(time, -1, r) for r, time in enumerate(arrival)]
    finish = [0.0] * len(arrival)
    start: dict[tuple[int, int], float] = {}
    while heap:
        now = heap[0][0]
        while heap and heap[0][0] == now:
            _, request, task = heapq.heappop(heap)
            if request < 0:
                turns.admit(task)
            elif turns.end(request, task):
                finish[request] = now
        for request, task in turns.starts():
            start[request, task] = now
            duration = turns.template_of(request).duration
            heapq.heappush(heap, (now + float(duration[task]), request, task))
    return finish, start


@examples(quick=40, full=150)
@given(
    problems(),
    st.sampled_from(["hetero", "heft", "single"]),
    st.sampled_from([None, "hetero", "single:d0"]),
    st.lists(st.floats(0, 3), min_size=1, max_size=6),
)
def test_the_clock_gives_the_same(
    problem: Problem, strategy: str, other: str | None, gaps: list[float]
) -> None:
    # Times without ties: at one instant the two may take things in different orders.
    rng = np.random.default_rng(7)
    problem = Problem.from_arrays(
        problem.seconds * rng.uniform(1, 2, problem.seconds.shape),
        tensors=[(v.producer, 1 + v.nbytes, v.consumers) for v in problem.values],
        latency_s=rng.uniform(0.01, 0.3, (len(problem.devices),) * 2),
        bytes_per_s=rng.uniform(1, 3, (len(problem.devices),) * 2),
        streams=[1 + d % 2 for d in range(len(problem.devices))],
        host=0,
        contention="fifo",
    )
    made = plan(problem, strategy)
    if other is not None:
        replicas = (made, plan(problem, other))
        made = Plan.dealt(replicas, (0, 1, 1), strategy="two")
    arrival = np.cumsum([0.0, *gaps]).tolist()
    finish, start = played(made, arrival)
    plan_tasks = tasks_of_plan(made, problem.contention)
    recording = play(plan_tasks, arrivals(1, arrival), traced=True)
    assert finish == recording.finish.tolist()
    assert start == {
        (request, task): recording.start[recording.entry_at[request] + task]
        for request in range(len(arrival))
        for task in range(plan_tasks.templates[recording.template[request]].tasks)
    }
