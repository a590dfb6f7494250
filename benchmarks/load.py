"""Plans under load by every engine in one run: equal answers, CPU seconds, events a second.

- *queue*: eight devices that take one request at a time from one queue: M/D/8 at load 0.9.
- *tandem*: the plan of ``benchmarks/engine.py``, 17 task events a request.
- *batches*: eight devices that take what waits, up to 8 at once, of which one takes as long as
  two alone.

In plain Python and compiled, by SimPy and, but for batches, which it does not know, by Ciw, where
these are installed. All finishes are checked to be equal to the last bit (Ciw's, which adds up gaps
between arrivals, to 1e-9). What is not compiled plays a fiftieth of the requests.

- *p99*: until half of its 95 % interval is 2 % of it, sampling and intervals included, at load
  0.9: one device, the tandem, two replicas by shortest queue.

CPU seconds of this process after the machine code is there; the best of three, of peers one run.
JSON lines on stdout:

    python benchmarks/load.py [--requests N]
"""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import importlib.util
import json
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hetsim.simulation.clock.templates import TemplateLayout
from hetsim.simulation.serving.engine import Serving
from hetsim.simulation.serving.setup import ModelSetup, Outcomes, RequestSource
from hetsim.statistics.batches import innovations_of
from hetsim.workload.arrivals import Poisson
from hetsim.workload.requests import requests_of
from hetsim.workload.workload import Slo, Stream, Workload

sys.path.append(str(Path(__file__).parent))
sys.path.append(str(Path(__file__).parent.parent / "tests" / "helpers"))

from engine import ONE, tandem, with_simpy
from engine import SERVICE_S as STAGES_S
from growing_runs import until  # type: ignore[import-not-found]
from pipelines import BLOCK, MOVE_S, SERVICE_S, copies, laid, timed
from serving import LARGEST, REPLICAS, in_batches

Floats = NDArray[np.float64]
SEEDS = 20
PLAIN = 50
"""Of so many requests, what is not compiled plays one."""


def emit(**record: Any) -> None:
    """Print one JSON line."""
    print(json.dumps({"benchmark": "load", **record}), flush=True)


def play(
    layout: TemplateLayout,
    duration: Floats,
    model: ModelSetup,
    arrival: Floats,
    *,
    machine_code: bool,
) -> tuple[Floats, int]:
    """Return when each request ends, and how many events that took."""
    serving = Serving(layout, duration, [model], [RequestSource(0)], machine_code=machine_code)
    told = []
    for begin in range(0, len(arrival), BLOCK):
        block = arrival[begin : begin + BLOCK]
        told.append(serving.serve(block, np.zeros(len(block), dtype=np.int64)))
    finish = Outcomes.joined([*told, serving.close()]).finish_s
    return finish, int((np.diff(layout.first) * serving.ran).sum()) + len(arrival)


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


def queue_in_simpy(arrival: Floats) -> Floats:
    """Eight servers and one queue: a process a request."""
    simpy: Any = importlib.import_module("simpy")
    world = simpy.Environment()
    servers = simpy.Resource(world, capacity=REPLICAS)
    finish = np.zeros(len(arrival))

    def request(index: int, at: float) -> Any:
        yield world.timeout(at)
        with servers.request() as turn:
            yield turn
            for seconds in (MOVE_S, SERVICE_S, MOVE_S):
                yield world.timeout(seconds)
        finish[index] = world.now

    for index, at in enumerate(arrival.tolist()):
        world.process(request(index, at))
    world.run()
    return finish


def queue_in_ciw(arrival: Floats) -> Floats:
    """Eight servers and one queue: one node."""
    ciw: Any = importlib.import_module("ciw")
    network = ciw.create_network(
        arrival_distributions=[ciw.dists.Sequential(np.diff(arrival, prepend=0.0).tolist())],
        service_distributions=[ciw.dists.Deterministic(MOVE_S + SERVICE_S + MOVE_S)],
        number_of_servers=[REPLICAS],
    )
    world = ciw.Simulation(network)
    world.simulate_until_max_customers(len(arrival), method="Finish")
    return np.sort([record.exit_date for record in world.get_all_records()])[: len(arrival)]


def batches_in_simpy(arrival: Floats) -> Floats:
    """Servers that take what waits: a process a batch."""
    simpy: Any = importlib.import_module("simpy")
    world = simpy.Environment()
    waiting: deque[int] = deque()
    idle = [REPLICAS]
    finish = np.zeros(len(arrival))

    def look() -> None:
        while idle[0] and waiting:
            batch = [waiting.popleft() for _ in range(min(len(waiting), LARGEST))]
            idle[0] -= 1
            world.process(serve(batch))

    def serve(batch: list[int]) -> Any:
        longer = 1 + (len(batch) - 1) / (LARGEST - 1)
        for seconds in (MOVE_S, SERVICE_S * longer, MOVE_S):
            yield world.timeout(seconds)
        finish[batch] = world.now
        idle[0] += 1
        look()

    def request(index: int, at: float) -> Any:
        yield world.timeout(at)
        waiting.append(index)
        look()

    for index, at in enumerate(arrival.tolist()):
        world.process(request(index, at))
    world.run()
    return finish


def compare(
    work: str,
    layout: TemplateLayout,
    duration: Floats,
    model: ModelSetup,
    arrival: Floats,
    peers: dict[str, tuple[Callable[[Floats], Floats], float]],
) -> bool:
    """Print a line for each engine; return whether they agree."""
    few = arrival[: max(len(arrival) // PLAIN, 1)]
    engines: list[tuple[str, Any]] = [
        ("hetsim, plain", partial(play, machine_code=False)),
        ("hetsim, compiled", partial(play, machine_code=True)),
    ]
    told: Floats | None = None
    agree = True

    def say(engine: str, requests: int, events: int, cpu_s: float, equal: bool) -> None:
        emit(
            work=work,
            engine=engine,
            requests=requests,
            events=events,
            cpu_s=round(cpu_s, 4),
            events_per_cpu_s=round(events / cpu_s),
            equal=equal,
        )

    events = 0
    for name, engine in engines:
        given = partial(engine, layout, duration, model)
        (finish, few_events), _ = timed(partial(given, few), 1)
        told = finish if told is None else told
        equal = finish.tobytes() == told.tobytes()
        agree &= equal
        requests = few if name.endswith("plain") else arrival
        (_, events), cpu_s = timed(partial(given, requests), 1 if requests is few else 3)
        say(name, len(requests), events, cpu_s, equal)
    assert told is not None
    for name, (peer, within) in peers.items():
        if importlib.util.find_spec(name) is None:
            emit(work=work, engine=name, absent=True)
            continue
        finish, cpu_s = timed(partial(peer, few), 1)
        ordered = np.sort(finish) if within else finish
        equal = bool(np.allclose(ordered, np.sort(told) if within else told, within, 0.0))
        agree &= equal
        version = importlib.metadata.version(name)
        say(f"{name} {version}", len(few), few_events, cpu_s, equal)
    return agree


def p99(
    work: str, layout: TemplateLayout, duration: Floats, model: ModelSetup, rate_per_s: float
) -> None:
    """Print how long the p99 takes to 2 %."""
    known_s, requests, off = [], [], []
    for seed in range(SEEDS):
        stream = Stream("load", "model", Poisson(rate_per_s))
        workload = Workload((stream,), None, 10**9, seed=seed)

        def blocks(workload: Workload = workload) -> Iterator[tuple[Floats, Any, Floats]]:
            serving = Serving(layout, duration, [model], [RequestSource(0)], machine_code=True)
            kept: list[Outcomes] = []
            for block in requests_of(workload):
                found = serving.serve(block.arrival_s, block.stream, block.variant)
                kept = [Outcomes.joined([*kept, found])]
                # The gap after the last one is known when the next is.
                told = kept[0]
                innovation = innovations_of(told.arrival_s, rate_per_s)
                yield told.latency_s[:-1], told.fresh[:-1], innovation[:-1]
                rest: Any = (column[-1:] for column in told)
                kept = [Outcomes._make(rest)]

        before = time.process_time()
        found = until(blocks(), Slo(0.99, 1e9), 10**8, precision=0.02)
        known_s.append(round(time.process_time() - before, 3))
        requests.append(found.requests)
        off.append(round(found.percentile.half_width, 4))
    emit(
        work=f"p99 of {work} to 2 %",
        cpu_s=known_s,
        most_cpu_s=max(known_s),
        requests=requests,
        half_width=off,
    )


def main() -> int:
    """Run the benchmark; 1 where engines disagree."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--requests", type=int, default=1_000_000)
    requests = parser.parse_args().requests
    rng = np.random.default_rng(0)
    gaps = rng.exponential(1.0, requests)
    _, replicas, seconds = laid(copies(REPLICAS, 1, MOVE_S))
    table = np.arange(REPLICAS).reshape(1, REPLICAS, 1)
    one = ModelSetup(table, (1,) * REPLICAS)
    service_s = SERVICE_S + 2 * MOVE_S
    agree = compare(
        "queue",
        replicas,
        seconds,
        one,
        (gaps * (service_s / REPLICAS / 0.9)).cumsum(),
        {"simpy": (queue_in_simpy, 0.0), "ciw": (queue_in_ciw, 1e-9)},
    )
    _, stages, durations = laid(tandem())
    agree &= compare(
        "tandem",
        stages,
        durations,
        ONE,
        (gaps * (max(STAGES_S) / 0.9)).cumsum(),
        {"simpy": (with_simpy, 0.0), "ciw": (with_ciw, 1e-9)},
    )
    batched, longer, sizes = in_batches()
    agree &= compare(
        "batches",
        batched,
        longer,
        ModelSetup(sizes, (1,) * REPLICAS),
        (gaps * (service_s / REPLICAS / 2.5)).cumsum(),
        {"simpy": (batches_in_simpy, 0.0)},
    )
    _, single, alone = laid(copies(1, 1, 0.0))
    p99("one device", single, alone, ONE, 0.9 / SERVICE_S)
    p99("the tandem", stages, durations, ONE, 0.9 / max(STAGES_S))
    _, two, both = laid(copies(2, 1, 0.0))
    shortest = ModelSetup(np.arange(2).reshape(1, 2, 1), (0, 0))
    p99("two replicas", two, both, shortest, 1.8 / SERVICE_S)
    emit(engines_agree=agree)
    return 0 if agree else 1


if __name__ == "__main__":
    sys.exit(main())
