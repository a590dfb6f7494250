"""Strategy ``auto``: the best plan of all strategies and of every device alone."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, ClassVar

from hetsim.core.progress import each, part
from hetsim.errors import Infeasible, OutOfMemory, UsageError
from hetsim.placement.bounds.lower_bound import SURE, path_bound_of
from hetsim.placement.coarsening import pays_to_coarsen
from hetsim.placement.constraints import Constrained
from hetsim.placement.grouping import refine
from hetsim.placement.initial_plans import (
    CONSTRUCTIVE,
    Start,
    affordable,
    merged,
    prepared,
    start_that_fits,
    starting_plans,
    whole_models,
)
from hetsim.placement.objective import (
    Objective,
    check_objective,
    judge,
    measure,
    memory_binds,
)
from hetsim.placement.registry import resolve, strategy_names
from hetsim.placement.replicas import replicated
from hetsim.placement.strategies.exact import PROVEN, Exact
from hetsim.placement.strategies.local_search import LocalSearch
from hetsim.problem.coarse import Coarse
from hetsim.problem.plan import Plan
from hetsim.problem.problem import Problem

SEARCHES: Mapping[str, int] = {"local-search": 2_000, "exact": 16}
"""Strategies that search, and the number of tasks above which each is not tried."""

DEAREST: Mapping[str, int] = {"mincut": 5_000, "chain-dp": 5_000, "hetero": 20_000}
"""The same for strategies that neither search nor are in ``CONSTRUCTIVE``."""

WHOLE = 40
"""Number of nodes up to which throughput-only strategies keep their default budget."""

LOADS: Mapping[str, tuple[int, Mapping[str, Any]]] = {
    "ideal-dp": (
        2_000,
        {"max_ideals": 20_000, "budget": 20_000_000, "steps": 300_000, "moves": 20_000},
    ),
    "slice": (5_000, {"orders": 10, "moves": 50_000}),
}
"""Throughput-only strategies: maximum nodes, and options from WHOLE nodes on."""

EXACT_S, PROOF_S = 10.0, 5.0
"""Seconds for ``exact``, and for its solver before all searches."""

PROOF, SKETCH = 0.1, 0.005
"""Deterministic work of that solver in its own seconds, if it can prove a plan, and otherwise."""

TIE = 1e-9
"""Relative difference of costs below which the plan with fewer subgraphs is taken."""


TINY = 12
"""Nodes up to which contiguous stages are tried for latency too, as they may cut within tasks."""


@dataclass(frozen=True, slots=True)
class Auto(Constrained):
    """The best plan of all strategies and of every device alone, as simulated.

    Tried are: every device alone; the constructive strategies; every other one that is registered,
    those of other packages included; and, with `search`, ``local-search``, once as it is asked
    alone and once from the best of all others, ``exact`` and the dynamic programs. For throughput
    the best is held against replicas among which requests are dealt out (``replicas.replicated``).
    Each is asked with the options that it has by default, so that none of those tried has a better
    plan when it is asked alone; on more than WHOLE nodes the strategies for throughput alone
    search less. All are judged by ``objective.judge``, which is what ``compare`` reports. What is
    too dear for the number of tasks is left out by the tables above, and the reason names it;
    where one of the first plans is shown to be the best that there is, or of up to 16 tasks
    a short run of ``exact``'s solver shows one, nothing more is tried; what needs something that is
    not installed or finds no plan is left out too. Where memory is so tight that no strategy finds
    a plan, one is looked for (``plan_that_fits``): a problem of up to about eight nodes that has a
    plan is never refused. On a model the best is refined node by node. Never worse than a device
    alone.

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

    promises: ClassVar = ("latency", "throughput", "replicas")

    objective: Objective = "latency"
    search: bool = True
    seed: int = 0

    def solve(self, problem: Problem) -> Plan:
        """Return the best plan."""
        check_objective(self.objective)
        best = self.within(problem, self._solve)
        most = self.max_devices
        return best if most is None else self._with_few(problem, best, most)

    def _with_few(self, problem: Problem, best: Plan, most: int) -> Plan:
        """Return `best`, or a plan of a strategy that limits its devices itself, if better."""
        left = self.narrow(problem)
        if most >= int(left.runnable.any(axis=0).sum()):
            return best
        coarse = prepared(left)
        plans, _ = whole_models(left, range(len(left.devices)))
        for name in (*CONSTRUCTIVE, *_others(), "local-search"):
            if self._tries(name, coarse):
                with suppress(Infeasible, UsageError):
                    plans.append(self._by(name, left, max_devices=most))
        cost = self._cost(best)
        for plan in plans:
            if len(plan.devices_used) > most:
                continue
            found = self._cost(plan)
            if found < cost * (1.0 - TIE):
                reason = (
                    f"the best for {self.objective} is the plan of {plan.strategy}: {plan.reason}"
                )
                best, cost = replace(plan, problem=problem, strategy="auto", reason=reason), found
        return best

    def _solve(self, problem: Problem) -> Plan:
        coarse = prepared(problem)
        found: list[Start] = []
        refused: list[Infeasible] = []
        starts: list[Start] = []
        try:
            starts = starting_plans(coarse, self.objective)
        except Infeasible as error:
            refused.append(error)
        found = list(starts)
        proved = self.objective == "latency" and _proved(coarse.fine, found)
        solved, optimal = None, False
        if found and not proved:
            solved, optimal = self._solved(coarse, found[0])
        if solved is not None:
            found, proved = [solved, *found], optimal
        left_out = [name for name in CONSTRUCTIVE if not affordable(name, coarse.problem)]
        if not proved and pays_to_coarsen(problem):
            # A strategy run alone merges subgraphs of any of its plans.
            split = [one for one in starts if one.name in CONSTRUCTIVE and len(one.groups) > 1]
            made = [merged(coarse, start, self.objective) for start in split]
            found += [start for start in made if start is not None]
        # If memory binds, a schedule that does not fit is repaired.
        again = [n for n in CONSTRUCTIVE if n not in left_out] if memory_binds(problem) else []
        others = [name for name in _others() if solved is None or name != "exact"]
        for name in () if proved else each([*again, *others], low=0.1, high=0.35):
            if not self._tries(name, coarse):
                left_out.append(name)
                continue
            try:
                found.append(self._as_start(coarse, name, self._by(name, problem)))
            except Infeasible as error:
                refused.append(error)
            except UsageError:
                # The strategy lacks a package, or needs data that the problem does not have.
                left_out.append(name)
        if not found and self.objective == "latency":
            if not any(isinstance(error, OutOfMemory) for error in refused):
                raise refused[0]
            coarse, starts = start_that_fits(coarse, self.objective)
            found = list(starts)
        if not proved:
            found += self._searched(coarse, starts, found)
        if not found:
            if not any(isinstance(error, OutOfMemory) for error in refused):
                raise refused[0]
            coarse, found = start_that_fits(coarse, self.objective)
        best, cost = self._least(found)
        skipped = f"; not tried: {', '.join(left_out)}" if left_out else ""
        if self.objective == "throughput" and self.search and problem.n > WHOLE:
            tried = [name for name in LOADS if name not in left_out]
            skipped += f"; with a smaller budget: {', '.join(tried)}" if tried else ""
        reason = f"the best for {self.objective} of {len(found)} plans is that of {best.name}"
        reason += ", and no plan can be faster" if proved else ""
        reason += " by more than 0.01 %" if optimal else ""
        plan = replace(
            best.plan, problem=problem, strategy="auto", reason=f"{reason}{skipped}", options={}
        )
        # The plans of local-search are refined already.
        if pays_to_coarsen(problem) and not plan.sizes and best.name != "local-search":
            refined = refine(plan, self.objective, best.cost)
            # Moves are evaluated by the busiest device or link; the clock decides.
            if refined is not plan and (of_refined := self._cost(refined)) <= cost:
                plan, cost = refined, of_refined
        if self.objective == "latency":
            return plan
        plans = [start.plan for start in sorted(found, key=_worth) if not start.plan.sizes]
        dealt = replicated(problem, [plan, *plans], search=self.search)
        if dealt is None or dealt.cost >= cost * (1.0 - TIE):
            return plan
        reason = f"the best for throughput of {len(found)} plans and replicas"
        return replace(
            dealt.plan, strategy="auto", reason=f"{reason}: {dealt.plan.reason}{skipped}"
        )

    def _solved(self, coarse: Coarse, start: Start) -> tuple[Start | None, bool]:
        """Return the solver's plan of a few tasks, and whether it is proven optimal."""
        problem = coarse.problem
        if self.objective != "latency" or memory_binds(problem) or not self._tries("exact", coarse):
            return None, False
        # Otherwise its proof is about another problem, and its schedule is one more start.
        free = coarse.fine is problem and problem.contention == "none" and not problem.staging
        with part(0.1, 0.1, "exact"), suppress(UsageError):
            return Exact(time_limit_s=PROOF_S).quickly(coarse, start, PROOF if free else SKETCH)
        return None, False

    def _tries(self, name: str, coarse: Coarse) -> bool:
        tasks = coarse.problem.n
        if name in CONSTRUCTIVE:
            return affordable(name, coarse.problem)
        if name in LOADS:
            most, _ = LOADS[name]
            loads = self.objective == "throughput" or (name == "ideal-dp" and coarse.fine.n <= TINY)
            return loads and self.search and coarse.fine.n <= most
        if name in SEARCHES:
            return self.search and tasks <= SEARCHES[name]
        return tasks <= DEAREST.get(name, tasks)

    def _searched(
        self, coarse: Coarse, starts: Sequence[Start], found: Sequence[Start]
    ) -> list[Start]:
        """Return the plans of ``local-search`` from its own start, and from the best of `found`.

        `starts` are its own starts, if any fit memory. For too many tasks, only its own start is
        used.
        """
        search = LocalSearch(objective=self.objective, seed=self.seed)
        if not self._tries("local-search", coarse):
            priced = self.search and self.objective == "latency"
            return [start for _, start in search.priced(coarse)] if priced else []
        latency = self.objective == "latency"
        best = [start for start in found if not start.plan.sizes and (start.groups or latency)]
        best = sorted(best, key=_worth)[:1]
        at = search.begun(coarse, starts) if starts and latency else []
        begun = [start.cost for _, start in at] or [start.cost for start in starts[:1]]
        # Equal cost to its own start means the same search.
        further = bool(best) and best[0].cost not in begun
        further = further and best[0].cost < max(begun, default=math.inf)
        # A plan proven optimal on tasks is not improved by moves of tasks.
        further = further and not best[0].plan.reason.startswith(PROVEN)

        def asked_alone() -> Plan:
            if at:
                return search.best_from(at)
            if not starts:
                return search.solve(coarse.fine)
            return search.spread_out(coarse.fine, starts)

        def from_best() -> Plan:
            if not latency:
                return search.spread_out(coarse.fine, best)
            # A plan that splits tasks is improved by moving their parts.
            cut = coarse.cut_by(best[0].plan.groups)
            start = replace(best[0], groups=cut.gathered(best[0].plan.groups) or ())
            if at:
                return search.improved(cut, start)
            return search.best_from(search.begun(cut, [start]))

        made: list[Start] = []
        for low, run in ((0.35, asked_alone), *([(0.65, from_best)] if further else [])):
            with part(low, low + 0.3, "local-search"), suppress(Infeasible):
                made.append(self._as_start(coarse, "local-search", run()))
        return made

    def _as_start(self, coarse: Coarse, name: str, made: Plan) -> Start:
        groups = None if made.sizes else coarse.gathered(made.groups)
        return Start(name, made, groups or (), measure(made, self.objective))

    def _cost(self, plan: Plan) -> float:
        return judge(plan, self.objective)

    def _least(self, found: Sequence[Start]) -> tuple[Start, float]:
        """Return the start of least cost, and its cost; of equal ones the simplest."""
        ordered = sorted(found, key=_worth)
        if self.objective == "latency":
            return ordered[0], ordered[0].cost
        best, least = ordered[0], self._cost(ordered[0].plan)
        known: list[Plan] = [best.plan]
        for start in ordered[1:]:
            if start.cost >= least * (1.0 - TIE):
                break
            if any(plan.groups == start.plan.groups and not start.plan.sizes for plan in known):
                continue
            known.append(start.plan)
            cost = self._cost(start.plan)
            if cost < least * (1.0 - TIE):
                best, least = start, cost
        return best, least

    def _by(self, name: str, problem: Problem, **limits: Any) -> Plan:
        """Return the plan of a strategy with its default options."""
        strategy: Any = resolve(name)
        own: dict[str, Any] = {"objective": self.objective, **limits}
        if name in LOADS and problem.n > WHOLE:
            own |= LOADS[name][1]
        if name == "exact":
            own["time_limit_s"] = EXACT_S
        if name == "local-search":
            own["seed"] = self.seed
        known = {field.name for field in fields(strategy)} if is_dataclass(strategy) else set()
        strategy = replace(strategy, **{key: value for key, value in own.items() if key in known})
        chosen: Plan = strategy.solve(problem)
        return chosen


def _proved(problem: Problem, found: Sequence[Start]) -> bool:
    """Return whether a single subgraph is as short as the longest path, and thus optimal."""
    best = min(found, key=_worth, default=None)
    if best is None or len(best.plan.groups) != 1:
        return False
    return best.cost * (1.0 - SURE) <= path_bound_of(problem)


def _worth(start: Start) -> tuple[float, int]:
    return start.cost, len(start.plan.groups)


def _others() -> list[str]:
    """Return the registered strategies that are not tried explicitly."""
    own = {"single", "multi", "auto", "local-search", *CONSTRUCTIVE}
    return [name for name in strategy_names() if name not in own]
