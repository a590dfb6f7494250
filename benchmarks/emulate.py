"""Plans in real time beside what the virtual clock says of them.

Five models on three platforms, each split over the platform's devices: the wall clock of one
request, and of 20 in flight, over the simulator's prediction. Devices hold for their modelled
time, links for theirs; time is scaled so that a run takes two seconds at least. Wall clocks need
a machine with nothing else to do. JSON lines on stdout:

    python benchmarks/emulate.py [--executor ray|threads]
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence

import hetsim
from hetsim.execution.emulation import emulate
from hetsim.problem.plan import Plan

MODELS = ("squeezenet", "shufflenet", "mobilenet_v2", "resnet18", "bert_small")
PLATFORMS = ("laptop", "rock-5b", "workstation")
REQUESTS = 20


def thirds(problem: hetsim.Problem) -> Plan:
    """Cut the model into as many consecutive stages as there are devices, one a device.

    A node that a device lacks goes to the host; so does whatever that would make cyclic.
    """
    count = len(problem.devices)
    host = problem.host or 0
    assignment = []
    for node in range(problem.n):
        device = node * count // problem.n
        assignment.append(device if problem.supported[node, device] else host)
    groups = hetsim.partition(problem, "compact", assignment=assignment).groups
    return Plan(problem, "thirds", groups)


def measure(model: str, platform: str, executor: str) -> dict[str, object]:
    """Return one line of the report."""
    problem = hetsim.Problem.of(hetsim.load_model(f"zoo:{model}"), hetsim.load_platform(platform))
    plan = thirds(problem)
    one = emulate(plan, executor=executor)  # type: ignore[arg-type]
    many = emulate(plan, executor=executor, requests=REQUESTS, time_scale=one.time_scale)  # type: ignore[arg-type]
    return {
        "model": model,
        "platform": platform,
        "executor": executor,
        "subgraphs": len(plan.groups),
        "devices": len(plan.devices_used),
        "transfers": one.predicted.transfers,
        "time_scale": one.time_scale,
        "wall_s": one.wall_s[0],
        "latency_over_predicted": one.latency_s / one.predicted.latency_s,
        "wall_s_in_flight": max(many.wall_s),
        "throughput_over_predicted": many.predicted.makespan_s / many.makespan_s,
        "bitwise_equal": one.bitwise_equal is True and many.bitwise_equal is True,
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Print one line a model and platform."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--executor", choices=("ray", "threads"), default="ray")
    parser.add_argument("--models", nargs="*", default=MODELS)
    chosen = parser.parse_args(arguments)
    for model in chosen.models:
        for platform in PLATFORMS:
            print(json.dumps(measure(model, platform, chosen.executor)), flush=True)


if __name__ == "__main__":
    main()
