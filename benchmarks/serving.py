"""How many events a second plans under load play, beside the plain clock on the same work.

- *tandem*: the plan of ``benchmarks/engine.py``, 17 task events a request, without gates: both play
  the same, and every finish is checked to be the same, to the last bit.
- *replicas*: eight devices that take one request at a time from one queue, three task events each.
- *batches*: the same in batches of up to 8, of which one takes as long as two of size 1.
- *failures*: the replicas, of which each fails again and again, a thousand times in all.
- *clients*: a closed loop of 64 that think as long as four services take.
- *long*: ten times as many requests on one plan, in blocks, and how memory grows.

CPU seconds of this process after the machine code is there; the best of three. An event is a task's
or a request's arrival. JSON lines on stdout:

    python benchmarks/serving.py [--requests N]
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hetsim.placement.planning import replan
from hetsim.simulation.clock.runs import run
from hetsim.simulation.clock.templates import PlanTasks, TemplateLayout, laid_out, template_of
from hetsim.simulation.failures.serving import FailingServing
from hetsim.simulation.serving.engine import Serving
from hetsim.simulation.serving.setup import Clients, ModelSetup, Outcomes, RequestSource
from hetsim.workload.failure import Failing

sys.path.append(str(Path(__file__).parent))

from engine import ONE, arrivals, tandem
from pipelines import BLOCK, MOVE_S, SERVICE_S, copies, laid, timed

REPLICAS = 8
LARGEST = 8
FAILURES = 1000


def emit(**record: Any) -> None:
    """Print one JSON line."""
    print(json.dumps({"benchmark": "serving", **record}), flush=True)


def in_batches() -> tuple[TemplateLayout, NDArray[np.float64], NDArray[np.int64]]:
    """Return replicas of one device each, for batches of 1 to 8: [variant, instance, size]."""
    plan = copies(REPLICAS, 1, MOVE_S)
    templates = [template_of(replica, "fifo") for replica in plan.replicas for _ in range(LARGEST)]
    tasks = PlanTasks(plan, tuple(templates))
    longer = 1 + np.arange(LARGEST) / (LARGEST - 1)
    seconds = [
        one.duration * np.where(np.arange(one.tasks) < one.groups, longer[k % LARGEST], 1.0)
        for k, one in enumerate(templates)
    ]
    table = np.arange(len(templates)).reshape(1, REPLICAS, LARGEST)
    return laid_out(tasks), np.concatenate(seconds), table


def measure(work: str, make: Any, arrival: NDArray[np.float64] | None) -> Outcomes:
    """Play a deployment and print a line."""

    def play() -> tuple[Outcomes, NDArray[np.int64], TemplateLayout]:
        serving, layout = make()
        told = []
        if arrival is not None:
            for begin in range(0, len(arrival), BLOCK):
                block = arrival[begin : begin + BLOCK]
                told.append(serving.serve(block, np.zeros(len(block), dtype=np.int64)))
        return Outcomes.joined([*told, serving.close()]), serving.ran, layout

    played, cpu_s = timed(play)
    found: Outcomes = played[0]
    ran, layout = played[1:]
    events = int((np.diff(layout.first) * ran).sum()) + found.requests
    emit(
        work=work,
        engine="serving",
        requests=found.requests,
        batches=int(ran.sum()),
        events=events,
        cpu_s=round(cpu_s, 4),
        events_per_cpu_s=round(events / cpu_s),
        requests_per_cpu_s=round(found.requests / cpu_s),
        p99_s=round(float(np.percentile(found.latency_s, 99)), 3),
    )
    return found


def long(requests: int) -> None:
    """Print how memory grows where only latencies are kept."""
    _, layout, duration = laid(tandem())
    serving = Serving(layout, duration, [ONE], [RequestSource(0)])
    rng = np.random.default_rng(0)
    kept = np.zeros(requests)
    # So that what is kept does not count as growth.
    kept += 1.0
    now, at = 0.0, 0
    peaks = []
    before = time.process_time()
    for begin in range(0, requests, BLOCK):
        arrival = now + rng.exponential(12.5, min(BLOCK, requests - begin)).cumsum()
        found = serving.serve(arrival, np.zeros(len(arrival), dtype=np.int64))
        kept[at : at + found.requests] = found.latency_s
        at += found.requests
        now = float(arrival[-1])
        peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
    for found in serving.rest():
        kept[at : at + found.requests] = found.latency_s
        at += found.requests
    emit(
        work="tandem in blocks",
        requests=at,
        cpu_s=round(time.process_time() - before, 3),
        grown_kib_after_a_tenth=peaks[-1] - peaks[len(peaks) // 10],
        peak_mib=round(peaks[-1] / 1024),
        p99_s=round(float(np.percentile(kept, 99)), 3),
    )


def main() -> int:
    """Run the benchmark; 1 where serving and clock disagree."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--requests", type=int, default=1_000_000)
    requests = parser.parse_args().requests
    tasks, layout, duration = laid(tandem())
    agree = True
    for kind in ("burst", "paced", "poisson"):
        arrival = arrivals(kind, requests)
        template = tasks.of_requests(requests)

        def clock(
            arrival: NDArray[np.float64] = arrival, template: NDArray[np.int64] = template
        ) -> Any:
            return run(layout, duration, arrival, template, traced=False, machine_code=True)

        clock()
        recording, cpu_s = timed(clock)
        events = (layout.first[-1] + 1) * requests
        emit(
            work=f"tandem, {kind}",
            engine="clock",
            requests=requests,
            events=events,
            cpu_s=round(cpu_s, 4),
            events_per_cpu_s=round(events / cpu_s),
        )
        found = measure(
            f"tandem, {kind}",
            lambda: (Serving(layout, duration, [ONE], [RequestSource(0)]), layout),
            arrival,
        )
        agree &= found.finish_s.tobytes() == recording.finish.tobytes()
    replicated, replicas, seconds = laid(copies(REPLICAS, 1, MOVE_S))
    rng = np.random.default_rng(0)
    arrival = rng.exponential((SERVICE_S + 2 * MOVE_S) / REPLICAS / 0.9, requests).cumsum()
    table = np.arange(REPLICAS).reshape(1, REPLICAS, 1)
    for routing in ("round_robin", "shortest_queue", "least_finish"):
        model = ModelSetup(table, (1,) * REPLICAS, routing=routing)
        measure(
            f"replicas, {routing}",
            lambda model=model: (Serving(replicas, seconds, [model], [RequestSource(0)]), replicas),
            arrival,
        )
    devices = replicated.plan.problem.devices
    span_s = float(arrival[-1])
    mtbf_s = dict.fromkeys(replicated.plan.devices_used, span_s * REPLICAS / FAILURES)
    failing = Failing(mtbf_s=mtbf_s, mttr_s=20 * SERVICE_S)
    measure(
        "failures",
        lambda: (
            FailingServing(
                replicated,
                "fifo",
                replan,
                [ModelSetup(table, (1,) * REPLICAS)],
                [RequestSource(0)],
                failures=failing.failures(devices, 0),
            ),
            replicas,
        ),
        arrival,
    )
    batched, longer, table = in_batches()
    model = ModelSetup(table, (1,) * REPLICAS, delay_s=SERVICE_S / 4, preferred=(4, 8))
    measure(
        "batches",
        lambda: (Serving(batched, longer, [model], [RequestSource(0)]), batched),
        arrival / 2.5,
    )

    def think(block: int) -> NDArray[np.float64]:
        return np.random.default_rng([0, block]).exponential(4 * SERVICE_S, (64, 64))

    table = np.arange(REPLICAS).reshape(1, REPLICAS, 1)
    closed = ModelSetup(table, (1,) * REPLICAS)
    measure(
        "clients",
        lambda: (
            Serving(
                replicas,
                seconds,
                [closed],
                [RequestSource(0)],
                [Clients(0, 64, think)],
                requests=requests,
            ),
            replicas,
        ),
        None,
    )
    long(10 * requests)
    emit(serving_and_clock_agree=bool(agree))
    return 0 if agree else 1


if __name__ == "__main__":
    sys.exit(main())
