"""Plans that benchmarks play: so many pipelines of devices and links of their own."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hetsim.hardware.spec import Route
from hetsim.problem.groups import Group
from hetsim.problem.parts import GRAPH_INPUT, Value
from hetsim.problem.plan import Plan
from hetsim.problem.problem import Problem
from hetsim.simulation.clock.templates import PlanTasks, TemplateLayout, laid_out, tasks_of_plan

SERVICE_S = 10.0
MOVE_S = 1.0
BLOCK = 100_000
"""Requests that are played at a time."""


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


def laid(plan: Plan) -> tuple[PlanTasks, TemplateLayout, NDArray[np.float64]]:
    """Return the tasks of a plan, laid out, and their seconds."""
    tasks = tasks_of_plan(plan, "fifo")
    return tasks, laid_out(tasks), np.concatenate([one.duration for one in tasks.templates])
