"""Strategy ``exact``: the shortest makespan, with a proof or the gap that is left."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec

import numpy as np

from hetsim.core import deadline
from hetsim.core.going import AT_MOST, before, say
from hetsim.errors import OutOfMemory, UsageError
from hetsim.placement.bounds.lower_bound import bound_of
from hetsim.placement.coarsening.tasks import Coarse, pays_to_coarsen
from hetsim.placement.constraints import Constrained
from hetsim.placement.fitting.exhaustive import Found, search_all
from hetsim.placement.fitting.footprint import Footprint
from hetsim.placement.grouping.best import best_grouping
from hetsim.placement.grouping.refinement import merge_where_it_pays
from hetsim.placement.listing.list_schedule import Schedule, scheduled
from hetsim.placement.narrowing import narrowed
from hetsim.placement.objective import latency_of, measure
from hetsim.placement.search.constraint_model import load_cp_model, solve_makespan
from hetsim.placement.search.drafts import draft_of
from hetsim.placement.starting.constructive import prepared
from hetsim.placement.starting.starts import Start, quick_start, starts_that_fit
from hetsim.placement.strategies.local_search import LocalSearch
from hetsim.problem.groups import Group
from hetsim.problem.plan import Plan
from hetsim.problem.problem import Problem

MOST_TASKS = 200
"""Tasks above which the constraint model is not built: it could prove nothing there."""
MOST_FORBIDDEN = 20
"""Assignments whose activations do not fit that are ruled out, one after another."""
KEPT_BACK = 10.0
"""Of a time limit, so many times what a plan takes to check is kept back for the last one."""
CP_SAT = "ortools.sat.python.cp_model"
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
        Wall-clock seconds, those of the search before the solver and of loading it included. The
        answer is the same in every process as long as the proof is found in time. Where they are
        too few for the solver, or for a search, the reason says so.

    Complexity: exponential; up to about 50 tasks in seconds to minutes. Needs the extra
    ``exact`` (OR-tools CP-SAT).
    """

    time_limit_s: float = 30.0

    def solve(self, problem: Problem) -> Plan:
        """Return the plan.

        Raises
        ------
        NotInstalled
            Where OR-tools is not installed.
        UsageError
            For a limit that is not above 0, or a problem of more than MOST_TASKS tasks.
        UnsupportedNode, OutOfMemory
            Where no plan is feasible.
        """
        if not 0 < self.time_limit_s < math.inf:
            raise UsageError(f"time_limit_s is {self.time_limit_s}", hint="give a number above 0")
        if find_spec("ortools") is None:
            load_cp_model()
        with deadline.by_wall_clock():
            end_s = deadline.now_s() + self.time_limit_s
            return self.within(problem, lambda narrowed: self._before(end_s, narrowed))

    def _solve(self, problem: Problem) -> Plan:
        return self._before(deadline.now_s() + self.time_limit_s, problem)

    def _before(self, end_s: float, problem: Problem) -> Plan:
        """Return the best plan met before `end_s`, a quick one where nothing else was."""
        began_s = deadline.now_s()
        # A plan comes before the limit.
        quick = quick_start(problem, "latency")
        if quick is None:
            quick = starts_that_fit(prepared(problem), "latency")[1][0]
        kept_s = KEPT_BACK * (deadline.now_s() - began_s)
        if self.max_devices is not None:
            # Another plan may be needed, with a device less.
            end_s = (deadline.now_s() + end_s) / 2
        with deadline.until(end_s - kept_s):
            try:
                return self._searched(problem, quick)
            except deadline.OutOfTime:
                reason = f"{quick.plan.reason}: time_limit_s left no time to search"
                return Plan(problem, "exact", quick.plan.groups, reason.removeprefix(": "))

    def _searched(self, problem: Problem, quick: Start) -> Plan:
        coarse = prepared(problem)
        if coarse.problem.n > MOST_TASKS:
            raise UsageError(
                f"strategy 'exact' takes up to {MOST_TASKS} tasks, "
                f"{problem.name} has {coarse.problem.n}",
                hint="use local-search",
            )
        deadline.check()
        solver = deadline.may_load(CP_SAT)
        if solver:
            load_cp_model()
        # The search takes half of what is left at most, and the bound half of the rest.
        with before(deadline.left_s()), deadline.until(deadline.now_s() + deadline.left_s() / 2):
            coarse, starts = LocalSearch().starts(coarse, quick)
            tasks, start = coarse.problem, starts[0]
            groups, _, _ = LocalSearch().improve(coarse, start)
        plans = [start.plan, Plan(problem, "exact", coarse.spread(groups))]
        began_s = deadline.now_s()
        costs = [_cost(plan) for plan in plans]
        each_s = (deadline.now_s() - began_s) / len(plans)
        with deadline.until(deadline.now_s() + deadline.left_s() / 2):
            floor = bound_of(problem)
        bound_s = 0.0
        if solver:
            hint = _timed(tasks, groups)
            left_s = deadline.left_s() - KEPT_BACK * each_s
            found, bound_s = self._solved(coarse, min(costs), hint, floor, left_s)
            plans += found
            costs += [_cost(plan) for plan in found]
        cost, best = min((cost, index) for index, cost in enumerate(costs))
        reason = _reason(
            cost, max(bound_s, floor), floor, None if tasks.n == problem.n else tasks.n
        )
        if not solver:
            reason += "; time_limit_s left no time to load the solver"
        return Plan(problem, "exact", plans[best].groups, reason)

    def _solved(
        self, coarse: Coarse, horizon_s: float, hint: Schedule, floor: float, left_s: float
    ) -> tuple[list[Plan], float]:
        """Return the plans made of the solver's schedules in `left_s`, and what is proven.

        The solver knows weights, and what a node reads and makes. Where its schedule's
        activations then do not fit in any grouping, its assignment is forbidden and it is asked
        again. What it proves after that holds where ``search_all`` finds no plan for any of them.
        """
        tasks = coarse.problem
        beside = _beside(coarse)
        until_s = deadline.now_s() + left_s
        say(0.0, "proving", left_s, AT_MOST)
        forbidden: list[Sequence[int]] = []
        bound_s, sound = 0.0, True
        with suppress(deadline.OutOfTime):
            while len(forbidden) <= MOST_FORBIDDEN:
                left_s = until_s - deadline.now_s()
                proof = solve_makespan(tasks, horizon_s, hint, floor, left_s, beside, forbidden)
                if sound:
                    bound_s = horizon_s if proof.infeasible else max(bound_s, proof.bound_s)
                if proof.schedule is None:
                    break
                assignment = proof.schedule.assignment
                try:
                    return [_grouped(coarse, proof.schedule)], bound_s
                except OutOfMemory:
                    few = _laid_out(coarse, assignment)
                    if few.groups is not None:
                        return [Plan(coarse.fine, "exact", few.groups)], bound_s
                    sound = sound and few.complete
                    forbidden.append(assignment)
        return [], bound_s


def _grouped(coarse: Coarse, schedule: Schedule) -> Plan:
    """Return the plan of a schedule. Raises OutOfMemory where it does not fit."""
    made, _ = best_grouping(coarse.problem, schedule.assignment, schedule.order)
    if pays_to_coarsen(coarse.fine):
        with suppress(deadline.OutOfTime):
            made = merge_where_it_pays(coarse.problem, made)
    plan = Plan(coarse.fine, "exact", coarse.spread(made))
    latency_of(plan)
    return plan


def _beside(coarse: Coarse) -> list[list[int]]:
    """Bytes that a device needs beside its weights while it runs some node of a task."""
    if coarse.fine.capacity_bytes is None:
        return []
    beside = Footprint.of(coarse.fine).beside
    count = len(coarse.fine.devices)
    return [[max(beside[v][p] for v in nodes) for p in range(count)] for nodes in coarse.members]


def _laid_out(coarse: Coarse, assignment: Sequence[int]) -> Found:
    """Look at every plan with one assignment of the tasks, where that is few."""
    problem = coarse.fine
    allowed = np.zeros((problem.n, len(problem.devices)), dtype=np.bool_)
    for v, task in enumerate(coarse.task_of):
        allowed[v, assignment[task]] = True
    return search_all(narrowed(problem, allowed))


def _cost(plan: Plan) -> float:
    try:
        return measure(plan, "latency")
    except OutOfMemory:
        return math.inf


def _reason(cost: float, proven: float, floor: float, tasks: int | None) -> str:
    """Say what is proven; `tasks` is their number where they are not the nodes."""
    several = "1 task" if tasks == 1 else f"{tasks} tasks"
    kept = "" if tasks is None else f" among plans that keep {several} whole"
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
    draft = draft_of(tasks, groups)
    return scheduled(tasks, None, draft.order, only=draft.device)
