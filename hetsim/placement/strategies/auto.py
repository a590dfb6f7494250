"""Strategy ``auto``: the best of all strategies, every device alone included."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

from hetsim.base.going import each, part
from hetsim.errors import Infeasible, OutOfMemory, UsageError
from hetsim.partitioning.groups import Group
from hetsim.placement.bounds.lower_bound import SURE, path_bound_of
from hetsim.placement.coarsening.tasks import Coarse, pays_to_coarsen
from hetsim.placement.constraints import Constrained
from hetsim.placement.grouping.refinement import refine
from hetsim.placement.objective import Objective, check_objective, measure
from hetsim.placement.registry import resolve, strategy_names
from hetsim.placement.replicas.deal import PLAY, sustained_s
from hetsim.placement.replicas.replication import GAIN, replicated
from hetsim.placement.starting.constructive import prepared
from hetsim.placement.starting.starts import (
    CONSTRUCTIVE,
    Start,
    affordable,
    start_that_fits,
    starting_plans,
)
from hetsim.placement.strategies.local_search import LocalSearch
from hetsim.plans.plan import Plan
from hetsim.problem.problem import Problem

SEARCHES: Mapping[str, int] = {"local-search": 2_000, "exact": 16}
"""Strategies that search, and the number of tasks above which each is not tried."""

DEAREST: Mapping[str, int] = {"mincut": 5_000, "chain-dp": 5_000, "hetero": 20_000}
"""The same of strategies that do not search and are not listed in ``starts.CONSTRUCTIVE``."""

LOADS: Mapping[str, tuple[int, Mapping[str, Any]]] = {
    "ideal-dp": (
        2_000,
        {"max_ideals": 20_000, "budget": 20_000_000, "steps": 300_000, "moves": 20_000},
    ),
    "slice": (5_000, {"orders": 10, "moves": 50_000}),
}
"""Strategies for throughput alone: nodes above which each is not tried, and its options here."""

EXACT_S = 10.0


@dataclass(frozen=True, slots=True)
class Auto(Constrained):
    """Every strategy's plan is played on the clock, and the best for the objective is kept.

    Tried are: every device alone; the constructive strategies; every other one that is
    registered, those of other packages included; and, with `search`, ``local-search`` from
    the best of them, ``exact`` and the dynamic programs. For throughput the best is held
    against replicas among which requests are dealt out (``replication.replicated``). What is
    too dear for the number of tasks is left out by the tables above, and the reason names it; where
    one of the first plans is shown to be the best that there is, nothing more is tried;
    what needs something that is not installed or finds no plan is left out too. Where memory is
    so tight that no strategy finds a plan, one is looked for (``plan_that_fits``): a problem
    of up to about eight nodes that has a plan is never refused. On a model the best is refined
    node by node. Never worse than a device alone.

    Attributes
    ----------
    objective : "latency" or "throughput"
        What the plan is for.
    search : bool
        Whether strategies that search are tried: seconds where there are hundreds of tasks.
    seed : int
        Of ``local-search``.

    Complexity: the sum over what is tried: without `search` one to two CPU seconds for 10,000
    tasks on four devices where machine code is kept, and six where none is. Ties go to the plan
    with the fewest subgraphs.
    """

    objective: Objective = "latency"
    search: bool = True
    seed: int = 0

    def solve(self, problem: Problem) -> Plan:
        """Return the best plan.

        Raises
        ------
        UnsupportedNode, OutOfMemory
            Where no strategy finds a plan; of memory the text says whether that is proven.
        """
        check_objective(self.objective)
        return self.within(problem, self._solve)

    def _solve(self, problem: Problem) -> Plan:
        coarse = prepared(problem)
        found: list[Start] = []
        refused: list[Infeasible] = []
        try:
            found = starting_plans(coarse, self.objective)
        except Infeasible as error:
            refused.append(error)
        proved = self.objective == "latency" and _proved(coarse.fine, found)
        left_out = [name for name in CONSTRUCTIVE if not affordable(name, coarse.problem)]
        for name in () if proved else each(_others(), low=0.1, high=0.35):
            if not self._tries(name, coarse):
                left_out.append(name)
                continue
            try:
                made = self._by(name, problem)
                groups = None if made.sizes else coarse.gathered(made.groups)
                found.append(Start(name, made, groups or (), measure(made, self.objective)))
            except Infeasible as error:
                refused.append(error)
            except UsageError:
                # It lacks a package, or asks for what the problem does not tell.
                left_out.append(name)
        if not found and self.objective == "latency":
            if not any(isinstance(error, OutOfMemory) for error in refused):
                raise refused[0]
            coarse, found = start_that_fits(coarse, self.objective)
        with part(0.35, 0.95, "local-search"):
            searched = None if proved else self._searched(coarse, found)
        if searched is not None:
            found.append(searched)
        if not found:
            if not any(isinstance(error, OutOfMemory) for error in refused):
                raise refused[0]
            coarse, found = start_that_fits(coarse, self.objective)
        best = min(found, key=_worth) if self.objective == "latency" else _kept_best(found)
        skipped = f"; not tried: {', '.join(left_out)}" if left_out else ""
        reason = f"the best for {self.objective} of {len(found)} plans is that of {best.name}"
        reason += ", and no plan can be faster" if proved else ""
        plan = replace(
            best.plan, problem=problem, strategy="auto", reason=f"{reason}{skipped}", options={}
        )
        if pays_to_coarsen(problem) and not plan.sizes:
            refined = refine(plan, self.objective, best.cost)
            # Moves are weighed by the busiest device or link; the clock has the last word.
            if self.objective == "latency" or _kept(refined) <= _kept(plan) * (1.0 + GAIN):
                plan = refined
        if self.objective == "latency":
            return plan
        plans = [start.plan for start in sorted(found, key=_worth) if not start.plan.sizes]
        dealt = replicated(problem, [plan, *plans], search=self.search)
        cost = measure(plan, "throughput")
        if dealt is None or dealt.cost >= cost * (1.0 - GAIN):
            return plan
        if dealt.kept >= _kept(plan) * (1.0 - GAIN):
            return plan
        reason = f"the best for throughput of {len(found)} plans and of replicas"
        return replace(
            dealt.plan, strategy="auto", reason=f"{reason}: {dealt.plan.reason}{skipped}"
        )

    def _tries(self, name: str, coarse: Coarse) -> bool:
        tasks = coarse.problem.n
        if name in LOADS:
            most, _ = LOADS[name]
            return self.objective == "throughput" and self.search and coarse.fine.n <= most
        if name in SEARCHES:
            fits = self.search and tasks <= SEARCHES[name]
            return fits and (name != "exact" or self.objective == "latency")
        return tasks <= DEAREST.get(name, tasks)

    def _searched(self, coarse: Coarse, found: Sequence[Start]) -> Start | None:
        if not self._tries("local-search", coarse):
            return None
        search = LocalSearch(objective=self.objective, seed=self.seed)
        on_tasks = [start for start in found if start.groups or not coarse.fine.n]
        groups: tuple[Group, ...] = ()
        try:
            if self.objective == "throughput":
                alone = [start for start in found if not start.plan.sizes]
                plan = search.spread_out(coarse.fine, alone, 0.0)
            elif on_tasks:
                start = search.started(coarse, min(on_tasks, key=_worth), 0.0)
                groups, _, _ = search.improve(coarse, start, 0.0)
                plan = Plan(coarse.fine, "local-search", coarse.spread(groups))
            else:
                return None
            return Start("local-search", plan, groups, measure(plan, self.objective))
        except Infeasible:
            return None

    def _by(self, name: str, problem: Problem) -> Plan:
        strategy: Any = resolve(name)
        own: dict[str, Any] = {"objective": self.objective, "time_limit_s": EXACT_S}
        own |= LOADS[name][1] if name in LOADS else {}
        if name != "exact":
            own.pop("time_limit_s")
        known = {field.name for field in fields(strategy)} if is_dataclass(strategy) else set()
        strategy = replace(strategy, **{key: value for key, value in own.items() if key in known})
        if isinstance(strategy, Constrained):
            # What does not fit is one plan of many here, and not worth a search of its own.
            return strategy._solve(problem)
        chosen: Plan = strategy.solve(problem)
        return chosen


def _proved(problem: Problem, found: Sequence[Start]) -> bool:
    """Say whether a single subgraph takes as long as the longest path: nothing comes before it.

    A plan as fast with several subgraphs could still have fewer.
    """
    best = min(found, key=_worth, default=None)
    if best is None or len(best.plan.groups) != 1:
        return False
    return best.cost * (1.0 - SURE) <= path_bound_of(problem)


def _worth(start: Start) -> tuple[float, int]:
    return start.cost, len(start.plan.groups)


def _kept(plan: Plan) -> float:
    return max(measure(plan, "throughput"), sustained_s(plan))


def _kept_best(found: Sequence[Start]) -> Start:
    """Return the plan whose rate the clock keeps best, the cheapest of those within PLAY of it."""
    ordered = sorted(found, key=_worth)
    kept: list[tuple[float, Start]] = []
    for start in ordered:
        if kept and start.cost >= min(seconds for seconds, _ in kept):
            break
        kept.append((_kept(start.plan), start))
    least = min(seconds for seconds, _ in kept)
    return next(start for seconds, start in kept if seconds <= least * (1.0 + PLAY))


def _others() -> list[str]:
    """Return what is registered beside the strategies that are tried by hand."""
    own = {"single", "multi", "auto", "local-search", *CONSTRUCTIVE}
    return [name for name in strategy_names() if name not in own]
