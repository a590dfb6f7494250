"""Coarse problems: each node is a task that stands for several nodes of a finer problem."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

import numpy as np

from hetsim.graph.dag import joined
from hetsim.problem.groups import Group, by_label, order_groups
from hetsim.problem.parts import GRAPH_INPUT, FusedKernel, StoredConstant, Value
from hetsim.problem.problem import Problem


@dataclass(frozen=True, eq=False)
class Coarse:
    """Coarser problem of fewer nodes."""

    fine: Problem = field(repr=False)  # The original problem, and the problem of its tasks
    problem: Problem = field(repr=False)
    # The fine nodes of each task, ascending
    members: tuple[tuple[int, ...], ...] = field(repr=False)
    task_of: tuple[int, ...] = field(repr=False)  # The task of each fine node

    def spread(self, groups: Sequence[Group]) -> tuple[Group, ...]:
        """Return groups of tasks as groups of fine nodes, in the same order."""
        if self.problem is self.fine:
            return tuple(groups)
        members = self.members
        return tuple([
            Group(group.device, members[group.nodes[0]])
            if len(group.nodes) == 1
            else Group(
                group.device,
                tuple(sorted(chain.from_iterable(map(members.__getitem__, group.nodes)))),
            )
            for group in groups
        ])  # fmt: skip

    def on(self, fine: Problem) -> Coarse:
        """Return the same tasks for another problem with the same nodes. O(V + E)."""
        if self.problem is self.fine:
            return replace(self, fine=fine, problem=fine)
        return contracted(fine, self.members)

    def cut_by(self, groups: Sequence[Group]) -> Coarse:
        """Return these tasks, split where `groups`, in an executable order, split them. O(V + E).

        Neither rank decreases along an edge, so no cycle arises.
        """
        rank = {v: place for place, group in enumerate(groups) for v in group.nodes}
        first: dict[tuple[int, int], int] = {}
        labels = [first.setdefault((task, rank[v]), v) for v, task in enumerate(self.task_of)]
        if len(first) == len(self.members):
            return self
        parts = order_groups(self.fine.dag, labels)
        if parts is None:
            raise AssertionError("cut tasks close a cycle")
        return contracted(self.fine, tuple(parts))

    def gathered(self, groups: Sequence[Group]) -> tuple[Group, ...] | None:
        """Return groups of fine nodes as groups of tasks; None if a group splits a task."""
        found: list[Group] = []
        for group in groups:
            tasks = sorted({self.task_of[v] for v in group.nodes})
            if sum(len(self.members[task]) for task in tasks) != len(group.nodes):
                return None
            found.append(Group(group.device, tuple(tasks)))
        return tuple(found)


def uncoarsened(problem: Problem) -> Coarse:
    """Return the problem as a coarse problem of single nodes."""
    nodes = range(problem.n)
    return Coarse(problem, problem, tuple((v,) for v in nodes), tuple(nodes))


def contracted(problem: Problem, members: tuple[tuple[int, ...], ...]) -> Coarse:
    """Return the problem whose tasks are `members`, in an executable order. O(V + E)."""
    count = len(members)
    task_of = [0] * problem.n
    for task, nodes in enumerate(members):
        for v in nodes:
            task_of[v] = task
    devices = range(len(problem.devices))
    seconds = np.array(
        [[problem.compute_seconds(device, nodes) for device in devices] for nodes in members],
        dtype=np.float64,
    ).reshape(count, len(problem.devices))
    coarse = replace(
        problem,
        seconds=seconds,
        values=tuple(_values(problem, task_of)),
        constants=tuple(
            StoredConstant(c.name, c.nbytes, tuple(sorted({task_of[v] for v in c.consumers})))
            for c in problem.constants
        ),
        fused=tuple(_spanning(problem, members, task_of, seconds)),
        node_names=_first(problem.node_names, members),
        op_types=_first(problem.op_types, members),
        origins=tuple(
            tuple(name for v in nodes for name in problem.origins[v]) for nodes in members
        )
        if problem.origins
        else (),
        refusals=tuple(
            {task_of[v]: why for v, why in reversed(tuple(refused.items()))}
            for refused in problem.refusals
        ),
        unpriced={task_of[v]: why for v, why in problem.unpriced.items()},
        unsized={task_of[v]: why for v, why in problem.unsized.items()},
        least_s=_least(problem, members, task_of, seconds),
    )
    return Coarse(problem, coarse, members, tuple(task_of))


def _least(
    problem: Problem,
    members: Sequence[tuple[int, ...]],
    task_of: Sequence[int],
    seconds: np.typing.NDArray[np.float64],
) -> dict[int, tuple[float, ...]]:
    """Return the least seconds of tasks with a node that may take less than its price."""
    easier = sorted({task_of[v] for v in problem.least_s})
    return {
        task: tuple(
            np.minimum(seconds[task], problem.least_seconds[list(members[task])].sum(axis=0))
        )
        for task in easier
    }


def _first(names: Sequence[str], members: Sequence[Sequence[int]]) -> tuple[str, ...]:
    return tuple(names[nodes[0]] for nodes in members) if names else ()


def _values(problem: Problem, task_of: Sequence[int]) -> Iterable[Value]:
    for value in problem.values:
        producer = value.producer if value.producer == GRAPH_INPUT else task_of[value.producer]
        readers = tuple(sorted({task_of[v] for v in value.consumers} - {producer}))
        if readers or value.is_output:
            yield Value(value.name, value.nbytes, producer, readers, value.is_output)


def _spanning(
    problem: Problem,
    members: Sequence[tuple[int, ...]],
    task_of: Sequence[int],
    seconds: np.typing.NDArray[np.float64],
) -> Iterable[FusedKernel]:
    """Yield fusions across tasks: the joint seconds of tasks that share kernels on a device."""
    for device in range(len(problem.devices)):
        kernels = [
            k
            for k in problem.fused
            if k.device == device and not k.pattern and len({task_of[v] for v in k.nodes}) > 1
        ]
        roots = joined(
            len(members), ((task_of[k.nodes[0]], task_of[v]) for k in kernels for v in k.nodes)
        )
        touched = {roots[task_of[v]] for k in kernels for v in k.nodes}
        together = [tasks for root, tasks in by_label(roots).items() if root in touched]
        for tasks in together:
            inside = sorted(v for task in tasks for v in members[task])
            total = sum(s for _, s in problem.kernels(device, inside))
            if total < float(seconds[tasks, device].sum()) < np.inf:
                yield FusedKernel(device, tuple(tasks), total)
