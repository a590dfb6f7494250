"""Where the order of tasks is certain, and that requests then depend on none that come later."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from hetsim.problem.plan import Plan
from hetsim.simulation.clock.runs import run
from hetsim.simulation.clock.templates import TemplateLayout, laid_out, tasks_of_plan
from hetsim.simulation.orders import foreseeable, order_of
from hetsim.simulation.serving.engine import Serving
from hetsim.simulation.serving.setup import Clients, ModelSetup, Outcomes, RequestSource
from hetsim.workload.deployment import ROUTINGS
from oracles.clock_plans import Stage, arrivals, dealt_plans, tandem
from oracles.random_layouts import Case, Shape, layout_of, random_case
from oracles.request_order import times_in_order
from sweeps import examples, sweep

CASES = 200
"""Seeds of a chunk."""

BUS = layout_of([Shape([0], [(0,), (0,)], [[1], [], [0]])], [1], 1)
"""A tensor in and one out over the same link."""


def reason(layout: TemplateLayout) -> str | None:
    """Why the order is not certain; None where it is."""
    found = order_of(layout, np.ones(layout.first[-1]))
    assert found is not None
    return found.reasons[0] if found.reasons else None


def is_the_clocks(case: Case) -> bool:
    """Compare the clock with the order, to the last bit; return whether that is certain."""
    order = order_of(case.layout, case.duration)
    if order is None or order.reasons:
        return False
    starts, ends = times_in_order(order, case.duration, case.arrival, case.template)
    clock = run(*case, traced=True, machine_code=False)
    assert clock.finish.tobytes() == ends.tobytes()
    assert starts.tolist() == [
        clock.start[at:end].min(initial=np.inf) if end > at else came
        for at, end, came in zip(clock.entry_at, clock.entry_at[1:], case.arrival, strict=False)
    ]
    return True


@sweep("chunk", quick=[0, 1], full=range(70))
def test_the_clock_serves_in_this_order_where_it_is_certain(chunk: int) -> None:
    cases = range(CASES * chunk, CASES * (chunk + 1))
    assert sum(is_the_clocks(random_case(seed)) for seed in cases) > CASES / 2


@examples(quick=15, full=400)
@given(dealt_plans(), arrivals(most=8), st.booleans())
def test_plans_in_order(plan: Plan, times: list[float], uneven: bool) -> None:
    tasks = tasks_of_plan(plan, plan.problem.contention)
    duration = np.concatenate([one.duration for one in tasks.templates])
    arrival = np.array(times)
    if uneven:
        duration, arrival = duration / 3, arrival / 7
    is_the_clocks(Case(laid_out(tasks), duration, arrival, tasks.of_requests(len(times))))


def test_a_tandem_is_certain() -> None:
    plan = tandem([Stage(1.0, 0.5), Stage(2.0, 0.0)], 0.5, streams=2)
    for contention in ("fifo", "none"):
        assert reason(laid_out(tasks_of_plan(plan, contention))) is None


COMES_BACK = "device 'd0' runs a request's subgraphs with others between them"
ROW = Shape([0, 0], [], [[], [0]])
OWN_DEVICES, OVER_ONE_LINK = (
    [Shape([device], moves, before) for device in (0, 1)]
    for moves, before in (([(0,), (0,)], [[1, 2], [], []]), ([(0,)], [[], [0]]))
)


@pytest.mark.parametrize(
    ("layout", "why"),
    [
        (BUS, "link 'link0' moves values of a request that are ready at different times"),
        (layout_of([ROW], [1], 0), None),
        (layout_of([ROW], [2], 0), COMES_BACK),
        (layout_of([Shape([0, 1, 0], [], [[], [0], [1]])], [1, 1], 0), COMES_BACK),
        (layout_of(OVER_ONE_LINK, [1, 1], 1), "requests of several plans share link 'link0'"),
        (layout_of([Shape([0], [()], [[1], []])] * 2, [1], 0),
         "requests of several plans share device 'd0'"),
        # All requests need the link first.
        (layout_of(OWN_DEVICES, [1, 2], 1), None),
    ],
)  # fmt: skip
def test_where_the_order_is_certain(layout: TemplateLayout, why: str | None) -> None:
    assert reason(layout) == why


def test_subgraphs_that_wait_for_each_other_have_no_order() -> None:
    layout = layout_of([Shape([0, 0], [], [[1], [0]])], [1], 0)
    assert order_of(layout, np.ones(2)) is None
    assert not foreseeable(layout, np.ones(2), [one_by_one()], [RequestSource(0)])


def deployed(seed: int, case: Case) -> tuple[list[ModelSetup], list[RequestSource]]:
    """One or two models, each with templates of its own, whose requests go one by one."""
    rng = np.random.default_rng([seed, 29])
    templates = rng.permutation(len(case.layout.first) - 1)
    models, sources = [], []
    count = int(rng.integers(1, 3)) if len(templates) > 1 else 1
    for at in range(count):
        variants, instances = int(rng.choice([1, 1, 2])), int(rng.integers(1, 4))
        limits = (int(rng.integers(3)),) * instances
        if rng.random() < 0.3:
            limits = tuple(rng.integers(0, 3, instances).tolist())
        dealt = not any(limits) and rng.random() < 0.3
        models.append(
            ModelSetup(
                rng.choice(templates[at::count], (variants, instances, 1)),
                limits,
                routing=ROUTINGS[rng.integers(3)],
                cycle=tuple(rng.integers(0, instances, 4).tolist()) if dealt else (),
                max_queue_size=(None, None, 1, 3)[rng.integers(4)],
                timeout_s=float(rng.choice([math.inf, 2.0, 7.0])),
            )
        )
        sources += [RequestSource(at)] * int(rng.integers(1, 3))
    return models, sources


def depends_on_none_later(seed: int) -> bool:
    """Whether a deployment is foreseeable; its first requests then fare alike without the rest."""
    rng = np.random.default_rng([seed, 30])
    case = random_case(seed)
    models, sources = deployed(seed, case)
    if not foreseeable(case.layout, case.duration, models, sources):
        return False
    count = len(case.arrival)
    stream = rng.integers(0, len(sources), count)
    variants = np.array([models[one.model].template.shape[0] for one in sources])
    variant = rng.integers(0, variants[stream])
    first = int(rng.integers(1, count + 1))
    found = []
    for many in (count, first):
        engine = Serving(case.layout, case.duration, models, sources, machine_code=False)
        told = engine.serve(case.arrival[:many], stream[:many], variant[:many])
        found.append(Outcomes.joined([told, engine.close()]))
    for whole, part in zip(*found, strict=True):
        assert whole[:first].tobytes() == part.tobytes(), seed
    return True


@sweep("chunk, count", quick=[(0, 25)], full=[(0, 25), *((chunk, CASES) for chunk in range(50))])
def test_what_is_foreseeable_depends_on_none_that_come_later(chunk: int, count: int) -> None:
    cases = range(CASES * chunk, CASES * chunk + count)
    assert sum(depends_on_none_later(seed) for seed in cases) > count / 5


def one_by_one(limit: int = 1, template: int = 0, **policy: object) -> ModelSetup:
    return ModelSetup(np.full((1, 1, 1), template), (limit,), **policy)  # type: ignore[arg-type]


def think(block: int) -> NDArray[np.float64]:
    return np.ones((4, 1))


ONE = (layout_of([Shape([0], [], [[]])], [1], 0), np.ones(1))


@pytest.mark.parametrize(
    ("model", "sure"),
    [
        (one_by_one(), True),
        (one_by_one(timeout_s=1.0, timeout_action="delay"), False),
        (one_by_one(max_queue_size=0), False),
        (one_by_one(0, timeout_action="delay", max_queue_size=0), True),
        (ModelSetup(np.zeros((1, 1, 2), dtype=np.int64), (1,)), False),
    ],
)
def test_batches_and_what_goes_last_are_not_foreseeable(model: ModelSetup, sure: bool) -> None:
    assert foreseeable(*ONE, [model], [RequestSource(0)]) == sure
    assert not foreseeable(*ONE, [model], [RequestSource(0)], [Clients(0, 1, think)])


def test_levels_shared_devices_and_tasks_of_no_time_are_not_foreseeable() -> None:
    levels = one_by_one(ranks=(0, 1))
    assert foreseeable(*ONE, [levels], [RequestSource(0, 1), RequestSource(0, 1)])
    assert not foreseeable(*ONE, [levels], [RequestSource(0), RequestSource(0, 1)])
    assert foreseeable(*ONE, [one_by_one(), one_by_one()], [RequestSource(0)])
    assert not foreseeable(*ONE, [one_by_one(), one_by_one()], [RequestSource(0), RequestSource(1)])
    assert not foreseeable(ONE[0], np.zeros(1), [one_by_one()], [RequestSource(0)])
    assert not foreseeable(BUS, np.ones(3), [one_by_one()], [RequestSource(0)])


def test_models_meet_at_links_and_at_devices_alike() -> None:
    """The first has device 0 and link 0; of the others one shares the link, one the device."""
    first, *others = (
        Shape([device], [(link,)], [[], [0]]) for device, link in ((0, 0), (1, 0), (0, 1), (1, 1))
    )
    models = [one_by_one(0), one_by_one(0, 1)]
    found = [
        foreseeable(
            layout_of([first, other], [1, 1], 2),
            np.ones(4),
            models,
            [RequestSource(0), RequestSource(1)],
        )
        for other in others
    ]
    assert found == [False, False, True]
