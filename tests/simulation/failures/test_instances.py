"""Which instances stand while devices come and go, and when models did not work: by definition."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from hetsim.problem.groups import Group
from hetsim.problem.plan import Plan
from hetsim.problem.problem import Problem
from hetsim.simulation.failures.recovery import InstanceStates
from hetsim.simulation.failures.serving import Outage, Outages, templates_of
from hetsim.simulation.serving.setup import ModelSetup
from sweeps import examples

DEVICES = ("d0", "d1", "d2", "d3")
PROBLEM = Problem.from_arrays(np.ones((2, 4)), edges=[(0, 1, 1)])


def plan_on(first: str, second: str) -> Plan:
    return Plan(PROBLEM, "drawn", (Group(first, (0,)), Group(second, (1,))))


def used(plan: Plan) -> set[str]:
    return {group.device for group in plan.groups}


@examples(quick=20, full=500)
@given(st.data())
def test_who_gets_batches_is_as_defined(data: st.DataObject) -> None:
    device = st.sampled_from(DEVICES)
    plans = [plan_on(data.draw(device), data.draw(device)) for _ in range(6)]
    shapes = [(data.draw(st.integers(1, 3)), data.draw(st.integers(1, 2))) for _ in range(2)]
    # Instances of a model may run the same plan; those of another model never do.
    tables = [
        np.array(
            [
                [
                    [data.draw(st.integers(3 * model, 3 * model + 2)) for _ in range(largest)]
                    for _ in range(instances)
                ]
            ]
        )
        for model, (instances, largest) in enumerate(shapes)
    ]
    models = [ModelSetup(table, (1,) * table.shape[1]) for table in tables]
    asked: list[tuple[Plan, tuple[str, ...]]] = []

    def replan(plan: Plan, lost: tuple[str, ...]) -> Plan:
        asked.append((plan, lost))
        left = next(name for name in DEVICES if name not in lost)
        return plan_on(left, left)

    states = InstanceStates(plans, templates_of(models), "fifo", replan)
    now_run = list(plans)
    lost: list[str] = []
    numbers = iter(range(100))
    # Instances are numbered over all models; each runs what its row of the table names.
    runs = [[(next(numbers), table[0, k]) for k in range(table.shape[1])] for table in tables]
    assert states.instances == [[number for number, _ in each] for each in runs]
    for _ in range(data.draw(st.integers(0, 6))):
        at = data.draw(st.integers(0, 3))
        what = data.draw(st.sampled_from(["stop", "down", "back", "lose"]))
        if what == "lose" and len(lost) < 3 and DEVICES[at] not in lost:
            lost.append(DEVICES[at])
            states.stopped[at] = states.down[at] = True
            before = len(asked)
            changed = states.lose(at)
            expected = []
            for each in runs:
                rows = [row for _, row in each]
                if not all(any(used(now_run[k]) & set(lost) for k in row) for row in rows):
                    continue
                for row in rows:
                    for k in sorted(set(row.tolist())):
                        if used(now_run[k]) & set(lost):
                            left = next(name for name in DEVICES if name not in lost)
                            now_run[k] = plan_on(left, left)
                            expected.append(k)
            assert changed == expected
            # It is planned again from what was asked for, without all that is lost so far.
            assert asked[before:] == [(plans[k], tuple(lost)) for k in expected]
        elif DEVICES[at] not in lost:
            states.stopped[at] = what != "back"
            states.down[at] = what == "down"
        assert [used(one.plan) for one in states.versions] == [used(one) for one in now_run]
        for model, each in enumerate(runs):
            uses = {n: set().union(*(used(now_run[k]) for k in row)) for n, row in each}
            stopped = {name for p, name in enumerate(DEVICES) if states.stopped[p]}
            down = {name for p, name in enumerate(DEVICES) if states.down[p]}
            alive = [n for n, on in uses.items() if not on & set(lost)]
            assert [n for n in uses if not states.gone(n)] == alive
            assert states.taking(model) == ([n for n in alive if not uses[n] & down] or alive)
            assert states.serves(model) == any(not uses[n] & stopped for n in alive)
            assert states.whole(model) == all(not uses[n] & stopped for n in alive)


@examples(quick=30, full=200)
@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 2), st.booleans(), st.booleans())))
def test_spells_are_when_it_did_not_work(
    told: list[tuple[int, int, bool, bool]],
) -> None:
    outages = Outages(2)
    now = 0.0
    said: dict[int, list[tuple[float, bool, bool]]] = {0: [], 1: []}
    for model, gap, whole, serves in told:
        now += gap
        outages.tell(model, now, whole=whole, serves=serves)
        said[model].append((now, whole, serves))
    for model, lines in said.items():
        assert outages.whole[model] == (lines[-1][1] if lines else True)
        for found, of in ((outages.broken[model], 1), (outages.out[model], 2)):
            works = [(float(-1), True), *((line[0], line[of]) for line in lines)]
            expected: list[Outage] = []
            for (_, before), (moment, after) in pairwise(works):
                if before and not after:
                    expected.append(Outage(moment))
                if after and not before:
                    expected[-1] = Outage(expected[-1].begin_s, moment)
            assert found == expected
            assert all(math.isfinite(one.end_s) for one in found[:-1])
