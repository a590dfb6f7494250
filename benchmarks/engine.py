"""How many task events a second the virtual clock plays, beside SimPy on the same work.

A tandem of eight devices, one subgraph each, joined by links; every request is a tensor in,
eight subgraphs, seven tensors between them, and a tensor out: 17 task events. CPU seconds of
this process; every engine's latencies are checked to be the same. Then with failures, by the
clock alone and under load: 500 requests that 250 failures interrupt, and 2,000 with 1,000. JSON
lines on stdout:

    python benchmarks/engine.py [--requests N]
"""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import json
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hetsim.hardware.spec import Route
from hetsim.placement.planning import replan
from hetsim.problem.groups import Group
from hetsim.problem.parts import GRAPH_INPUT, Value
from hetsim.problem.plan import Plan
from hetsim.problem.problem import Problem
from hetsim.simulation.clock.runs import play
from hetsim.simulation.clock.templates import PlanTasks, tasks_of_plan
from hetsim.simulation.failures.serving import FailingServing
from hetsim.simulation.serving.setup import ModelSetup, Outcomes, RequestSource
from hetsim.simulation.simulate import simulate
from hetsim.workload.failure import Failure

SERVICE_S = (10.0, 11.0, 9.0, 12.0, 10.0, 8.0, 11.0, 10.0)
MOVE_S = 1.0
ONE = ModelSetup(np.zeros((1, 1, 1), dtype=np.int64), (0,))
"""A model on one instance that takes all requests at once."""


def tandem() -> Plan:
    """Return the plan that every engine plays."""
    stages = len(SERVICE_S)
    names = ("host", *(f"stage{k}" for k in range(stages)))
    count = len(names)
    routes = [[Route(0.0, float("inf")) for _ in names] for _ in names]
    links: list[str] = []
    for k in range(count):
        target = (k + 1) % count
        routes[k][target] = Route(MOVE_S, float("inf"), (k,))
        links.append(f"{names[k]}>{names[target]}")
    problem = Problem(
        name="tandem",
        devices=names,
        seconds=np.array([[seconds] * count for seconds in SERVICE_S]),
        values=(
            Value("in", 8, GRAPH_INPUT, (0,)),
            *(Value(f"v{k}", 8, k, (k + 1,)) for k in range(stages - 1)),
            Value("out", 8, stages - 1, (), is_output=True),
        ),
        constants=(),
        routes=tuple(tuple(row) for row in routes),
        dispatch_s=(0.0,) * count,
        streams=(1,) * count,
        host=0,
        link_names=tuple(links),
    )
    groups = tuple(Group(names[k + 1], (k,)) for k in range(stages))
    return Plan(problem, "manual", groups)


def arrivals(kind: str, requests: int) -> NDArray[np.float64]:
    """Return arrival times: all at 0, evenly spaced, or a Poisson process of the same rate."""
    if kind == "burst":
        return np.zeros(requests)
    if kind == "paced":
        return 12.5 * np.arange(requests, dtype=np.float64)
    times: NDArray[np.float64] = np.random.default_rng(0).exponential(12.5, requests).cumsum()
    return times


def with_simpy(arrival: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return each request's end, played by SimPy: a process a request, a resource a stage."""
    simpy: Any = importlib.import_module("simpy")
    world = simpy.Environment()
    services = [MOVE_S]
    for seconds in SERVICE_S:
        services += [seconds, MOVE_S]
    servers = [simpy.Resource(world, capacity=1) for _ in services]
    finish = np.zeros(len(arrival))

    def request(index: int, at: float) -> Any:
        yield world.timeout(at)
        for server, seconds in zip(servers, services, strict=True):
            with server.request() as turn:
                yield turn
                yield world.timeout(seconds)
        finish[index] = world.now

    for index, at in enumerate(arrival.tolist()):
        world.process(request(index, at))
    world.run()
    return finish


def report(engine: str, kind: str, requests: int, events: int, cpu_s: float) -> None:
    """Print one JSON line."""
    line = {
        "benchmark": "engine",
        "engine": engine,
        "arrivals": kind,
        "requests": requests,
        "events": events,
        "cpu_s": round(cpu_s, 4),
        "events_per_cpu_s": round(events / cpu_s),
    }
    print(json.dumps(line), flush=True)


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    """Return the result of `work` and the CPU seconds it took."""
    before = time.process_time()
    result = work()
    return result, time.process_time() - before


def measure(plan_tasks: PlanTasks, requests: int) -> bool:
    """Print a line for each engine and kind of arrivals; return whether all agree."""
    agree = True
    small = max(requests // 100, 1)
    has_simpy = importlib.util.find_spec("simpy") is not None
    for kind in ("burst", "paced", "poisson"):
        many, few = arrivals(kind, requests), arrivals(kind, small)
        work: list[tuple[str, NDArray[np.float64], Callable[[NDArray[np.float64]], Any]]] = [
            (
                "hetsim compiled",
                many,
                lambda a: play(plan_tasks, a, traced=False, machine_code=True),
            ),
            ("hetsim plain", few, lambda a: play(plan_tasks, a, traced=False, machine_code=False)),
        ]
        reference = play(plan_tasks, few, traced=False, machine_code=True).finish
        for engine, arrival, run in work:
            recording, cpu_s = timed(lambda run=run, arrival=arrival: run(arrival))  # type: ignore[misc]
            report(engine, kind, len(arrival), len(arrival) * plan_tasks.widest, cpu_s)
            if len(arrival) == small:
                agree &= bool(np.array_equal(recording.finish, reference))
        if has_simpy:
            finish, cpu_s = timed(lambda few=few: with_simpy(few))  # type: ignore[misc]
            version = importlib.metadata.version("simpy")
            report(f"simpy {version}", kind, small, small * plan_tasks.widest, cpu_s)
            agree &= bool(np.array_equal(finish, reference))
    if not has_simpy:
        print(json.dumps({"benchmark": "engine", "engine": "simpy", "absent": True}), flush=True)
    return agree


def killed(plan: Plan, requests: int, failures: int) -> list[Failure]:
    """Return failures of devices in turn, each gone for 40 % of the time between two."""
    every_s = 12.5 * requests / failures
    order = np.random.default_rng(0).integers(1, len(plan.problem.devices), failures)
    return [
        Failure(plan.problem.devices[device], (turn + 0.3) * every_s, "kill", 0.4 * every_s)
        for turn, device in enumerate(order.tolist())
    ]


def served(plan: Plan, arrival: NDArray[np.float64], failures: Sequence[Failure]) -> Outcomes:
    """Play a plan under load, by one instance that takes all requests at once."""
    engine = FailingServing(
        tasks_of_plan(plan, "fifo"),
        "fifo",
        replan,
        [ONE],
        [RequestSource(0)],
        failures=failures,
    )
    return engine.serve_all(arrival, np.zeros(len(arrival), dtype=np.int64))


def fail_often(plan: Plan, requests: int, failures: int) -> None:
    """Print a line for each kind of arrivals, for the clock alone and under load."""
    served(plan, np.zeros(requests), killed(plan, requests, 2))  # loads the machine code
    for many in (failures // 4, failures):
        some = requests * many // failures
        kills = killed(plan, some, many)
        for kind in ("burst", "poisson"):
            arrival = arrivals(kind, some)
            timeline, cpu_s = timed(
                lambda arrival=arrival, kills=kills: simulate(  # type: ignore[misc]
                    plan, arrivals_s=arrival.tolist(), trace=False, failures=kills
                )
            )
            ran = timeline.transfers * 17 // 9
            report(f"hetsim, {many} failures", kind, some, ran, cpu_s)
            _, cpu_s = timed(
                lambda arrival=arrival, kills=kills: served(plan, arrival, kills)  # type: ignore[misc]
            )
            report(f"hetsim under load, {many} failures", kind, some, ran, cpu_s)


def main() -> int:
    """Run the benchmark; 1 where the engines disagree."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--requests", type=int, default=1_000_000, help="for the compiled engine")
    requests = parser.parse_args().requests
    plan = tandem()
    plan_tasks = tasks_of_plan(plan, "fifo")
    _, load_s = timed(lambda: play(plan_tasks, np.zeros(1), traced=False, machine_code=True))
    print(
        json.dumps({"benchmark": "engine", "load_machine_code_cpu_s": round(load_s, 3)}), flush=True
    )
    repeats = 200
    _, one_s = timed(lambda: [simulate(plan) for _ in range(repeats)])
    report("hetsim simulate, one request with trace", "single", repeats, repeats * 17, one_s)
    agree = measure(plan_tasks, requests)
    fail_often(plan, 2_000, 1_000)
    print(json.dumps({"benchmark": "engine", "engines_agree": agree}), flush=True)
    return 0 if agree else 1


if __name__ == "__main__":
    sys.exit(main())
