"""Random deployments of real plans, with what tells drivers of the clock apart.

Ties, tasks of no duration, sums that round, times far from 0, devices that are alike and that are
not, several plans of a model, priorities, queues that overflow, clients that think not at all.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hetsim.hardware.spec import Route
from hetsim.problem.groups import Group
from hetsim.problem.parts import GRAPH_INPUT, Contention, Value
from hetsim.problem.plan import Plan
from hetsim.problem.problem import Problem
from hetsim.simulation.clock.templates import PlanTasks, template_of
from hetsim.simulation.serving.setup import Clients, ModelSetup, RequestSource
from hetsim.workload.deployment import ROUTINGS
from oracles.clock_plans import plan_of_pieces

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

REQUESTS = 40


class Served(NamedTuple):
    """Models on the devices of one problem, and who asks for them."""

    tasks: PlanTasks
    models: list[ModelSetup]
    sources: list[RequestSource]
    arrival: Floats
    stream: Ints
    variant: Ints
    clients: list[Clients]
    requests: int | None

    @property
    def contention(self) -> Contention:
        return self.tasks.plan.problem.contention

    @property
    def duration(self) -> Floats:
        return np.concatenate([one.duration for one in self.tasks.templates])


def random_problem(rng: np.random.Generator, *, most_nodes: int = 6) -> Problem:
    """Up to four devices; small whole numbers for times or thirds of them, or any."""
    n, count = int(rng.integers(1, most_nodes + 1)), int(rng.integers(1, 5))
    host = None if rng.random() < 0.15 else int(rng.integers(count))
    values: list[Value] = []
    for producer in (GRAPH_INPUT, *range(n)):
        later = np.arange(max(producer + 1, 0), n)
        for copy in range(int(rng.choice([1, 1, 2]))):
            most = int(rng.integers(0, min(3, len(later)) + 1))
            readers = tuple(sorted(rng.permutation(later)[:most].tolist()))
            name = f"v{producer}.{copy}"
            output = producer != GRAPH_INPUT and (not readers or rng.random() < 0.2)
            values.append(Value(name, int(rng.integers(0, 5)), producer, readers, bool(output)))
    links = int(rng.integers(1, 4))
    grain = float(rng.choice([1.0, 1.0, 3.0, 7.0]))
    least = int(rng.choice([0, 0, 1]))
    seconds = rng.integers(least, 5, (n, count)) / grain
    if rng.random() < 0.15:
        seconds = rng.exponential(1.0, (n, count))
    if rng.random() < 0.3:
        # Devices that are alike.
        seconds = np.repeat(seconds[:, :1], count, axis=1)
    latency = rng.integers(least, 5, (count, count)) / grain
    routes = tuple(
        tuple(
            Route(
                float(latency[a, b]),
                float(rng.choice([1.0, 2.0, math.inf])),
                tuple(sorted(rng.permutation(links)[: int(rng.integers(0, 3))].tolist())),
            )
            for b in range(count)
        )
        for a in range(count)
    )
    return Problem(
        name="random",
        devices=tuple(f"d{p}" for p in range(count)),
        seconds=seconds,
        values=tuple(values),
        constants=(),
        routes=routes,
        dispatch_s=tuple((rng.integers(0, 2, count) * rng.choice([0.0, 1.0]) / grain).tolist()),
        streams=tuple(rng.choice([1, 1, 2, 3], count).tolist()),
        host=host,
        contention="none" if rng.random() < 0.2 else "fifo",
        link_names=tuple(f"link{k}" for k in range(links)),
        idle_w=(1.0,) * count,
        busy_w=(3.0,) * count,
    )


def random_plan(rng: np.random.Generator, problem: Problem) -> Plan:
    """Pieces of a random topological order on random devices, or all nodes on one."""
    if rng.random() < 0.3:
        device = problem.devices[rng.integers(len(problem.devices))]
        return Plan(problem, "random", (Group(device, tuple(range(problem.n))),))
    return plan_of_pieces(
        problem, lambda among: among[rng.integers(len(among))], lambda: rng.random() < 0.5
    )


def random_arrivals(rng: np.random.Generator, count: int) -> Floats:
    """Ascending times: bursts, gaps, ties; whole, thirds, or any; some far from 0."""
    grain = float(rng.choice([1.0, 1.0, 3.0, 11.0]))
    gaps = rng.integers(0, 5, count) / grain
    if rng.random() < 0.15:
        gaps = rng.exponential(1.0, count)
    gaps = gaps * rng.choice([0.0, 0.3, 1.0, 3.0, 10.0])
    gaps[rng.random(count) < rng.choice([0.0, 0.5])] = 0.0
    return np.cumsum(gaps) + float(rng.choice([0.0, 0.0, 1.0, 1e9]))


def random_served(seed: int) -> Served:
    """One to three models in one problem's plans, each on up to four instances."""
    rng = np.random.default_rng([seed, 41])
    problem = random_problem(rng)
    templates = tuple(
        template_of(random_plan(rng, problem), problem.contention)
        for _ in range(int(rng.integers(1, 5)))
    )
    tasks = PlanTasks(templates[0].plan, templates)
    models, sources = [], []
    # In the order in which they came, one by one: what wants no heap of events, mostly.
    in_order = bool(rng.random() < 0.3)
    for at in range(1 if in_order else int(rng.choice([1, 1, 2, 3]))):
        variants, instances = int(rng.choice([1, 1, 2])), int(rng.integers(1, 5))
        largest = 1 if in_order else int(rng.choice([1, 1, 2, 5]))
        levels = 1 if in_order else int(rng.choice([1, 1, 2, 4]))
        limits = tuple(rng.integers(0, 3, instances).tolist())
        if rng.random() < 0.5:
            limits = (int(rng.choice([0, 0, 1])),) * instances
        ranks = tuple(np.sort(rng.integers(0, 3, levels)).tolist())
        preferred = tuple(sorted((1 + rng.permutation(largest)[: rng.integers(0, 3)]).tolist()))
        models.append(
            ModelSetup(
                rng.integers(0, len(templates), (variants, instances, largest)),
                limits,
                routing=ROUTINGS[rng.integers(3)],
                cycle=tuple(rng.permutation(instances).tolist()) if rng.random() < 0.3 else (),
                ranks=ranks,
                max_queue_size=(None, None, 1, 4, 0)[rng.integers(4 if in_order else 5)],
                timeout_s=float(rng.choice([math.inf, math.inf, 0.5, 2.0, 7.0])),
                timeout_action="reject" if in_order or rng.random() < 0.5 else "delay",
                preferred=preferred if rng.random() < 0.4 else (),
                delay_s=float(rng.choice([0.0, 0.0, 1.0, 1 / 3, 5.0])),
            )
        )
        sources += [RequestSource(at, level) for level in range(levels)]
    count = int(rng.integers(1, REQUESTS + 1))
    stream = rng.integers(0, len(sources), count)
    variant = [int(rng.integers(models[sources[k].model].template.shape[0])) for k in stream]
    clients, requests = [], None
    if not in_order and rng.random() < 0.45:
        who = int(rng.integers(len(sources)))
        many = int(rng.integers(1, 4))
        clients = [Clients(who, many, _thinking(seed, many, hasty=rng.random() < 0.3))]
        requests = count + 25
    elif rng.random() < 0.15:
        requests = int(rng.integers(1, count + 1))
    return Served(
        tasks,
        models,
        sources,
        random_arrivals(rng, count),
        stream,
        np.array(variant, dtype=np.int64),
        clients,
        requests,
    )


def _thinking(seed: int, many: int, *, hasty: bool) -> Callable[[int], Floats]:
    def think(block: int) -> Floats:
        rng = np.random.default_rng([seed, 42, block])
        return rng.integers(0 if hasty else 1, 5, (4, many)) / 3.0

    return think
