"""Strategy ``local-search``: annealing from the best constructive plan, simulated."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from typing import ClassVar

from hetsim.core import deadline
from hetsim.errors import Infeasible, OutOfMemory, UsageError
from hetsim.placement.coarsening import MOST_TASKS, coarsen, fewer, loses, pays_to_coarsen
from hetsim.placement.constraints import Constrained
from hetsim.placement.grouping import merge_where_it_pays, refine
from hetsim.placement.initial_plans import (
    Start,
    constructive,
    least_total_groups,
    prepared,
    quick_start,
    starts_that_fit,
)
from hetsim.placement.objective import Objective, check_objective, measure, memory_binds
from hetsim.placement.priced_start import LARGE, priced_start
from hetsim.placement.search.annealing import JUDGED, Budget, rounds, walk
from hetsim.placement.throughput.search import search_stages, within_memory
from hetsim.problem.coarse import Coarse, uncoarsened
from hetsim.problem.columns import cached
from hetsim.problem.groups import Group
from hetsim.problem.plan import Plan
from hetsim.problem.problem import Problem
from hetsim.simulation.clock.runs import once

WORK, FEW, MANY, WORK_OF_MANY = 400_000, 50, 200, 8_000_000
"""Number of tasks to evaluate, which sets the default number of moves: above FEW tasks, less by the
factor FEW / tasks; from MANY on, WORK_OF_MANY, in machine code and from one start."""
LEAST_MOVES, MOST_MOVES = 250, 20_000
STAGE_MOVES, CHUNK = 300_000, 50_000
"""Default number of moves for throughput, and the number made from one start at a time."""
ORDERS = 10
"""Number of orders cut for throughput."""
KEPT_BACK: Mapping[Objective, float] = {"latency": 3.0, "throughput": 6.0}
"""Multiple of a quick plan's time that is reserved for checking the last plan, which for throughput
may have one subgraph per node."""
PRICED_FROM, MOST_PRICED, MOST_LIMITED = 60, 10_000, 20_000
"""Minimum tasks for a priced start, and the maximum without a deadline and with one."""
PRICED_PART = 2 / 3, 0.8
"""Share of the remaining time for a priced start: up to LARGE tasks, and above, where moves gain
little in seconds."""
FEW_TASKS, OF_FEW_PART = ((64, 1.05), (32, 1.15)), 0.1
"""Numbers of tasks to which MANY are merged, for moves of whole branches, each with the cost
relative to the best above which its plan is dropped; and the share of the budget for each."""
BEGUN_S = 5e-5
"""Seconds per task to start moves and to judge their result."""
MOST_JUDGED = 1_000
"""Maximum number of drafts to simulate, besides the start, if a budget is given."""


@dataclass(frozen=True, slots=True)
class LocalSearch(Constrained):
    """Simulated annealing from the best list schedule or device, for latency or throughput.

    For throughput: ``stage_moves``, from the best start and from slices, on nodes. For latency:
    simulated annealing over drafts: a topological order, a device a node, and where subgraphs are
    cut; of many nodes without links mostly critical ones move. A move is weighed by
    ``estimates.cost``, which equals the clock where links are free of contention; what improves on
    everything before is judged by the clock itself. It starts from the best constructive plan and
    every device alone, of some tasks also from ``priced_start``, of MANY from the better of both,
    and never returns worse. On a model it also starts where branches may end before they join, and
    of MANY tasks from what moves of whole branches make of one device; the moves are of tasks, and
    at last borders are refined node by node and equal layers made as one of them is. Anytime: the
    budget sets how slowly it cools and how many rounds there are (``annealing.rounds``). Much work
    is done by machine code, with the same answer.

    Attributes
    ----------
    objective : "latency" or "throughput"
        What the plan is for.
    moves : int, optional
        Moves tried; absent: as many as evaluate WORK tasks in all, fewer of more than FEW
        tasks, WORK_OF_MANY of MANY, or STAGE_MOVES for throughput. The answer is the same in
        every process.
    time_limit_s : float, optional
        CPU seconds, those for the start and for checking the plan included; in place of
        `moves`, and the answer depends on the machine. Where they are too few for a search a
        quick plan is returned, and its reason says so; where no quick plan fits the memory,
        one that does is looked for first, however long that takes.
    seed : int
        Of the moves.

    Complexity: O((V + E) moves). Source: S. Kirkpatrick, C. D. Gelatt, M. P. Vecchi,
    Optimization by simulated annealing, Science 220, 1983; the neighbourhoods are own. Few tasks
    first, then more: G. Karypis, V. Kumar, as ``coarsen``.
    """

    promises: ClassVar = ("latency", "throughput")

    objective: Objective = "latency"
    moves: int | None = None
    time_limit_s: float | None = None
    seed: int = 0

    def solve(self, problem: Problem) -> Plan:
        """Return the best plan found."""
        check_objective(self.objective)
        if self.moves is not None and self.time_limit_s is not None:
            raise UsageError("both 'moves' and 'time_limit_s' are given", hint="use one of the two")
        for name, budget in (("moves", self.moves), ("time_limit_s", self.time_limit_s)):
            if budget is not None and not 0 <= budget < math.inf:
                raise UsageError(f"{name} is {budget}", hint="use 0 or more")
        if self.time_limit_s is None:
            return self.within(problem, self._solve)
        end_s = deadline.now_s() + self.time_limit_s
        return self.within(problem, lambda narrowed: self._before(end_s, narrowed))

    def _before(self, end_s: float, problem: Problem) -> Plan:
        """Return the best plan found before `end_s`, or a quick one if there is no other."""
        began_s = deadline.now_s()
        quick = quick_start(problem, self.objective)
        took_s = deadline.now_s() - began_s
        if quick is None:
            # A plan has priority over the time limit.
            try:
                quick = starts_that_fit(prepared(problem), self.objective)[1][0]
            except Infeasible:
                if self.objective == "latency":
                    raise
                return replace(self, time_limit_s=None, moves=0).spread_out(problem, [])
        try:
            with deadline.until(end_s - KEPT_BACK[self.objective] * took_s):
                deadline.check()
                return self._solve(problem, quick)
        except deadline.OutOfTime:
            reason = f"{quick.plan.reason}: time_limit_s left no time for the search"
            return Plan(problem, "local-search", quick.plan.groups, reason)

    def _solve(self, problem: Problem, quick: Start | None = None) -> Plan:
        """Return the best plan found; `quick` is the one known under a deadline."""
        coarse = prepared(problem)
        if self.objective == "throughput":
            starts: list[Start] = []
            with suppress(Infeasible):
                _, starts = self.starts(coarse, quick)
            return self.spread_out(problem, starts)
        if quick is None:
            return self.best_from(self.begun(*starts_that_fit(coarse, self.objective)))
        found = self.priced(coarse)
        if not found or pays_to_coarsen(problem):
            # If dispatch is free, the list schedule of nodes is among the priced ones.
            try:
                at, starts = self.starts(coarse, quick, 0.25 if found else 0.5)
                found.append((at, starts[0]))
            except deadline.OutOfTime:
                if not found:
                    raise
        at, best = min(found, key=lambda one: one[1].cost)
        few = self.of_few(at, best.cost)
        return self.improved(at, few if few is not None and few.cost < best.cost else best)

    def starts(
        self, coarse: Coarse, quick: Start | None, share: float = 0.5
    ) -> tuple[Coarse, list[Start]]:
        """Return ``starts_that_fit``, within at most a share of the time."""
        if quick is None:
            return starts_that_fit(coarse, self.objective)
        known = replace(quick, groups=coarse.gathered(quick.plan.groups) or ())
        with deadline.until(deadline.now_s() + deadline.left_s() * share):
            try:
                found, starts = starts_that_fit(coarse, self.objective)
            except (Infeasible, deadline.OutOfTime):
                found, starts = coarse, []
        if found is coarse and known.groups and all(known.cost < one.cost for one in starts):
            starts = [known, *starts]
        if not starts:
            raise deadline.OutOfTime
        return found, starts

    def best_from(self, begun: Sequence[tuple[Coarse, Start]]) -> Plan:
        """Return the best latency plan found from any of these."""
        made = [self.improved(*one) for one in begun]
        coarse = begun[0][0]
        if coarse.problem.n >= MANY:
            few = self.of_few(coarse, min(measure(plan, "latency") for plan in made))
            made += [self.improved(coarse, few)] if few is not None else []
        return min(made, key=lambda plan: measure(plan, "latency")) if len(made) > 1 else made[0]

    def of_few(self, coarse: Coarse, cost: float) -> Start | None:
        """Return the plan of moves of few tasks, then of more, starting from one device.

        A branch may pay off on another device only as a whole, so moves of single tasks miss it.
        None for fewer than MANY tasks, or if the plan is so far above `cost` that moves of all
        tasks would not make up for it.
        """
        problem = coarse.fine
        if coarse.problem.n < MANY or not pays_to_coarsen(problem) or memory_binds(problem):
            return None
        if deadline.left_s() <= BEGUN_S * coarse.problem.n:
            return None
        start = quick_start(problem, "latency")
        if start is None or len(start.groups) > 1:
            return None
        search = self
        if self.time_limit_s is None:
            moves = MOST_MOVES if self.moves is None else int(self.moves * OF_FEW_PART)
            search = replace(self, moves=moves)
        levels = [coarse]
        with suppress(deadline.OutOfTime):
            for most, _ in FEW_TASKS:
                levels.append(fewer(levels[-1], most))
            everything = tuple(range(levels[-1].problem.n))
            start = replace(start, groups=(replace(start.groups[0], nodes=everything),))
            for k in range(len(FEW_TASKS), 0, -1):
                with deadline.until(deadline.now_s() + deadline.left_s() * OF_FEW_PART):
                    groups, least, _ = search.improve(levels[k], start)
                if least > cost * FEW_TASKS[k - 1][1]:
                    return None
                plan = Plan(problem, "local-search", levels[k].spread(groups))
                known = levels[k - 1].gathered(plan.groups)
                assert known is not None
                start = Start("a plan of few tasks", plan, known, least)
            return start
        return None

    def begun(self, coarse: Coarse, starts: Sequence[Start]) -> list[tuple[Coarse, Start]]:
        """Return the best of `starts` and the best priced start; of MANY tasks only the better one.

        If memory binds, both are kept, as the result then depends on the start.

        `heft` and a priced start of tasks cut before joins of branches are included.
        """
        problem = coarse.fine
        found, priced = [(coarse, starts[0])], self.priced(coarse)
        # Tasks merged down to MOST_TASKS are equally many with and without cuts.
        if pays_to_coarsen(problem) and coarse.problem.n != MOST_TASKS:
            finer = coarsen(problem, joins_apart=True)
            if finer.problem.n > coarse.problem.n:
                with suppress(Infeasible):
                    groups, how = constructive("heft").groups(finer)
                    how += ", shortcuts apart from joins"
                    plan = Plan(problem, "heft", finer.spread(groups), how)
                    found.append((finer, Start("heft", plan, groups, measure(plan, "latency"))))
                priced += self.priced(finer)
        best = [min(some, key=lambda one: one[1].cost) for some in (found, priced) if some]
        best.sort(key=lambda one: one[1].cost)
        return best[: 2 if coarse.problem.n < MANY or memory_binds(problem) else 1]

    def improved(self, coarse: Coarse, start: Start) -> Plan:
        """Return the best latency plan found from `start`."""
        problem = coarse.fine
        groups, cost, tried = self.improve(coarse, start)
        plan = Plan(problem, "local-search", coarse.spread(groups))
        if cost < start.cost:
            try:
                cost = measure(plan, self.objective)
            except OutOfMemory:
                # Activations inside a task count only for the whole problem.
                cost = math.inf
        if cost >= start.cost:
            plan = Plan(problem, "local-search", start.plan.groups)
            cost = start.cost
        gained = f"{tried} moves from {start.name}"
        found = Plan(problem, "local-search", plan.groups, gained)
        if pays_to_coarsen(problem):
            found = refine(found, self.objective, cost)
        if memory_binds(problem):
            # Moves rarely merge subgraphs that were cut small to fit.
            found = replace(found, groups=merge_where_it_pays(problem, found.groups, thorough=True))
        return found

    def spread_out(self, problem: Problem, starts: Sequence[Start]) -> Plan:
        """Return the best throughput plan found by moves of nodes from the best of `starts`."""
        start = min(starts, key=lambda found: found.cost, default=None)
        most = STAGE_MOVES if self.moves is None else self.moves

        def following(tried: int) -> int:
            return CHUNK if self.time_limit_s is not None else min(CHUNK, most - tried)

        def solve(left: Problem) -> Plan:
            known = [start.plan] if start is not None else []
            return search_stages(left, known, ORDERS, following, self.seed)

        gained = f"from {start.name if start else 'no plan'} and slices, by moves of nodes"
        try:
            with suppress(deadline.OutOfTime):
                made, cost = within_memory(problem, solve)
                if start is None or cost < start.cost:
                    return Plan(problem, "local-search", made.groups, gained)
        except Infeasible:
            if start is None:
                raise
        if start is None:
            raise deadline.OutOfTime
        return Plan(problem, "local-search", start.plan.groups, gained)

    def priced(self, coarse: Coarse) -> list[tuple[Coarse, Start]]:
        """Return ``priced_start`` of many tasks, and of the nodes if tasks are much slower.

        If memory binds, return the plan of least total time that fits.
        """
        found: list[tuple[Coarse, Start]] = []
        if memory_binds(coarse.fine):
            groups = least_total_groups(coarse.fine)
            if groups is not None:
                plan = Plan(coarse.fine, "mincut", groups)
                cut = coarse.cut_by(groups)
                own = cut.gathered(groups)
                assert own is not None
                found.append((cut, Start("mincut", plan, own, measure(plan, "latency"))))
            return found
        for at in (uncoarsened(coarse.fine), coarse) if loses(coarse) else (coarse,):
            most = MOST_LIMITED if deadline.is_set() else MOST_PRICED
            if PRICED_FROM <= at.problem.n <= most:
                share = PRICED_PART[at.problem.n > LARGE]
                with deadline.until(deadline.now_s() + deadline.left_s() * share):
                    start = priced_start(at)
                if start is not None:
                    found.append((at, start))
        return found

    def improve(
        self, coarse: Coarse, start: Start, judged: int = MOST_JUDGED
    ) -> tuple[tuple[Group, ...], float, int]:
        """Return the best groups found on the tasks, their simulated cost, and moves tried.

        `judged`: maximum number of drafts to simulate if a budget is given, including the last.
        """
        problem = coarse.problem
        if problem.n == 0 or (len(problem.devices) == 1 and not any(problem.dispatch_s)):
            return start.groups, start.cost, 0

        @cache  # With few tasks the same drafts recur.
        def lacking(groups: tuple[Group, ...]) -> Sequence[int] | None:
            """Return by device the bytes that the groups lack, including nodes within tasks."""
            with suppress(Infeasible):
                return once(Plan(coarse.fine, "draft", coarse.spread(groups))).lacks
            return None

        binds = memory_binds(coarse.fine)
        given = self.moves is not None or self.time_limit_s is not None
        known = _done(problem)
        asked = start.groups, self.seed
        if given:
            if deadline.left_s() <= BEGUN_S * problem.n:
                return start.groups, start.cost, 0
            began_s = deadline.now_s()
            left_s = deadline.left_s() if deadline.is_set() else 0.0
            budget = Budget(self.moves, began_s, began_s + left_s)
        else:
            if not binds and asked in known:
                return known[asked]
            many = problem.n >= MANY
            work = WORK_OF_MANY if many else WORK * min(FEW, problem.n) // problem.n
            budget = Budget(min(MOST_MOVES, max(LEAST_MOVES, work // problem.n)))
        way = walk(problem, start.groups, self.seed, lacking if binds else None, budget)
        judge = _Judge(problem, start, judged if given else JUDGED)
        tried = rounds(way, problem, budget, judge)
        if not given and not binds and deadline.left_s() > 0.0:
            known[asked] = judge.groups, judge.cost, tried
        return judge.groups, judge.cost, tried


@cached
def _done(
    _: Problem,
) -> dict[tuple[tuple[Group, ...], int], tuple[tuple[Group, ...], float, int]]:
    """Cache of default searches by their start, shared by the strategies that ``auto`` tries."""
    return {}


class _Judge:
    """Keeper of the best simulated draft."""

    def __init__(self, problem: Problem, start: Start, trials: int) -> None:
        self._problem, self._left = problem, trials
        self.groups: tuple[Group, ...] = start.groups
        self.cost = start.cost

    def __call__(self, groups: tuple[Group, ...], *, last: bool) -> None:
        """Simulate `groups`; one trial is reserved for the last."""
        if self._left <= (0 if last else 1) or (not last and deadline.left_s() <= 0.0):
            return
        self._left -= 1
        try:
            cost = measure(Plan(self._problem, "draft", groups), "latency")
        except Infeasible:
            return
        if cost < self.cost:
            self.groups, self.cost = groups, cost
