"""Small throughput problems against brute force: claims that hold, and how near plans come.

JSON lines out. For each strategy: how often it claimed a least bottleneck, of contiguous stages or
of all plans, and how many of these claims brute force refutes; how often it found no plan where
weights would fit; the mean and the worst of its bottleneck over the least of all assignments in
all groupings, which `auto` may beat by replicas; CPU seconds. Memory counts weights alone: live
activations may rule the least out.

``python benchmarks/throughput.py --count 1000`` takes some ten minutes.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import time
from pathlib import Path
from typing import Any

import hetsim
from hetsim.errors import Infeasible
from hetsim.placement.objective import bottleneck

sys.path.append(str(Path(__file__).parent.parent / "tests"))

from oracles.least_bottleneck import least_bottlenecks  # type: ignore[import-not-found]
from throughput_problems import small  # type: ignore[import-not-found]

STRATEGIES: dict[str, dict[str, Any]] = {
    "ideal-dp": {},
    "slice": {},
    "slice free": {"contiguous": False},
    "chain-dp:throughput": {},
    "local-search": {"objective": "throughput"},
    "auto": {"objective": "throughput"},
}
EQUAL = 1e-9


class Tally:
    """What one strategy did."""

    def __init__(self) -> None:
        self.claimed = self.wrong = self.refused = 0
        self.ratios: list[float] = []
        self.cpu_s = 0.0

    def take(self, plan: hetsim.Plan | None, contiguous_s: float, least_s: float) -> None:
        """Count a plan, or that there is none."""
        if plan is None:
            self.refused += least_s < float("inf")
            return
        reached = bottleneck(plan)
        if plan.reason.startswith("least bottleneck of"):
            whole = "all plans" in plan.reason
            self.claimed += 1
            self.wrong += reached > (least_s if whole else contiguous_s) * (1.0 + EQUAL)
        if least_s > 0:
            self.ratios.append(reached / least_s)


def run(first: int, count: int) -> None:
    """Solve the problems of so many seeds and print a line a strategy."""
    tallies = {name: Tally() for name in STRATEGIES}
    below = 0
    for seed in range(first, first + count):
        problem = small(seed)
        contiguous_s, least_s = least_bottlenecks(problem)
        below += hetsim.lower_bound(problem, "throughput") > least_s * (1.0 + EQUAL)
        for name, options in STRATEGIES.items():
            began = time.process_time()
            plan = None
            with contextlib.suppress(Infeasible):
                plan = hetsim.plan(problem, name.partition(" ")[0], **options)
            tallies[name].cpu_s += time.process_time() - began
            tallies[name].take(plan, contiguous_s, least_s)
    emit(problems=count, bounds_above_an_optimum=below)
    for name, tally in tallies.items():
        ratios = tally.ratios or [1.0]
        emit(
            strategy=name,
            claimed=tally.claimed,
            wrong=tally.wrong,
            refused=tally.refused,
            plans=len(tally.ratios),
            mean_ratio=round(sum(ratios) / len(ratios), 4),
            worst_ratio=round(max(ratios), 4),
            at_the_least=sum(ratio <= 1.0 + EQUAL for ratio in ratios),
            cpu_s=round(tally.cpu_s, 1),
        )


def emit(**record: Any) -> None:
    """Print one JSON line."""
    print(json.dumps({"benchmark": "throughput", **record}), flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--count", type=int, default=200, help="problems")
    asked = parser.parse_args()
    run(asked.first, asked.count)
