"""Strategy ``exact``: the shortest makespan, with a proof or an optimality gap."""

from __future__ import annotations

import math
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, ClassVar

import numpy as np

from hetsim.core import deadline
from hetsim.core.progress import AT_MOST, before, say
from hetsim.errors import NotInstalled, OutOfMemory, UsageError
from hetsim.placement.bounds.lower_bound import bound_of, path_bound_of
from hetsim.placement.coarsening import pays_to_coarsen
from hetsim.placement.constraints import Constrained, narrowed
from hetsim.placement.feasibility import FeasibilityResult, search_all
from hetsim.placement.footprint import Footprint
from hetsim.placement.grouping import best_grouping, merge_where_it_pays
from hetsim.placement.initial_plans import Start, prepared, quick_start, starts_that_fit
from hetsim.placement.listing.list_schedule import Schedule, scheduled
from hetsim.placement.objective import latency_of, measure
from hetsim.placement.search.drafts import draft_of
from hetsim.placement.strategies.local_search import LocalSearch
from hetsim.problem.coarse import Coarse
from hetsim.problem.columns import travel_matrices
from hetsim.problem.groups import Group
from hetsim.problem.parts import GRAPH_INPUT
from hetsim.problem.plan import Plan
from hetsim.problem.problem import Problem

TICKS = 1_000_000
"""Ticks of the solver's clock over the horizon, if times have no common divisor."""


@dataclass(frozen=True, slots=True)
class Proof:
    """Result of the solver."""

    schedule: Schedule | None  # The best one; None if none was found in time
    bound_s: float  # Lower bound on every schedule, up to rounding
    optimal: bool  # Whether the schedule meets the bound
    infeasible: bool  # Whether it is proven that no schedule exists


def solve_makespan(
    problem: Problem,
    horizon_s: float,
    hint: Schedule | None,
    lower_s: float,
    time_limit_s: float,
    beside: Sequence[Sequence[int]] = (),
    forbidden: Sequence[Sequence[int]] = (),
    work: float = math.inf,
) -> Proof:
    """Solve the contention-free relaxation of `problem`, in which nodes need not be grouped.

    Every plan satisfies it, so the bound holds for every plan. `horizon_s` is a feasible makespan,
    `lower_s` a known bound, `time_limit_s` in wall-clock time; `beside` [n][P] the bytes that a
    device needs besides its weights while it runs a node; the assignments `forbidden` are excluded.
    `work` limits the solver's deterministic time in seconds, which is the same in every process.
    Raises NotInstalled without OR-tools, and OutOfTime.
    """
    end_s = deadline.now_s() + time_limit_s
    cp_model = load_cp_model()
    model = _Model(cp_model, problem, horizon_s, lower_s, beside)
    for assignment in forbidden:
        model.forbid(assignment)
    left_s = end_s - deadline.now_s()
    if left_s <= 0.0:
        raise deadline.OutOfTime
    return model.solve(hint, left_s, work)


def load_cp_model() -> Any:
    """Return OR-tools' CP-SAT module. Raises NotInstalled if it is missing or broken."""
    try:
        from ortools.sat.python import cp_model
    except ImportError as error:
        # Extension modules report an interrupt during import as a failure.
        cause = error.__cause__
        if cause is not None and not isinstance(cause, Exception):
            raise cause from None
        absent = isinstance(error, ModuleNotFoundError)
        raise NotInstalled(
            "strategy 'exact' needs OR-tools, which "
            + ("is not installed" if absent else f"does not load: {error}"),
            hint="pip install 'hetsim[exact]'",
            package="ortools",
        ) from None
    return cp_model


class _Model:
    def __init__(
        self,
        cp_model: Any,
        problem: Problem,
        horizon_s: float,
        lower_s: float,
        beside: Sequence[Sequence[int]],
    ) -> None:
        self.cp_model, self.problem = cp_model, problem
        self.tick_s = _tick(problem, horizon_s)
        self.top = math.ceil(horizon_s / self.tick_s * (1 + 1e-12))
        model = self.model = cp_model.CpModel()
        n, count = problem.n, len(problem.devices)
        seconds = np.where(problem.runnable, problem.shared_seconds, np.inf)
        # Rounded down, so that a bound in ticks holds in seconds.
        self.ticks = [
            [self._down(s) if s < math.inf else -1 for s in row] for row in seconds.tolist()
        ]
        self.start = [model.new_int_var(0, self.top, f"start{v}") for v in range(n)]
        self.end = [model.new_int_var(0, self.top, f"end{v}") for v in range(n)]
        # None if the device does not support the node.
        self.on: list[list[Any]] = [
            [model.new_bool_var(f"on{v},{p}") if row[p] >= 0 else None for p in range(count)]
            for v, row in enumerate(self.ticks)
        ]
        self.makespan = model.new_int_var(
            min(math.floor(lower_s / self.tick_s * (1 - 1e-9)), self.top), self.top, "makespan"
        )
        lanes: list[list[Any]] = [[] for _ in range(count)]
        for v in range(n):
            deadline.check()
            model.add_exactly_one([b for b in self.on[v] if b is not None])
            model.add(self.end[v] <= self.makespan)
            for p in range(count):
                if self.on[v][p] is not None:
                    lanes[p].append(
                        model.new_optional_interval_var(
                            self.start[v], self.ticks[v][p], self.end[v], self.on[v][p], f"{v},{p}"
                        )
                    )
        for p, lane in enumerate(lanes):
            if problem.streams[p] == 1:
                model.add_no_overlap(lane)
            else:
                model.add_cumulative(lane, [1] * len(lane), problem.streams[p])
        self._transfers()
        self._dispatch()
        self._area()
        self._memory(beside)
        model.minimize(self.makespan)

    def _down(self, seconds: float) -> int:
        return math.floor(seconds / self.tick_s * (1 + 1e-12) + 1e-9)

    def _transfers(self) -> None:
        problem, model, host = self.problem, self.model, self.problem.host
        latency_s, bytes_per_s = travel_matrices(problem)
        count = len(problem.devices)
        # One constraint per edge and pair of devices, for the slowest of its tensors.
        slowest: dict[tuple[int, int], Any] = {}
        for value in problem.values:
            travel = latency_s + value.nbytes / bytes_per_s
            if value.producer == GRAPH_INPUT:
                if host is not None:
                    for v in value.consumers:
                        self._after_input(v, travel[host])
                continue
            for v in value.consumers:
                key = (value.producer, v)
                known = slowest.get(key)
                slowest[key] = travel if known is None else np.maximum(known, travel)
            if value.is_output and host is not None:
                for p, on in enumerate(self.on[value.producer]):
                    if on is not None:
                        back = self._down(float(travel[p, host]))
                        model.add(self.end[value.producer] + back <= self.makespan).only_enforce_if(
                            on
                        )
        dispatch = [self._down(s) for s in problem.dispatch_s]
        for (u, v), travel in sorted(slowest.items(), key=lambda item: item[0]):
            deadline.check()
            model.add(self.start[v] >= self.end[u])
            # Symmetric pairs of equal cost are common: one literal for "apart" serves both.
            by_cost: dict[int, list[tuple[int, int]]] = {}
            for p in range(count):
                for q in range(count):
                    if p == q or self.on[u][p] is None or self.on[v][q] is None:
                        continue
                    lag_s = float(travel[p, q])
                    if lag_s == math.inf:
                        model.add_bool_or([~self.on[u][p], ~self.on[v][q]])
                        continue
                    lag = self._down(lag_s) + dispatch[q]
                    if lag:
                        by_cost.setdefault(lag, []).append((p, q))
            for lag, pairs in by_cost.items():
                apart = model.new_bool_var(f"{u}>{v}:{lag}")
                for p, q in pairs:
                    model.add_bool_or([~self.on[u][p], ~self.on[v][q], apart])
                model.add(self.start[v] >= self.end[u] + lag).only_enforce_if(apart)

    def _after_input(self, v: int, travel: Sequence[float]) -> None:
        for p, on in enumerate(self.on[v]):
            if on is None:
                continue
            if travel[p] == math.inf:
                self.model.add(on == 0)
            else:
                lag = self._down(float(travel[p])) + self._down(self.problem.dispatch_s[p])
                self.model.add(self.start[v] >= lag).only_enforce_if(on)

    def _dispatch(self) -> None:
        for v in range(self.problem.n):
            for p, on in enumerate(self.on[v]):
                dispatch = self._down(self.problem.dispatch_s[p])
                if on is not None and dispatch:
                    self.model.add(self.start[v] >= dispatch).only_enforce_if(on)

    def _area(self) -> None:
        """Constrain the work of each device to the makespan: redundant, but fast to propagate."""
        for p, streams in enumerate(self.problem.streams):
            load = [
                self.ticks[v][p] * on
                for v, row in enumerate(self.on)
                if (on := row[p]) is not None and self.ticks[v][p]
            ]
            if load:
                self.model.add(sum(load) <= streams * self.makespan)

    def forbid(self, assignment: Sequence[int]) -> None:
        """Exclude one assignment of all nodes."""
        literals = [self.on[v][p] for v, p in enumerate(assignment)]
        self.model.add_bool_or([~on for on in literals if on is not None])

    def _memory(self, beside: Sequence[Sequence[int]]) -> None:
        """Constrain weights, plus the inputs and outputs of each running node, to the memory."""
        if self.problem.capacity_bytes is None:
            return
        for p, capacity in enumerate(self.problem.capacity_bytes):
            deadline.check()
            held: list[Any] = []
            for c, constant in enumerate(self.problem.constants):
                readers = [on for v in constant.consumers if (on := self.on[v][p]) is not None]
                if not readers or not constant.nbytes:
                    continue
                there = readers[0]
                if len(readers) > 1:
                    there = self.model.new_bool_var(f"weight{c},{p}")
                    for on in readers:
                        self.model.add_implication(on, there)
                held.append(constant.nbytes * there)
            if held:
                self.model.add(sum(held) <= capacity)
            for v, on in enumerate(row[p] for row in self.on):
                if beside and on is not None and beside[v][p]:
                    self.model.add(sum(held) + beside[v][p] <= capacity).only_enforce_if(on)

    def solve(self, hint: Schedule | None, time_limit_s: float, work: float) -> Proof:
        if hint is not None:
            for v, device in enumerate(hint.assignment):
                self.model.add_hint(self.start[v], min(self._down(hint.start_s[v]), self.top))
                for p, on in enumerate(self.on[v]):
                    if on is not None:
                        self.model.add_hint(on, p == device)
        solver = self.cp_model.CpSolver()
        solver.parameters.max_time_in_seconds = time_limit_s
        solver.parameters.max_deterministic_time = work
        # The same answer in every process, unless the time limit is reached.
        solver.parameters.num_workers = 8
        solver.parameters.interleave_search = True
        solver.parameters.random_seed = 0
        status = _solved(solver, self.model)
        cp_model = self.cp_model
        bound_s = max(0.0, solver.best_objective_bound) * self.tick_s
        if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
            return Proof(None, bound_s, False, status == cp_model.INFEASIBLE)
        assignment = tuple(
            next(p for p, on in enumerate(row) if on is not None and solver.value(on))
            for row in self.on
        )
        begin = tuple(solver.value(var) * self.tick_s for var in self.start)
        end = tuple(solver.value(var) * self.tick_s for var in self.end)
        return Proof(Schedule(assignment, begin, end), bound_s, status == cp_model.OPTIMAL, False)


def _solved(solver: Any, model: Any) -> Any:
    """Solve in a thread, so that Ctrl-C reaches Python meanwhile and stops the solver."""
    solver.parameters.catch_sigint_signal = False
    with ThreadPoolExecutor(1) as pool:
        working: Future[Any] | None = None
        try:
            working = pool.submit(solver.solve, model)
            return working.result()
        except BaseException:
            # Repeated until it takes effect, as the search may not have started.
            while working is not None and not working.done():
                solver.stop_search()
                wait([working], timeout=0.05)
            raise


def _tick(problem: Problem, horizon_s: float) -> float:
    """Return the largest of 1, 1/2, 1/4 .. 1/1024 s that divides all times, or a small tick."""
    latency_s, bytes_per_s = travel_matrices(problem)
    times = {0.0, *problem.dispatch_s, *problem.shared_seconds[problem.runnable].tolist()}
    for value in problem.values:
        times.update((latency_s + value.nbytes / bytes_per_s).ravel().tolist())
    finite = [s for s in sorted(times) if s < math.inf]
    for denominator in (1, 2, 4, 8, 10, 16, 100, 1000):
        exact = all((s * denominator).is_integer() for s in finite)
        if exact and horizon_s * denominator <= 2**40:
            return 1.0 / denominator
    return max(horizon_s, 1e-12) / TICKS


MOST_TASKS = 200
"""Number of tasks above which the constraint model is not built, as it would prove nothing."""
MOST_FORBIDDEN = 20
"""Maximum number of assignments to exclude because their activations do not fit."""
KEPT_BACK = 10.0
"""Multiple of the time that a plan takes to check, which is reserved for the last plan."""
CP_SAT = "ortools.sat.python.cp_model"
PROVEN = "proven optimal"
EQUAL, ROUNDED = 1e-9, 1e-4
"""Relative tolerances between a latency and the bound: for times in whole ticks of the solver's
clock, and for rounded times."""


@dataclass(frozen=True, slots=True)
class Exact(Constrained):
    """Shortest makespan with a proof or optimality gap, up to about 50 tasks (extra 'exact').

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

    promises: ClassVar = ("latency", "proof")
    needs: ClassVar = ("OR-tools: pip install 'hetsim[exact]'",)

    time_limit_s: float = 30.0

    def solve(self, problem: Problem) -> Plan:
        """Return the plan."""
        if not 0 < self.time_limit_s < math.inf:
            raise UsageError(f"time_limit_s is {self.time_limit_s}", hint="use a number above 0")
        if find_spec("ortools") is None:
            load_cp_model()
        with deadline.by_wall_clock():
            end_s = deadline.now_s() + self.time_limit_s
            return self.within(problem, lambda narrowed: self._before(end_s, narrowed))

    def _solve(self, problem: Problem) -> Plan:
        return self._before(deadline.now_s() + self.time_limit_s, problem)

    def _before(self, end_s: float, problem: Problem) -> Plan:
        """Return the best plan found before `end_s`, or a quick one if there is no other."""
        began_s = deadline.now_s()
        # A plan has priority over the time limit.
        quick = quick_start(problem, "latency")
        if quick is None:
            quick = starts_that_fit(prepared(problem), "latency")[1][0]
        kept_s = KEPT_BACK * (deadline.now_s() - began_s)
        if self.max_devices is not None:
            # Another plan may be needed, on one device less.
            end_s = (deadline.now_s() + end_s) / 2
        with deadline.until(end_s - kept_s):
            try:
                return self._searched(problem, quick)
            except deadline.OutOfTime:
                reason = f"{quick.plan.reason}: time_limit_s left no time for the search"
                return Plan(problem, "exact", quick.plan.groups, reason.removeprefix(": "))

    def quickly(self, coarse: Coarse, start: Start, work: float) -> tuple[Start | None, bool]:
        """Return `start` or a better plan of the solver, and whether it is proven optimal.

        Runs within `time_limit_s` and `work` of the solver, without a search before; the proof
        holds up to rounding to ticks. Raises NotInstalled.
        """
        load_cp_model()
        with deadline.by_wall_clock(), deadline.until(deadline.now_s() + self.time_limit_s):
            floor = path_bound_of(coarse.fine)
            hint = _timed(coarse.problem, start.groups)
            left_s = deadline.left_s()
            found, bound_s = self._solved(coarse, start.cost, hint, floor, left_s, work)
        plans = [start.plan, *found]
        cost, best = min((_cost(plan), index) for index, plan in enumerate(plans))
        groups = coarse.gathered(plans[best].groups)
        if groups is None:
            return None, False
        # A proof for tasks does not hold for nodes.
        proven_s = max(bound_s, floor) if coarse.problem is coarse.fine else floor
        made = Start(start.name if best == 0 else "exact", plans[best], groups, cost)
        return made, cost <= proven_s * (1.0 + ROUNDED)

    def _searched(self, problem: Problem, quick: Start) -> Plan:
        coarse = prepared(problem)
        if coarse.problem.n > MOST_TASKS:
            raise UsageError(
                f"strategy 'exact' takes up to {MOST_TASKS} tasks, but {problem.name} has "
                f"{coarse.problem.n}",
                hint="use local-search",
            )
        deadline.check()
        solver = deadline.may_load(CP_SAT)
        if solver:
            load_cp_model()
        # The search takes at most half of the remaining time, and the bound half of the rest.
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
        if not solver and cost > floor * (1.0 + EQUAL):
            reason += "; time_limit_s left no time to load the solver"
        return Plan(problem, "exact", plans[best].groups, reason)

    def _solved(
        self,
        coarse: Coarse,
        horizon_s: float,
        hint: Schedule,
        floor: float,
        left_s: float,
        work: float = math.inf,
    ) -> tuple[list[Plan], float]:
        """Return the plans of the solver's schedules within `left_s`, and the proven bound."""
        tasks = coarse.problem
        beside = _beside(coarse)
        until_s = deadline.now_s() + left_s
        say(0.0, "proving", left_s, AT_MOST)
        forbidden: list[Sequence[int]] = []
        bound_s, sound = 0.0, True
        with suppress(deadline.OutOfTime):
            while len(forbidden) <= MOST_FORBIDDEN:
                left_s = until_s - deadline.now_s()
                proof = solve_makespan(
                    tasks, horizon_s, hint, floor, left_s, beside, forbidden, work
                )
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
    """Return the plan of a schedule. Raises OutOfMemory if it does not fit."""
    made, _ = best_grouping(coarse.problem, schedule.assignment, schedule.order)
    if pays_to_coarsen(coarse.fine):
        with suppress(deadline.OutOfTime):
            made = merge_where_it_pays(coarse.problem, made)
    plan = Plan(coarse.fine, "exact", coarse.spread(made))
    latency_of(plan)
    return plan


def _beside(coarse: Coarse) -> list[list[int]]:
    """Return [task][P]: bytes that a device needs besides its weights while it runs the task."""
    if coarse.fine.capacity_bytes is None:
        return []
    beside = Footprint.of(coarse.fine).beside
    count = len(coarse.fine.devices)
    return [[max(beside[v][p] for v in nodes) for p in range(count)] for nodes in coarse.members]


def _laid_out(coarse: Coarse, assignment: Sequence[int]) -> FeasibilityResult:
    """Return the result of enumerating all plans of one assignment of tasks, if these are few."""
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
    """Return the text of what is proven; `tasks` is their number if they are not the nodes."""
    several = "1 task" if tasks == 1 else f"{tasks} tasks"
    kept = "" if tasks is None else f" among plans that keep {several} whole"
    if cost <= proven * (1.0 + EQUAL):
        return f"{PROVEN}{kept}"
    if cost <= proven * (1.0 + ROUNDED):
        return f"{PROVEN}{kept}, except for rounding to the solver's clock ({ROUNDED:.0e})"
    gap = f"optimality gap at most {cost / proven - 1.0:.1%}" if proven > 0 else "nothing proven"
    if tasks is None or floor <= 0:
        return gap + kept
    return f"{gap}{kept}, and at most {cost / floor - 1.0:.1%} above any plan"


def _timed(tasks: Problem, groups: Sequence[Group]) -> Schedule:
    """Return the estimated schedule of a plan's tasks."""
    draft = draft_of(tasks, groups)
    return scheduled(tasks, None, draft.order, only=draft.device)
