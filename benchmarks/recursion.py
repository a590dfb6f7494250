"""How many task events a second the recursion plays, beside the clock's heap on the same work.

- *tandem*: the plan of ``benchmarks/engine.py``, 17 task events a request.
- *replicas*: eight like copies of a model, a device each, three task events a request; and four
  pipelines of four devices, nine task events. Dealt out in turn, to the shortest queue, to where a
  request ends first, and with late ones dropped. The heap then plays what was chosen, which it
  cannot choose itself.
- *one device*: M/D/1 at load 0.9, in blocks: its p99 beside the mean of eight other runs.

The tandem is played by SimPy and by Ciw as well, where these are installed.

CPU seconds of this process; the best of three runs, for other work on the machine slows both.
Every finish is checked to be the heap's, to the last bit (Ciw's, which adds up gaps between
arrivals, to 1e-9). JSON lines on stdout:

    python benchmarks/recursion.py [--requests N]
"""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import json
import math
import resource
import sys
import time
from collections.abc import Callable
from functools import partial
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hetsim.hardware.spec import Route
from hetsim.partitioning.groups import Group
from hetsim.plans.plan import Plan
from hetsim.problem.parts import GRAPH_INPUT, Value
from hetsim.problem.problem import Problem
from hetsim.simulation.clock.playing import Layout, laid_out, run
from hetsim.simulation.clock.templates import PlanTasks, tasks_of_plan
from hetsim.simulation.recursion.playing import Recursion, Routing, Served

sys.path.append(str(Path(__file__).parent))

from engine import SERVICE_S as STAGES_S
from engine import arrivals, tandem, with_simpy

SERVICE_S = 10.0
MOVE_S = 1.0
BLOCK = 100_000


def copies(replicas: int, stages: int, move_s: float) -> Plan:
    """Return a plan of so many pipelines, each of devices and links of its own."""
    count = 1 + replicas * stages
    names = ("host", *(f"gpu.{k}" for k in range(count - 1)))
    routes = [[Route(0.0, math.inf) for _ in names] for _ in names]
    links: list[str] = []
    plans = []
    for replica in range(replicas):
        devices = [1 + replica * stages + k for k in range(stages)]
        plans.append(devices)
        for source, target in pairwise([0, *devices, 0]):
            routes[source][target] = Route(move_s, math.inf, (len(links),))
            links.append(f"{names[source]}>{names[target]}")
    problem = Problem(
        name="copies",
        devices=names,
        seconds=np.full((stages, count), SERVICE_S),
        values=(
            Value("in", 8, GRAPH_INPUT, (0,)),
            *(Value(f"v{k}", 8, k, (k + 1,)) for k in range(stages - 1)),
            Value("out", 8, stages - 1, (), is_output=True),
        ),
        constants=(),
        routes=tuple(map(tuple, routes)),
        dispatch_s=(0.0,) * count,
        streams=(1,) * count,
        host=0,
        link_names=tuple(links),
    )
    found = [
        Plan(problem, "manual", tuple(Group(names[d], (k,)) for k, d in enumerate(devices)))
        for devices in plans
    ]
    return Plan.dealt(found, list(range(replicas)), strategy="manual") if replicas > 1 else found[0]


def timed(work: Callable[[], Any], times: int = 3) -> tuple[Any, float]:
    """Return the result of `work` and the least CPU seconds that it took."""
    least = math.inf
    for _ in range(times):
        before = time.process_time()
        result = work()
        least = min(least, time.process_time() - before)
    return result, least


def emit(**record: Any) -> None:
    """Print one JSON line."""
    print(json.dumps({"benchmark": "recursion", **record}), flush=True)


def laid(plan: Plan) -> tuple[PlanTasks, Layout, NDArray[np.float64]]:
    """Return the tasks of a plan, laid out, and their seconds."""
    tasks = tasks_of_plan(plan, "fifo")
    return tasks, laid_out(tasks), np.concatenate([one.duration for one in tasks.templates])


def measure(
    name: str,
    plan: Plan,
    arrival: NDArray[np.float64],
    routing: Routing = "given",
    timeout_s: float = math.inf,
) -> bool:
    """Print a line for each engine; return whether they agree."""
    tasks, layout, duration = laid(plan)
    given = tasks.of_requests(len(arrival)) if routing == "given" else None

    def recursion() -> Served:
        engine = Recursion(layout, duration, routing=routing, timeout_s=timeout_s)
        served = engine.serve(arrival, given)
        assert served is not None
        return served

    recursion()
    served, recursion_s = timed(recursion)
    ran = served.template >= 0
    events = int(np.diff(layout.first)[served.template[ran]].sum())
    recording, heap_s = timed(
        lambda: run(
            layout, duration, arrival[ran], served.template[ran], traced=False, machine_code=True
        ),
        1,
    )
    equal = bool(recording.finish.tobytes() == served.finish[ran].tobytes())
    for engine, cpu_s in (("heap", heap_s), ("recursion", recursion_s)):
        emit(
            work=name,
            engine=engine,
            requests=len(arrival),
            dropped=int((~ran).sum()),
            events=events,
            cpu_s=round(cpu_s, 4),
            events_per_cpu_s=round(events / cpu_s),
            equal=equal,
        )
    return equal


def with_ciw(arrival: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return when each request of the tandem ends, played by Ciw: a node a device or link."""
    ciw: Any = importlib.import_module("ciw")
    services = [MOVE_S, *chain.from_iterable((seconds, MOVE_S) for seconds in STAGES_S)]
    nodes = len(services)
    network = ciw.create_network(
        arrival_distributions=[
            ciw.dists.Sequential(np.diff(arrival, prepend=0.0).tolist()),
            *[None] * (nodes - 1),
        ],
        service_distributions=[ciw.dists.Deterministic(seconds) for seconds in services],
        number_of_servers=[1] * nodes,
        routing=np.eye(nodes, k=1).tolist(),
    )
    world = ciw.Simulation(network)
    world.simulate_until_max_customers(len(arrival), method="Finish")
    ends = [record.exit_date for record in world.get_all_records() if record.node == nodes]
    return np.sort(ends)[: len(arrival)]


def peers(requests: int) -> bool:
    """Print a line for each peer that is installed; return whether they agree."""
    _, layout, duration = laid(tandem())
    arrival = arrivals("poisson", requests)
    served = Recursion(layout, duration).serve(arrival)
    assert served is not None
    agree = True
    for name, play, within in (("simpy", with_simpy, 0.0), ("ciw", with_ciw, 1e-9)):
        if importlib.util.find_spec(name) is None:
            emit(work="tandem, poisson", engine=name, absent=True)
            continue
        finish, cpu_s = timed(partial(play, arrival), 1)
        equal = bool(np.allclose(finish, served.finish, rtol=within, atol=0.0))
        agree &= equal
        emit(
            work="tandem, poisson",
            engine=f"{name} {importlib.metadata.version(name)}",
            requests=requests,
            events=17 * requests,
            cpu_s=round(cpu_s, 4),
            events_per_cpu_s=round(17 * requests / cpu_s),
            equal=equal,
        )
    return agree


def p99_of_one_device(requests: int) -> None:
    """Print how long the p99 of M/D/1 at load 0.9 takes, and how far it is from other runs'."""
    _, layout, duration = laid(copies(1, 1, 0.0))

    def percentile(seed: int) -> float:
        rng = np.random.default_rng(seed)
        engine = Recursion(layout, duration)
        counts = np.zeros(20_000, dtype=np.int64)
        now = 0.0
        for _ in range(0, requests, BLOCK):
            arrival = now + rng.exponential(SERVICE_S / 0.9, BLOCK).cumsum()
            served = engine.serve(arrival)
            assert served is not None
            # In tenths of a second, a hundredth of a service.
            waits = ((served.finish - arrival) * 10.0).astype(np.int64)
            counts += np.bincount(waits, minlength=len(counts))
            now = float(arrival[-1])
        return float(np.searchsorted(counts.cumsum(), 0.99 * counts.sum())) / 10.0

    found, cpu_s = timed(lambda: percentile(0))
    others = float(np.mean([percentile(seed) for seed in range(1, 9)]))
    emit(
        work="one device, load 0.9",
        requests=requests,
        p99_s=round(found, 3),
        p99_of_other_runs_s=round(others, 3),
        off=round(found / others - 1, 4),
        cpu_s=round(cpu_s, 4),
    )


def memory(requests: int) -> None:
    """Print how memory grows over ten times as many requests, played in blocks."""
    _, layout, duration = laid(tandem())
    engine = Recursion(layout, duration)
    rng = np.random.default_rng(0)
    now, largest_s = 0.0, 0.0
    before = time.process_time()
    peaks = []
    for begin in range(0, requests, BLOCK):
        arrival = now + rng.exponential(12.5, min(BLOCK, requests - begin)).cumsum()
        served = engine.serve(arrival)
        assert served is not None
        largest_s = max(largest_s, float((served.finish - arrival).max()))
        now = float(arrival[-1])
        peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
    emit(
        work="tandem in blocks",
        requests=requests,
        cpu_s=round(time.process_time() - before, 3),
        grown_kib_after_a_tenth=peaks[-1] - peaks[len(peaks) // 10],
        largest_latency_s=round(largest_s, 3),
    )


def main() -> int:
    """Run the benchmark; 1 where the engines disagree."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--requests", type=int, default=1_000_000)
    requests = parser.parse_args().requests
    memory(10 * requests)
    agree = True
    for kind in ("burst", "paced", "poisson"):
        agree &= measure(f"tandem, {kind}", tandem(), arrivals(kind, requests))
    agree &= peers(max(requests // 500, 1))
    for name, replicas, stages in (("replicas", 8, 1), ("pipelines", 4, 4)):
        plan = copies(replicas, stages, MOVE_S)
        rng = np.random.default_rng(0)
        arrival = rng.exponential(SERVICE_S / replicas / 0.9, requests).cumsum()
        agree &= measure(f"{name}, in turn", plan, arrival)
        agree &= measure(f"{name}, shortest queue", plan, arrival, "shortest_queue")
        agree &= measure(f"{name}, least finish", plan, arrival, "least_finish")
        late = arrival / 1.5
        agree &= measure(f"{name}, late dropped", plan, late, "shortest_queue", 2 * SERVICE_S)
    p99_of_one_device(20 * requests)
    emit(engines_agree=agree)
    return 0 if agree else 1


if __name__ == "__main__":
    sys.exit(main())
