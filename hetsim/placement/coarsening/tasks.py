"""Coarsening: nodes that belong together become one task, so that strategies see fewer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

import numpy as np

from hetsim.graph.contraction import Contraction
from hetsim.graph.dag import joined
from hetsim.placement.coarsening.chains import contract_chains
from hetsim.problem.groups import Group, order_groups
from hetsim.problem.parts import GRAPH_INPUT, Constant, FusedKernel, Value
from hetsim.problem.problem import Problem

MOST_TASKS = 400
"""Tasks above which neighbours are joined even where a split of them could pay."""


@dataclass(frozen=True, eq=False)
class Coarse:
    """A problem of fewer nodes that stands for another.

    Attributes
    ----------
    fine, problem : Problem
        What was coarsened, and the tasks that came of it.
    members : tuple of tuple of int
        The fine nodes that each task stands for, ascending.
    task_of : tuple of int
        The task of each fine node.
    """

    fine: Problem = field(repr=False)
    problem: Problem = field(repr=False)
    members: tuple[tuple[int, ...], ...] = field(repr=False)
    task_of: tuple[int, ...] = field(repr=False)

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

    def gathered(self, groups: Sequence[Group]) -> tuple[Group, ...] | None:
        """Return groups of fine nodes as groups of tasks; None where one cuts through a task."""
        found: list[Group] = []
        for group in groups:
            tasks = sorted({self.task_of[v] for v in group.nodes})
            if sum(len(self.members[task]) for task in tasks) != len(group.nodes):
                return None
            found.append(Group(group.device, tuple(tasks)))
        return tuple(found)


def pays_to_coarsen(problem: Problem) -> bool:
    """Whether starting a subgraph costs something or kernels fuse, as on models.

    Where both are free, as on published instances, a task is best left alone.
    """
    return bool(problem.fused) or any(problem.dispatch_s)


def coarsen(problem: Problem, most_tasks: int = MOST_TASKS) -> Coarse:
    """Join nodes into tasks of which no strategy would want to split one.

    1. The members of a fused kernel or composite, kernels that overlap together, where that
       closes no cycle and leaves a device that takes all of them.
    2. Chains: a node and the only reader of all it makes, that reads nothing else, where on
       no pair of devices a split would be quicker than both on one of them.
    3. Above `most_tasks`: chains and single readers all the same, the largest tensors first,
       as long as a device takes both.

    A task takes as long as the kernels of its members launched together, so that a plan of
    the coarse problem and the same plan of the fine one cost the same. Memory inside a task
    is left out, and a device's composite that could not be joined is left out with it.

    Complexity: O((V + E) P^2 + V log V), a few times over. Source: the steps are those of
    multilevel partitioning, G. Karypis, V. Kumar, SIAM J. Sci. Comput. 20(1), 1998; what is
    joined is decided by time here, not by edge weight alone.
    """
    labels = contract_chains(problem, _joined_kernels(problem), most_tasks)
    parts = order_groups(problem.dag, labels)
    if parts is None:
        raise AssertionError("coarsening closed a cycle")
    return _contracted(problem, tuple(parts))


def uncoarsened(problem: Problem) -> Coarse:
    """Return the problem as a coarse one of itself."""
    nodes = range(problem.n)
    return Coarse(problem, problem, tuple((v,) for v in nodes), tuple(nodes))


def _joined_kernels(problem: Problem) -> list[int]:
    """Label nodes by fused kernels that can be contracted together."""
    n = problem.n
    if not problem.fused:
        return list(range(n))
    roots = joined(n, ((k.nodes[0], v) for k in problem.fused for v in k.nodes[1:]))
    together: dict[int, list[int]] = {}
    for node, root in enumerate(roots):
        together.setdefault(root, []).append(node)
    # Large unions first; where one does not do, its kernels are tried one by one.
    wanted = [tuple(nodes) for nodes in together.values() if len(nodes) > 1]
    alone = sorted(problem.fused, key=lambda k: (not k.pattern, -len(k.nodes), k.nodes, k.device))
    state = Contraction(problem.dag)
    labels = list(range(n))
    for nodes in [*wanted, *(kernel.nodes for kernel in alone)]:
        if any(state.taken(v) for v in nodes) or not _runs_whole(problem, nodes):
            continue
        if not state.cycle(nodes):
            state.add(nodes)
            for v in nodes:
                labels[v] = nodes[0]
    return labels


def _runs_whole(problem: Problem, nodes: Sequence[int]) -> bool:
    """Whether joining `nodes` keeps every device that each of them has, composites included."""
    mask = problem.runnable[list(nodes)]
    whole = [not problem.unsupported(device, nodes) for device in range(len(problem.devices))]
    return any(whole) and bool((mask.all(axis=0) == np.array(whole)).all())


def _contracted(problem: Problem, members: tuple[tuple[int, ...], ...]) -> Coarse:
    count = len(members)
    task_of = [0] * problem.n
    for task, nodes in enumerate(members):
        for v in nodes:
            task_of[v] = task
    alone = problem.seconds.tolist()
    seconds = np.array(
        [
            alone[nodes[0]]
            if len(nodes) == 1
            else [problem.compute_seconds(device, nodes) for device in range(len(problem.devices))]
            for nodes in members
        ],
        dtype=np.float64,
    ).reshape(count, len(problem.devices))
    coarse = replace(
        problem,
        seconds=seconds,
        values=tuple(_values(problem, task_of)),
        constants=tuple(
            Constant(c.name, c.nbytes, tuple(sorted({task_of[v] for v in c.consumers})))
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
    """The least time of tasks that hold a node which may take less than it is priced at."""
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
        consumers = value.consumers
        if len(consumers) == 1:
            reader = task_of[consumers[0]]
            readers: tuple[int, ...] = (reader,) if reader != producer else ()
        else:
            readers = tuple(sorted({task_of[v] for v in consumers} - {producer}))
        if readers or value.is_output:
            yield Value(value.name, value.nbytes, producer, readers, value.is_output)


def _spanning(
    problem: Problem,
    members: Sequence[tuple[int, ...]],
    task_of: Sequence[int],
    seconds: np.typing.NDArray[np.float64],
) -> Iterable[FusedKernel]:
    """Fusions between tasks: what tasks that share kernels cost together on a device."""
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
        together: dict[int, list[int]] = {}
        for task, root in enumerate(roots):
            if root in touched:
                together.setdefault(root, []).append(task)
        for tasks in together.values():
            inside = sorted(v for task in tasks for v in members[task])
            total = sum(s for _, s in problem.kernels(device, inside))
            if total < float(seconds[tasks, device].sum()) < np.inf:
                yield FusedKernel(device, tuple(tasks), total)
