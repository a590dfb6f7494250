"""A start for searches on many tasks: lists both ways, at the price that does best."""

from __future__ import annotations

import itertools
import math
from contextlib import suppress
from dataclasses import dataclass

from hetsim.base import deadline
from hetsim.errors import Infeasible
from hetsim.placement.coarsening.tasks import Coarse
from hetsim.placement.grouping.best import best_grouping
from hetsim.placement.listing.both_ways import BothWays
from hetsim.placement.objective import measure
from hetsim.placement.search.drafts import Draft
from hetsim.placement.search.estimates import Estimator
from hetsim.placement.starting.starts import Start
from hetsim.plans.plan import Plan

PRICES = (0.0, 0.5, 2.0, 8.0, 32.0)
NEAR = (0.35, 0.7, 1.4, 2.8)
"""Prices that are tried around the best one, over that."""
LEAST = 0.2
"""What they are over where that is nothing."""
STRETCHES = (1.0, 2.0, 4.0, 8.0)
"""How much longer transfers are taken to be where they wait for each other."""
MOST_IN_PYTHON = 1_000
"""Tasks above which a deadline is not for schedules that are not compiled."""
FEW, MANY = 3, 20
"""Passes of each price, and of the best at last."""
NAME = "lists both ways"


@dataclass(slots=True)
class _Best:
    cost: float
    price: float
    stretch: float
    draft: Draft


def priced_start(coarse: Coarse) -> Start | None:
    """Return the best plan of ``BothWays`` met; None where a node runs on no device alone.

    What takes longest where is told by a price: where devices differ by node, a node that goes
    where it ends first often takes long, and keeps others from that device. A few passes are made
    at each of several prices, and where links are contended for, with transfers that take
    longer than alone; more at the best.

    Where a deadline passes, the best until then is returned; None where there is none, or too
    little time to compile for many tasks.

    Complexity: O(E P + n^2) for each of 90 schedules, 200 with contention. Source: forward and
    backward passes, K. Y. Li, R. J. Willis, An iterative scheduling technique for
    resource-constrained project scheduling, EJOR 56, 1992; the price is own.
    """
    problem = coarse.problem
    if not problem.n or not problem.supported.any(axis=1).all():
        return None
    contended = problem.contention == "fifo"
    stretches = STRETCHES if contended else STRETCHES[:1]
    made = (len(stretches) * len(PRICES) + len(NEAR)) * (1 + 2 * FEW) + 1 + 2 * MANY
    best: _Best | None = None
    with suppress(deadline.OutOfTime):
        ways, estimator = BothWays(problem, made * problem.n), Estimator(problem)
        if deadline.is_set() and problem.n > MOST_IN_PYTHON and not ways.compiled:
            return None
        for stretch, price in itertools.product(stretches, PRICES):
            best = _better(best, estimator, ways, price, stretch, FEW)
        assert best is not None
        known, stretch = best.price or LEAST, best.stretch
        for near in NEAR:
            best = _better(best, estimator, ways, known * near, stretch, FEW)
        best = _better(best, estimator, ways, best.price, best.stretch, MANY)
    return None if best is None else _judged(coarse, estimator, best.draft)


def _better(
    best: _Best | None,
    estimator: Estimator,
    ways: BothWays,
    price: float,
    stretch: float,
    passes: int,
) -> _Best:
    """The best so far, or the best of some passes.

    Where nothing but the order and the devices counts, a schedule is as long as it says; else
    those are estimated that are shorter than the ones before.
    """
    least = math.inf if best is None or estimator.grouped else best.cost
    for made in ways.schedules(price, stretch, passes):
        deadline.check()
        if made.makespan_s >= least:
            continue
        least = made.makespan_s
        draft = Draft(made.order, list(made.assignment), [True] * len(made.assignment))
        cost = estimator.cost(draft)
        if best is None or cost < best.cost:
            best = _Best(cost, price, stretch, draft)
    assert best is not None
    return best


def _judged(coarse: Coarse, estimator: Estimator, draft: Draft) -> Start | None:
    """The draft as it is, or grouped, whichever the clock finds quicker; None: none fits."""
    found: list[Start] = []
    with suppress(Infeasible, deadline.OutOfTime):
        grouped, _ = best_grouping(coarse.problem, draft.device, draft.order)
        for groups in (estimator.groups(draft), grouped):
            plan = Plan(coarse.fine, "draft", coarse.spread(groups))
            found.append(Start(NAME, plan, groups, measure(plan, "latency")))
    return min(found, key=lambda start: start.cost, default=None)
