"""Workloads in real time on emulated devices beside the simulation, at loads 0.3, 0.6 and 0.8.

Three platforms, each with a model cut into as many consecutive stages as it has devices; Poisson
arrivals, the same on both sides; one request after another at each device, as many under way as
come. Capacity is one request per busiest stage or link. A second of the workload lasts as long as
lets the mean request take REQUEST_S of real time: this machine's kernels then take a small part of
what they stand for, and a late timer a small part of a latency. About three minutes in all; wall
clocks need a machine with nothing else to do. A table on stderr, JSON lines on stdout:

    python benchmarks/emulated_load.py [--executor ray|threads] [--seconds S] [--runs N]
        [--platforms NAME ...]
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import hetsim
from hetsim.errors import ExecutionError
from hetsim.execution.serving.serve import load_test
from hetsim.problem.plan import Plan
from hetsim.reporting.formatting import relative_change
from hetsim.simulation.clock.metrics import busy_seconds
from hetsim.simulation.clock.templates import tasks_of_plan
from hetsim.workload.arrivals import Poisson
from hetsim.workload.deployment import Instances, Served

CASES = (
    ("laptop", "zoo:shufflenet"),
    ("rock-5b", "zoo:squeezenet"),
    ("pi-5-hailo-8l", "zoo:mobilenet_v2"),
)
LOADS = (0.3, 0.6, 0.8)
REQUEST_S = 0.15
"""Real seconds of a request alone."""


def stages(problem: hetsim.Problem) -> Plan:
    """Cut the model into consecutive stages, one a device, the ones of equal times.

    A node that a device lacks goes to the host; so does whatever that would make cyclic.
    """
    count, host = len(problem.devices), problem.host or 0
    total = [problem.seconds[problem.supported[:, p], p].sum() for p in range(count)]
    # Fast devices get more nodes, so that no stage is alone the bottleneck.
    shares = [1 / max(seconds, 1e-12) for seconds in total]
    ends = [sum(shares[: p + 1]) / sum(shares) for p in range(count)]
    assignment = []
    for node in range(problem.n):
        at = next(p for p in range(count) if (node + 0.5) / problem.n <= ends[p] + 1e-12)
        assignment.append(at if problem.supported[node, at] else host)
    groups = hetsim.partition(problem, "compact", assignment=assignment).groups
    return Plan(problem, "stages", groups)


def capacity(plan: Plan) -> float:
    """Return the requests a second that the plan carries."""
    devices, links = busy_seconds(tasks_of_plan(plan, plan.problem.contention), [1])
    return 1 / max(
        *(s / width for s, width in zip(devices, plan.problem.streams, strict=True)), *links
    )


def measure(
    platform: str, model: str, load: float, executor: str, seconds: float, seed: int, path: Path
) -> dict[str, object]:
    """Return one line of the report."""
    on = hetsim.load_platform(platform)
    problem = hetsim.Problem.of(hetsim.load_model(model), on)
    plan = stages(problem)
    plan.save(path)
    alone_s = hetsim.simulate(plan).latency_s
    scale = max(1.0, REQUEST_S / alone_s)
    rate = load * capacity(plan)
    requests = math.ceil(seconds / scale * rate)
    stream = hetsim.Stream("all", model, Poisson(rate))
    line: dict[str, object] = {
        "platform": platform,
        "model": model,
        "load": load,
        "executor": executor,
        "subgraphs": len(plan.groups),
        "devices": len(plan.devices_used),
        "alone_ms": 1e3 * alone_s,
        "time_scale": scale,
        "requests": requests,
        "seed": seed,
    }
    try:
        found = load_test(
            hetsim.Deployment((Served(model, instances=(Instances(plan=str(path)),)),)),
            hetsim.Workload((stream,), requests=requests, seed=seed),
            on,
            emulate=True,
            executor=executor,  # type: ignore[arg-type]
            time_scale=scale,
        )
    except ExecutionError as error:
        return {**line, "refused": error.what}
    told, real = found.simulated.streams[0], found.measured.streams[0]
    p99 = [
        next(one.estimate_s for one in side.percentiles if one.percentile == 99)
        for side in (told, real)
    ]
    assert found.outputs is not None
    return {
        **line,
        "wall_s": found.host.wall_s,
        "mean_ms": 1e3 * told.mean_s,
        "mean_off": relative_change(told.mean_s, real.mean_s),
        "p99_ms": 1e3 * p99[0],
        "p99_off": relative_change(*p99),
        "answered_late_ms": 1e3 * found.host.answered.mean_s,
        "overran": found.host.overran,
        "calls": found.host.calls,
        "equal": found.outputs.alone == found.outputs.answered,
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Print one line a platform, load and run."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--executor", choices=("ray", "threads"), default="ray")
    parser.add_argument("--seconds", type=float, default=12.0, help="of real time, each")
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--platforms", nargs="*", default=[name for name, _ in CASES])
    chosen = parser.parse_args(arguments)
    print(
        f"{'platform':14} {'model':18} {'load':>4} {'requests':>8} {'mean':>8} {'off by':>8}"
        f" {'p99':>8} {'off by':>8} {'late':>8}",
        file=sys.stderr,
    )
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(chosen.runs):
            for platform, model in CASES:
                for load in LOADS if platform in chosen.platforms else ():
                    path = Path(folder) / "plan.json"
                    line = measure(
                        platform, model, load, chosen.executor, chosen.seconds, seed, path
                    )
                    print(json.dumps(line), flush=True)
                    print(_row(line), file=sys.stderr, flush=True)


def _row(line: dict[str, object]) -> str:
    text = f"{line['platform']:14} {line['model']:18} {line['load']:4} {line['requests']:8}"
    if "refused" in line:
        return f"{text} {line['refused']}"
    return (
        f"{text} {line['mean_ms']:5.1f} ms {line['mean_off']:+8.2%} {line['p99_ms']:5.1f} ms"
        f" {line['p99_off']:+8.2%} {line['answered_late_ms']:5.2f} ms"
    )


if __name__ == "__main__":
    main()
