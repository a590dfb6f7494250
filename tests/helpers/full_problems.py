"""Small problems with everything in them at once, and their plans."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
from hypothesis import strategies as st

from builders import drawn_tasks
from hetsim.problem.groups import as_groups, order_groups
from hetsim.problem.parts import FusedKernel, Staging
from hetsim.problem.plan import Plan
from hetsim.problem.problem import Problem


@st.composite
def full_problems(draw: st.DrawFn, max_nodes: int = 5, max_devices: int = 2) -> Problem:
    """Dispatch, streams, host transfers, staging, fused kernels and composites, all at once."""
    eighths = st.integers(0, 24).map(lambda k: k / 8)
    dag, seconds, tensors = drawn_tasks(draw, max_nodes, max_devices, eighths)
    count = seconds.shape[1]
    rates = st.tuples(*[st.sampled_from([0.0, 0.125]) for _ in range(count)])
    problem = Problem.from_arrays(
        seconds,
        tensors=tensors,
        latency_s=draw(eighths),
        bytes_per_s=draw(st.sampled_from([1.0, 4.0, 16.0])),
        dispatch_s=[draw(eighths) for _ in range(count)],
        streams=[draw(st.integers(1, 2)) for _ in range(count)],
        host=draw(st.sampled_from([None, 0])),
        contention=draw(st.sampled_from(["none", "fifo"])),
        staging=draw(st.none() | st.builds(Staging, rates, rates, st.booleans())),
    )
    # Two neighbours with nothing between them may run as one kernel, even where one may not.
    fused: list[FusedKernel] = []
    for p in range(count):
        taken: set[int] = set()
        for u in range(dag.n):
            if len(dag.succs[u]) == 1 and not {u, dag.succs[u][0]} & taken and draw(st.booleans()):
                nodes = (u, dag.succs[u][0])
                taken.update(nodes)
                fused.append(
                    FusedKernel(p, nodes, draw(eighths), draw(st.sampled_from(["", "ab"])))
                )
    return replace(problem, fused=tuple(fused))


def every_plan(problem: Problem) -> list[Plan]:
    """Every assignment in four groupings, where a device can run it."""
    found = []
    choices = [np.flatnonzero(row).tolist() for row in problem.runnable]
    for assignment in itertools.product(*choices):
        kernel_of = list(range(problem.n))
        for kernel in problem.fused:
            if all(assignment[v] == kernel.device for v in kernel.nodes):
                for v in kernel.nodes:
                    kernel_of[v] = kernel_of[kernel.nodes[0]]
        whole = [problem.n + p for p in assignment]
        levels: list[int] = []
        for v in range(problem.n):
            levels.append(
                max(
                    (levels[u] + (assignment[u] != assignment[v]) for u in problem.dag.preds[v]),
                    default=0,
                )
            )
        staged = [
            level * len(problem.devices) + p for level, p in zip(levels, assignment, strict=True)
        ]
        for labels in (list(range(problem.n)), kernel_of, whole, staged):
            parts = order_groups(problem.dag, labels)
            if parts is not None:
                found.append(Plan(problem, "any", as_groups(parts, assignment, problem.devices)))
    return found
