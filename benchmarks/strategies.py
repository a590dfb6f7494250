"""Quality and CPU seconds of every strategy, on published instances and on models.

JSON lines out. On instances with a proven optimum `ratio` is the makespan over it, and a last
line a strategy has the geometric mean, the worst, and how many plans are proven optimal. On the
zoo models under every platform of the catalog `gap` is the latency over ``lower_bound``, less 1.
A strategy that a problem is too large for, or that finds no plan, has a line with the reason.

``python benchmarks/strategies.py --table docs/strategies.md`` writes a table instead: the best
single device, the best plan (``auto``), the bound and the gap, for each model and platform.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import hetsim
from hetsim.core.units import format_seconds
from hetsim.graph.zoo.models import names as zoo_names
from hetsim.hardware.catalog import platform_names

CASES = Path(__file__).parent.parent / "tests" / "cases" / "placement"
ON_INSTANCES: dict[str, dict[str, Any]] = {
    **{name: {} for name in ("single", "heft", "cpop", "peft", "lookahead", "dls", "etf")},
    "local-search": {"time_limit_s": 0.5},
    "exact": {"time_limit_s": 30.0},
    "auto": {},
}
ON_MODELS: dict[str, dict[str, Any]] = {
    **{
        name: {} for name in ("single", "hetero", "heft", "cpop", "peft", "lookahead", "dls", "etf")
    },
    "local-search": {},
    "auto": {},
}


def instances() -> Iterator[tuple[hetsim.Problem, float]]:
    """The instances with a proven optimum, and it."""
    for path in [CASES / "topcuoglu2002.json", *sorted((CASES / "random20").glob("*.json"))]:
        record = json.loads(path.read_text())
        problem = hetsim.Problem.from_arrays(
            np.array(record["nodes"], dtype=float),
            edges=[tuple(edge) for edge in record["edges"]],
            devices=[device["name"] for device in record["devices"]],
            latency_s=record["latency"],
            bytes_per_s=record["bandwidth"],
            name=record["name"],
        )
        yield problem, float(record["reference"]["optimum"])


def models() -> Iterator[tuple[str, str, hetsim.Problem]]:
    """Every zoo model on every platform of the catalog."""
    platforms = [(name, hetsim.load_platform(name)) for name in platform_names()]
    for name in zoo_names():
        model = hetsim.load_model(f"zoo:{name}")
        for platform_name, platform in platforms:
            yield name, platform_name, hetsim.Problem.of(model, platform)


def large(n: int, devices: int) -> hetsim.Problem:
    """Nodes with up to two inputs from the 64 before them, on unrelated devices."""
    rng = random.Random(n)
    edges = {(max(0, v - rng.randint(1, 64)), v) for v in range(1, n) for _ in range(2)}
    seconds = np.random.default_rng(n).uniform(1.0, 20.0, (n, devices))
    return hetsim.Problem.from_arrays(
        seconds, edges=[(u, v, rng.randint(1, 20)) for u, v in sorted(edges)]
    )


def solved(
    problem: hetsim.Problem, strategy: str, options: dict[str, Any]
) -> tuple[hetsim.Plan, float, float] | str:
    """The plan, its latency and the CPU seconds it took; or why there is none."""
    began = time.process_time()
    try:
        plan = hetsim.plan(problem, strategy, **options)
    except hetsim.HetsimError as error:
        return str(error)
    cpu_s = time.process_time() - began
    return plan, hetsim.simulate(plan, trace=False).latency_s, cpu_s


def emit(**record: Any) -> None:
    """Print one JSON line."""
    print(json.dumps({"benchmark": "strategies", **record}), flush=True)


def bench_instances() -> None:
    """Every strategy on the instances with a proven optimum."""
    cases = list(instances())
    for strategy, options in ON_INSTANCES.items():
        ratios, proven, total_s = [], 0, 0.0
        for problem, optimum in cases:
            found = solved(problem, strategy, options)
            if isinstance(found, str):
                emit(instance=problem.name, strategy=strategy, reason=found)
                continue
            plan, latency_s, cpu_s = found
            ratios.append(latency_s / optimum)
            proven += "proven optimal" in plan.reason
            total_s += cpu_s
            emit(
                instance=problem.name,
                strategy=strategy,
                makespan=latency_s,
                ratio=round(ratios[-1], 4),
                cpu_s=round(cpu_s, 4),
            )
        emit(
            instances=len(ratios),
            strategy=strategy,
            mean_ratio=round(math.exp(sum(map(math.log, ratios)) / max(len(ratios), 1)), 4),
            worst_ratio=round(max(ratios, default=math.nan), 4),
            proven=proven,
            cpu_s=round(total_s, 3),
        )


def bench_large() -> None:
    """List schedulers at thousands of tasks."""
    problem = large(5_000, 8)
    for strategy in ("heft", "cpop", "peft", "dls", "etf"):
        found = solved(problem, strategy, {})
        if isinstance(found, str):
            emit(instance="5000 x 8", strategy=strategy, reason=found)
        else:
            emit(
                instance="5000 x 8", strategy=strategy, makespan=found[1], cpu_s=round(found[2], 4)
            )


def bench_models() -> None:
    """Every strategy on every model and platform."""
    for model, platform, problem in models():
        began = time.process_time()
        bound_s = hetsim.lower_bound(problem)
        emit(
            model=model,
            platform=platform,
            nodes=problem.n,
            bound_s=bound_s,
            cpu_s=round(time.process_time() - began, 4),
        )
        for strategy, options in ON_MODELS.items():
            found = solved(problem, strategy, options)
            if isinstance(found, str):
                emit(model=model, platform=platform, strategy=strategy, reason=found)
                continue
            plan, latency_s, cpu_s = found
            emit(
                model=model,
                platform=platform,
                strategy=strategy,
                latency_s=latency_s,
                gap=round(latency_s / bound_s - 1.0, 4) if bound_s else None,
                groups=len(plan.groups),
                cpu_s=round(cpu_s, 4),
            )


def write_table(path: Path) -> None:
    """Write what splitting is worth on every model and platform as a Markdown table."""
    lines = [
        "# What splitting a model is worth",
        "",
        "One request, by the virtual clock with contention on links. *best single*: the device",
        "that is fastest alone. *best plan*: what the strategy `auto` gives, and the devices it",
        "uses. *bound*: no plan can be quicker. *gap*: best plan over bound, less 1. Made by",
        f"`python benchmarks/strategies.py --table docs/{path.name}`.",
        "",
        "| model | platform | best single | best plan | speed-up | bound | gap |",
        "|---|---|---|---|---|---|---|",
    ]
    for model, platform, problem in models():
        single = solved(problem, "single", {})
        best = solved(problem, "auto", {})
        if isinstance(best, str):
            lines.append(f"| {model} | {platform} | | {best} | | | |")
            continue
        plan, latency_s, _ = best
        bound_s = hetsim.lower_bound(problem)
        alone, gain = "none", ""
        if not isinstance(single, str):
            alone = f"{single[0].groups[0].device} {format_seconds(single[1])}"
            gain = f"{single[1] / latency_s:.2f}"
        lines.append(
            f"| {model} | {platform} | {alone} "
            f"| {format_seconds(latency_s)} on {', '.join(plan.devices_used)} | {gain} "
            f"| {format_seconds(bound_s)} | {latency_s / bound_s - 1.0:.1%} |"
        )
        print(lines[-1], flush=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def main() -> None:
    """The instances, large ones, and the models; or the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--table", type=Path, metavar="FILE", help="write a Markdown table instead")
    chosen = parser.parse_args()
    if chosen.table is not None:
        write_table(chosen.table)
        return
    bench_instances()
    bench_large()
    bench_models()


if __name__ == "__main__":
    main()
