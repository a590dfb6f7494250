"""CPU microseconds an event and peak memory of timelines and trace files: one JSON line each.

A pipeline of stages on two devices, asked again and again. Each line is of a process of its own, as
peaks of memory are. ``arrays`` is what stands: events are columns, and the trace is written in
pieces. ``plain`` makes each event, by ``tests/oracles``. Playing the clock is not counted.
"""

from __future__ import annotations

import hashlib
import json
import os
import resource
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))

from hetsim.placement.planning import plan
from hetsim.problem.plan import Plan
from hetsim.problem.problem import Problem
from hetsim.problem.timeline import Timeline
from hetsim.reporting.trace import trace_pieces
from hetsim.simulation.clock.metrics import (
    build_events,
    critical_path,
    event_order,
    request_of,
    tasks_of,
)
from hetsim.simulation.clock.runs import play
from hetsim.simulation.clock.templates import tasks_of_plan
from hetsim.simulation.simulate import simulate
from oracles import plain_timeline  # type: ignore[import-not-found]

REQUESTS = {"arrays": (300, 3_000, 32_000)}
"""By way, of 53 events each: the largest is 1.7 million."""

EVENTS_ALONE = {"arrays": (32_000,), "plain": (32_000,)}
"""The same without the file."""


def pipeline() -> Plan:
    """Forty nodes in a row with some long edges, every third at home on the other device."""
    n = 40
    seconds = np.full((n, 2), 1e-3)
    seconds[::3, 1] = 2e-4
    seconds[1::3, 1] = np.inf
    edges = [(v, v + 1, 4000 + v) for v in range(n - 1)]
    edges += [(v, v + 3, 100) for v in range(0, n - 4, 5)]
    problem = Problem.from_arrays(
        seconds, edges, devices=("cpu", "gpu"), latency_s=1e-5, bytes_per_s=1e9, host=0,
        contention="fifo",
    )  # fmt: skip
    return plan(problem, "heft")


def events_of(made: Plan, arrival: np.ndarray[Any, Any], way: str) -> tuple[Timeline, float]:
    """The timeline, and the CPU seconds that its events and their critical path took."""
    timeline = simulate(made, arrivals_s=arrival.tolist(), trace=False)
    laid_out = tasks_of_plan(made, made.problem.contention)
    recording = play(laid_out, arrival, traced=True)
    began = time.process_time()
    order = event_order(recording)
    if way == "arrays":
        owner = request_of(recording)
        task = tasks_of(laid_out, recording, owner)
        path = critical_path(laid_out, recording, order, owner, task)
        events: Any = build_events(laid_out, recording, order, owner, task)
    else:
        owners = plain_timeline.request_of(recording)
        path = plain_timeline.critical_path(laid_out, recording, order, owners)
        events = plain_timeline.build_events(laid_out, recording, order, owners)
    took = time.process_time() - began
    return replace(timeline, events=events, critical_path=path), took


def measure(way: str, requests: int, *, file: bool) -> dict[str, Any]:
    """One line."""
    made = pipeline()
    arrival = np.arange(requests) * 0.05
    simulate(made, arrivals_s=arrival[:10].tolist())
    base = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    timeline, took = events_of(made, arrival, way)
    count = len(timeline.events)
    line: dict[str, Any] = {"way": way, "events": count, "events_us": round(took / count * 1e6, 2)}
    if file:
        digest, size = hashlib.sha256(), 0
        began = time.process_time()
        with open(os.devnull, "w", encoding="utf-8") as stream:
            for piece in trace_pieces(made, timeline, (), arrival.tolist()):
                stream.write(piece)
                digest.update(piece.encode())
                size += len(piece)
        line["file_us"] = round((time.process_time() - began) / count * 1e6, 2)
        line |= {"file_mb": round(size / 1e6, 1), "sha256": digest.hexdigest()[:16]}
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {**line, "before_mib": base >> 10, "most_mib": most >> 10}


def main() -> None:
    """Print a line for each way and size, each from a process of its own."""
    if len(sys.argv) > 1:
        told = measure(sys.argv[1], int(sys.argv[2]), file=sys.argv[3] == "file")
        print(json.dumps({"benchmark": "traces", **told}), flush=True)
        return
    for sizes, what in ((REQUESTS, "file"), (EVENTS_ALONE, "alone")):
        for way, counts in sizes.items():
            for requests in counts:
                words = [sys.executable, __file__, way, str(requests), what]
                subprocess.run(words, check=True)


if __name__ == "__main__":
    main()
