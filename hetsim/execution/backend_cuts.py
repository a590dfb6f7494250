"""A model split by chance or as given, for its bits: every node on any of some like devices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal

import numpy as np

from hetsim.base import checks
from hetsim.errors import UsageError, nearest
from hetsim.execution.inputs_outputs import check_wait
from hetsim.execution.run import EXECUTORS
from hetsim.graph.dag import topological_order
from hetsim.graph.model import Model
from hetsim.partitioning.groups import Group
from hetsim.plans.plan import Plan
from hetsim.problem.of_model import values_of
from hetsim.problem.problem import Problem

MOST_DEVICES = 10_000


@dataclass(frozen=True, slots=True)
class Split:
    """How a model is split.

    Attributes
    ----------
    devices : int
        How many like devices there are.
    assignment : "random" or sequence of int
        Device by node, each node then a subgraph of its own; ``random`` draws them.
    cuts : int or None
        Into how many subgraphs the nodes are divided at random, the graph of subgraphs
        acyclic; a model of fewer nodes has one each. None: every node alone.
    seed : int
        Of all that is drawn.
    executor : "threads" or "ray"
    address : str or None
        Of the Ray to join; None: as ``hetsim.run`` says.
    timeout_s : float
        For compiling, and again for running.
    """

    devices: int = 3
    assignment: Literal["random"] | Sequence[int] = "random"
    cuts: int | None = None
    seed: int = 0
    executor: Literal["threads", "ray"] = "threads"
    address: str | None = None
    timeout_s: float = 600.0

    def __post_init__(self) -> None:
        for name, least in (("devices", 1), ("cuts", 1), ("seed", 0)):
            number = getattr(self, name)
            if name == "cuts" and number is None:
                continue
            if isinstance(number, bool) or not isinstance(number, int) or number < least:
                raise UsageError(
                    f"{name} cannot be {checks.shown(number)}",
                    hint=f"give a whole number of {least} or more",
                )
        if self.devices > MOST_DEVICES:
            raise UsageError(
                f"{self.devices} devices are too many", hint=f"give up to {MOST_DEVICES}"
            )
        check_wait("timeout_s", self.timeout_s)
        if self.address is not None:
            checks.text(self.address, "address")
        if not isinstance(self.assignment, str):
            checks.sequence(checks.whole())(self.assignment, "assignment")
        checks.text(self.executor, "executor")
        if self.executor not in EXECUTORS:
            raise UsageError(
                f"there is no executor '{self.executor}'",
                hint=nearest(str(self.executor), EXECUTORS),
            )
        if isinstance(self.assignment, str):
            if self.assignment != "random":
                raise UsageError(
                    f"there is no assignment '{self.assignment}'",
                    hint="give 'random', or the index of a device for every node",
                )
        elif self.cuts is not None:
            raise UsageError(
                "cuts and an assignment are both given",
                hint="an assignment is of single nodes: give one of them",
            )


def split(model: Model, how: Split) -> Plan:
    """Return the plan that splits `model` as `how` says.

    Raises UsageError where the assignment does not fit the model. O((V + E) log V).
    """
    graph = model.graph
    problem = like_devices(model, [f"cpu.{index}" for index in range(how.devices)])
    n = len(graph.nodes)
    generator = np.random.default_rng([how.seed, n])
    if isinstance(how.assignment, str):
        parts = _alone(n) if how.cuts is None else _cut(problem, how.cuts, generator)
        chosen = [int(device) for device in generator.integers(0, how.devices, len(parts))]
    else:
        parts = _alone(n)
        chosen = _given(how.assignment, n, how.devices, model.name)
    groups = tuple(
        Group(problem.devices[device], tuple(sorted(nodes)))
        for device, nodes in zip(chosen, parts, strict=True)
    )
    reason = f"{len(groups)} subgraphs of {n} nodes on {how.devices} devices, seed {how.seed}"
    plan = Plan(problem, "backend", groups, reason)
    plan.validate()
    return plan


def _alone(n: int) -> list[tuple[int, ...]]:
    return [(node,) for node in range(n)]


def _cut(problem: Problem, cuts: int, generator: np.random.Generator) -> list[tuple[int, ...]]:
    """Cut a random topological order at random places.

    Every partition with an acyclic graph of groups can come out: it is a cut of some order.
    """
    n = problem.n
    order = topological_order(problem.dag.succs, generator.permutation(n).tolist())
    if order is None:
        raise AssertionError("a model's graph has no cycle")
    count = min(cuts, n)
    places = np.sort(generator.permutation(max(0, n - 1))[: max(0, count - 1)]) + 1
    bounds = [0, *places.tolist(), n]
    return [tuple(order[a:b]) for a, b in pairwise(bounds) if a < b]


def _given(assignment: Sequence[int], n: int, devices: int, name: str) -> list[int]:
    if len(assignment) != n:
        raise UsageError(
            f"the assignment names {len(assignment)} devices for {n} nodes",
            where=f"model '{name}'",
            hint="give one for every node; Constant nodes and those no output needs do not count",
        )
    for device in assignment:
        if not 0 <= device < devices:
            raise UsageError(
                f"the assignment has device {device}",
                where=f"model '{name}'",
                hint=f"give 0 .. {devices - 1}",
            )
    return [int(device) for device in assignment]


def like_devices(model: Model, devices: Sequence[str]) -> Problem:
    """Return the problem of `model` on devices that take every node, the first of them the host.

    A second a node on any of them: what is asked is where, not how long. O(V + E).
    """
    graph = model.graph
    problem = Problem.from_arrays(
        np.ones((len(graph.nodes), len(devices))),
        devices=devices,
        host=0,
        name=model.name,
    )
    return replace(
        problem,
        # A backend gets models with open sizes, and nothing here depends on them.
        values=values_of(graph, open_bytes=0),
        node_names=tuple(node.name for node in graph.nodes),
        op_types=tuple(node.op_type for node in graph.nodes),
        origins=tuple(node.origins for node in graph.nodes),
        model=model,
    )
