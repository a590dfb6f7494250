"""Strategy ``exact``: the shortest makespan, with a proof or the gap that is left."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from hetsim.errors import OutOfMemory, UsageError
from hetsim.partitioning.partition import Group
from hetsim.placement.bound import lower_bound
from hetsim.placement.coarsening import pays_to_coarsen
from hetsim.placement.constraints import Constrained
from hetsim.placement.constructive import prepared
from hetsim.placement.evaluation import draft_of
from hetsim.placement.exact_model import load_cp_model, solve_makespan
from hetsim.placement.listing import Listing, Schedule
from hetsim.placement.local_search import LocalSearch
from hetsim.placement.objective import measure
from hetsim.placement.regrouping import merge_where_it_pays
from hetsim.placement.starts import starting_plans
from hetsim.placement.strategy import best_grouping
from hetsim.plans import Plan
from hetsim.problem import Problem

MOST_TASKS = 200
"""Tasks above which the constraint model is not built: it could prove nothing there."""
EQUAL, ROUNDED = 1e-9, 1e-4
"""Relative differences within which a latency meets what is proven: where times are whole ticks
of the solver's clock, and where they had to be rounded to them."""


@dataclass(frozen=True, slots=True)
class Exact(Constrained):
    """A constraint solver on the problem without contention, started from a searched plan.

    Objective: makespan. What it proves is a bound for every plan, since contention and
    subgraphs only add to it; the plan is what the clock likes best of its schedule, grouped,
    and the start. The reason says whether the plan is proven optimal, or by how much it may
    miss. On a model nodes are coarsened first: the proof then holds for plans that keep the
    tasks whole, and the gap is told against ``lower_bound`` of the whole problem.

    Attributes
    ----------
    time_limit_s : float
        Wall-clock seconds of the solver. The answer is the same in every process as long as
        the proof is found in time.

    Complexity: exponential; up to about 50 tasks in seconds to minutes. Needs the extra
    ``exact`` (OR-tools CP-SAT).
    """

    time_limit_s: float = 30.0

    def solve(self, problem: Problem) -> Plan:
        """Return the plan.

        Raises
        ------
        DeviceUnavailable
            Where OR-tools is not installed.
        UsageError
            For a limit that is not above 0, or a problem of more than MOST_TASKS tasks.
        UnsupportedNode, OutOfMemory
            Where no plan is feasible.
        """
        if not 0 < self.time_limit_s < math.inf:
            raise UsageError(f"time_limit_s is {self.time_limit_s}", hint="give a number above 0")
        load_cp_model()
        return self.within(problem, self._solve)

    def _solve(self, problem: Problem) -> Plan:
        coarse = prepared(problem)
        tasks = coarse.problem
        if tasks.n > MOST_TASKS:
            raise UsageError(
                f"strategy 'exact' takes up to {MOST_TASKS} tasks, {problem.name} has {tasks.n}",
                hint="use local-search",
            )
        start = starting_plans(coarse, "latency")[0]
        groups, _, _ = LocalSearch().improve(tasks, start, 0.0)
        plans = [start.plan, Plan(problem, "exact", coarse.spread(groups))]
        floor = lower_bound(problem)
        horizon = min(map(_cost, plans))
        proof = solve_makespan(tasks, horizon, _timed(tasks, groups), floor, self.time_limit_s)
        if proof.schedule is not None:
            # The solver knows the memory of weights alone: activations may not fit.
            with suppress(OutOfMemory):
                made, _ = best_grouping(tasks, proof.schedule.assignment, proof.schedule.order)
                if pays_to_coarsen(problem):
                    made = merge_where_it_pays(tasks, made)
                plans.append(Plan(problem, "exact", coarse.spread(made)))
        cost, best = min(((_cost(plan), index) for index, plan in enumerate(plans)))
        reason = _reason(
            cost, max(proof.bound_s, floor), floor, None if tasks.n == problem.n else tasks.n
        )
        return Plan(problem, "exact", plans[best].groups, reason)


def _cost(plan: Plan) -> float:
    try:
        return measure(plan, "latency")
    except OutOfMemory:
        return math.inf


def _reason(cost: float, proven: float, floor: float, tasks: int | None) -> str:
    """Say what is proven; `tasks` is their number where they are not the nodes."""
    kept = "" if tasks is None else f" among plans that keep {tasks} tasks whole"
    if cost <= proven * (1.0 + EQUAL):
        return f"proven optimal{kept}"
    if cost <= proven * (1.0 + ROUNDED):
        return f"proven optimal{kept}, but for rounding to the solver's clock ({ROUNDED:.0e})"
    gap = f"at most {cost / proven - 1.0:.1%} above the best" if proven > 0 else "nothing proven"
    if tasks is None or floor <= 0:
        return gap + kept
    return f"{gap}{kept}, and at most {cost / floor - 1.0:.1%} above any"


def _timed(tasks: Problem, groups: Sequence[Group]) -> Schedule:
    """Estimate when each task of a plan runs."""
    listing = Listing(tasks)
    draft = draft_of(tasks, groups)
    for v in draft.order:
        listing.place(v, listing.slot(v, draft.device[v]))
    return listing.schedule()
