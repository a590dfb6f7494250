"""The local search before and after: moves a second, optima met, and plans at equal time.

JSON lines out. *before* is the search as it stands, cooled from 3 % of the cost whatever the number
of tasks, in one round; *after* is ``annealing.rounds`` as machine code. CPU seconds; what loading
the machine code takes is told apart, and not counted.

1. `moves`: moves a second by either way, on the same draws: the best cost is the same.
2. `optimum`: how many instances of 20 to 25 tasks with a proven optimum each way meets it in half
   a second; `fit` are those that the heat and the length of rounds were chosen on, `held` are not.
3. `large`: latency of drawn task graphs of 800 to 5,000 tasks at equal time, with and without
   links: `fit` are those that the prices of the start were chosen on, `held` were
   drawn after that, `last` after plays and subgraphs were chosen.
4. `verbs`: CPU seconds of ``heft`` and ``auto`` on 10,000 tasks with dispatch and links.

``python benchmarks/search.py --only large --seconds 10``
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Iterator, Sequence
from typing import Any

import hetsim
from hetsim.placement.initial_plans import prepared, starts_that_fit
from hetsim.placement.objective import latency_of_groups
from hetsim.placement.search.annealing import Budget, Heat, Walk, rounds
from hetsim.problem.groups import Group
from strategies import instances
from task_graphs import MODEL_LIKE, fit, held, last, layered

SETS = {"fit": fit, "held": held, "last": last}


class Best:
    """Keeps the best latency by the clock."""

    def __init__(self, problem: hetsim.Problem, latency_s: float) -> None:
        self._problem, self.latency_s = problem, latency_s

    def __call__(self, groups: tuple[Group, ...], *, last: bool) -> None:
        """Judge `groups`."""
        found = latency_of_groups(self._problem, groups, "draft")
        self.latency_s = min(self.latency_s, found)


def started(problem: hetsim.Problem) -> tuple[hetsim.Problem, tuple[Group, ...], float]:
    """The tasks, the best constructive plan of them, and its latency."""
    coarse, starts = starts_that_fit(prepared(problem), "latency")
    return coarse.problem, starts[0].groups, starts[0].cost


def before(problem: hetsim.Problem, groups: tuple[Group, ...], best: Best, seconds: float) -> int:
    """Anneal as it was; return the moves tried."""
    now_s = time.process_time()
    way = Walk(problem, groups, 0, None, compiled=False)
    return way.round(Budget(None, now_s, now_s + seconds), Heat(), best)


def after(problem: hetsim.Problem, groups: tuple[Group, ...], best: Best, seconds: float) -> int:
    """Anneal as it is; return the moves tried."""
    now_s = time.process_time()
    way = Walk(problem, groups, 0, None, compiled=True)
    return rounds(way, problem, Budget(None, now_s, now_s + seconds), best)


def emit(**record: Any) -> None:
    """Print one JSON line."""
    print(json.dumps({"benchmark": "search", **record}), flush=True)


def bench_moves() -> None:
    """Moves a second by both ways, on the same draws."""
    drawn = [
        layered(25, 3, 3, 5, 1),
        layered(25, 3, 3, 5, 1, **MODEL_LIKE),
        layered(200, 4, 3, 20, 1, **MODEL_LIKE),
        layered(3_000, 4, 3, 100, 1, **MODEL_LIKE),
    ]
    began_s = time.process_time()
    problem, groups, cost = started(drawn[0])
    Walk(problem, groups, 0, None, compiled=True).round(Budget(1), Heat(), Best(problem, cost))
    emit(section="moves", loading_cpu_s=round(time.process_time() - began_s, 2))
    for whole in drawn:
        problem, groups, cost = started(whole)
        moves = max(200, 200_000 // problem.n)
        told: list[tuple[float, float]] = []
        for compiled in (False, True):
            best = Best(problem, cost)
            made = Walk(problem, groups, 0, None, compiled=compiled)
            began_s = time.process_time()
            tried = made.round(Budget(moves), Heat(), best)
            told.append((tried / (time.process_time() - began_s), best.latency_s))
        emit(
            section="moves",
            instance=whole.name,
            tasks=problem.n,
            links=problem.contention == "fifo",
            before_a_s=round(told[0][0]),
            after_a_s=round(told[1][0]),
            same=told[0][1] == told[1][1],
        )


def proven() -> Iterator[tuple[hetsim.Problem, float]]:
    """Instances drawn here whose optimum ``exact`` proves."""
    for seed in range(100, 106):
        problem = layered(20 + seed % 6, 3, 2, 4, seed)
        made = hetsim.plan(problem, "exact", time_limit_s=60.0)
        if "proven optimal" in made.reason:
            yield problem, hetsim.simulate(made, trace=False).latency_s


def bench_optima(seconds: float) -> None:
    """How many optima are met."""
    known = list(instances())[1:]
    for name, cases in (("fit", known[::2]), ("held", known[1::2]), ("drawn", list(proven()))):
        for told, way in (("before", before), ("after", after)):
            ratios: list[float] = []
            for whole, optimum in cases:
                problem, groups, cost = started(whole)
                best = Best(problem, cost)
                way(problem, groups, best, seconds)
                ratios.append(best.latency_s / optimum)
            emit(
                section="optimum",
                instances=name,
                search=told,
                cases=len(ratios),
                met=sum(ratio <= 1 + 1e-9 for ratio in ratios),
                mean_ratio=round(math.exp(sum(map(math.log, ratios)) / max(len(ratios), 1)), 4),
                worst_ratio=round(max(ratios), 4),
            )


def bench_large(seconds: float, which: Sequence[str]) -> None:
    """Latency at equal time, the starts included: of a plan before, and as it is."""
    for name in which:
        for whole in SETS[name]():
            bound_s = hetsim.lower_bound(whole)
            began_s = time.process_time()
            problem, groups, cost = started(whole)
            took_s = time.process_time() - began_s
            best = Best(problem, cost)
            before(problem, groups, best, seconds - took_s)
            made = hetsim.plan(whole, "local-search", time_limit_s=seconds)
            found = hetsim.simulate(made, trace=False).latency_s
            emit(
                section="large",
                instances=name,
                instance=whole.name,
                tasks=problem.n,
                links=problem.contention == "fifo",
                cpu_s=seconds,
                bound=bound_s,
                start=cost,
                before=best.latency_s,
                after=found,
                better=round(1 - found / best.latency_s, 4),
            )


def bench_verbs() -> None:
    """CPU seconds of ``heft`` and ``auto`` on 10,000 tasks."""
    for devices, degree, width in ((4, 3, 100), (8, 6, 100), (4, 2, 400)):
        whole = layered(10_000, devices, degree, width, 0, dispatch_s=0.7, contention="fifo")
        for strategy in ("heft", "auto"):
            began_s = time.process_time()
            made = hetsim.plan(whole, strategy)
            emit(
                section="verbs",
                instance=whole.name,
                strategy=strategy,
                cpu_s=round(time.process_time() - began_s, 2),
                latency_s=hetsim.simulate(made, trace=False).latency_s,
            )


def main() -> None:
    """All sections, or those named."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    sections = ("moves", "optimum", "large", "verbs")
    parser.add_argument("--only", nargs="+", choices=sections, default=sections)
    parser.add_argument("--seconds", type=float, default=10.0, help="of a large instance")
    parser.add_argument("--instances", nargs="+", choices=sorted(SETS), default=sorted(SETS))
    chosen = parser.parse_args()
    if "moves" in chosen.only:
        bench_moves()
    if "optimum" in chosen.only:
        bench_optima(0.5)
    if "large" in chosen.only:
        bench_large(chosen.seconds, chosen.instances)
    if "verbs" in chosen.only:
        bench_verbs()


if __name__ == "__main__":
    main()
