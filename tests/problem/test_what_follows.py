"""What a Problem works out of its fields, told again by plain loops."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from full_problems import full_problems
from hetsim.hardware.spec import Route
from hetsim.problem.parts import FusedKernel, Staging, StoredConstant, Value, distributed_seconds
from hetsim.problem.problem import Problem
from sweeps import examples


@st.composite
def with_constants(draw: st.DrawFn) -> Problem:
    problem = draw(full_problems())
    readers = st.sets(st.integers(0, problem.n - 1)).map(lambda nodes: tuple(sorted(nodes)))
    drawn = draw(st.lists(readers, max_size=4))
    constants = tuple(StoredConstant(f"w{k}", k, nodes) for k, nodes in enumerate(drawn))
    few = st.tuples(*[st.sampled_from((0.0, 0.5, 1.0, math.inf)) for _ in problem.devices])
    least = draw(st.dictionaries(st.integers(0, problem.n - 1), few, max_size=2))
    return replace(problem, constants=constants, least_s=least)


@examples(quick=15, full=400)
@given(with_constants())
def test_edges_and_who_has_what_follow_from_the_values(problem: Problem) -> None:
    edges = {(v.producer, w) for v in problem.values for w in v.consumers if v.producer >= 0}
    dag = problem.dag
    assert dag.n == problem.n
    assert set(dag.edges()) == edges
    for node in range(problem.n):
        assert dag.succs[node] == tuple(sorted(w for u, w in edges if u == node))
        assert dag.preds[node] == tuple(sorted(u for u, w in edges if w == node))
        assert problem.values_of[node] == tuple(
            k for k, v in enumerate(problem.values) if node in (v.producer, *v.consumers)
        )
        assert problem.constants_of[node] == tuple(
            k for k, c in enumerate(problem.constants) if node in c.consumers
        )


@examples(quick=15, full=400)
@given(with_constants())
def test_shared_times_are_those_of_whole_kernels_and_never_above_a_nodes_own(
    problem: Problem,
) -> None:
    seconds, shared, least = problem.seconds, problem.shared_seconds, problem.least_seconds
    assert (shared <= seconds).all()
    assert (least <= shared).all()
    assert (problem.supported == (seconds < np.inf)).all()
    assert (problem.runnable == (shared < np.inf)).all()
    inside = {(k.device, node) for k in problem.fused for node in k.nodes}
    for p in range(len(problem.devices)):
        for v in range(problem.n):
            if (p, v) not in inside:
                assert shared[v, p] == seconds[v, p]
            few = problem.least_s.get(v, (math.inf,) * len(problem.devices))[p]
            alone = seconds[v, p]
            cheaper = few < alone < math.inf
            assert least[v, p] == pytest.approx(shared[v, p] * (few / alone if cheaper else 1))
    for kernel in problem.fused:
        nodes = list(kernel.nodes)
        assert shared[nodes, kernel.device].sum() == pytest.approx(
            min(kernel.seconds, seconds[nodes, kernel.device].sum())
        )
    assert problem.composites == tuple(k for k in problem.fused if k.pattern != "")
    for p in range(len(problem.devices)):
        for nodes in ([v] for v in range(problem.n)):
            refused = problem.unsupported(p, nodes)
            assert refused == [v for v in nodes if seconds[v, p] == math.inf]
        whole = list(range(problem.n))
        saved = {v for k in problem.fused if k.device == p for v in k.nodes}
        assert problem.unsupported(p, whole) == [
            v for v in whole if seconds[v, p] == math.inf and v not in saved
        ]


@given(
    st.integers(0, 40),
    st.lists(st.sampled_from((0.0, 0.5, 1.0, 2.0, math.inf)), min_size=1, max_size=4),
)
def test_a_kernels_time_is_shared_out_by_what_members_take_alone(
    eighths: int, alone: list[float]
) -> None:
    """Those without a time of their own get what the others leave, in equal parts."""
    seconds = eighths / 8
    shares = distributed_seconds(seconds, np.array(alone)).tolist()
    known = [s for s in alone if s < math.inf]
    total = sum(known)
    for share, own in zip(shares, alone, strict=True):
        if own < math.inf:
            assert share == pytest.approx(own * min(1.0, seconds / total) if total else 0.0)
        else:
            left = max(0.0, seconds - total)
            assert share == pytest.approx(left / (len(alone) - len(known)))


FIELDS: dict[str, Any] = {
    "name": "other",
    "devices": ("cpu", "tpu"),
    "seconds": np.array([[1.0, 2.0], [3.0, 4.5]]),
    "values": (Value("n0:n1", 5, 0, (1,)),),
    "constants": (StoredConstant("w0", 7, (0,)),),
    "routes": ((Route(0.0, math.inf), Route(0.5, 2.0, (0,))),
               (Route(0.25, 2.0, (1,)), Route(0.0, math.inf))),
    "dispatch_s": (0.0, 0.5),
    "streams": (1, 2),
    "host": 1,
    "contention": "fifo",
    "link_names": ("a", "b"),
    "capacity_bytes": (10, 10),
    "fused": (FusedKernel(0, (0, 1), 2.0),),
    "staging": Staging((0.0, 0.0), (0.0, 0.5)),
    "node_names": ("a", "b"),
    "unpriced": {0: "a loop"},
    "least_s": {0: (0.5, 0.5)},
}  # fmt: skip


def test_all_that_a_plan_depends_on_is_in_the_fingerprint() -> None:
    problem = Problem.from_arrays(
        [[1.0, 2.0], [3.0, 4.0]], edges=[(0, 1, 4)], devices=("cpu", "npu"), host=0,
        latency_s=0.25, bytes_per_s=2.0,
    )  # fmt: skip
    found = {"": problem.fingerprint}
    for name, value in FIELDS.items():
        found[name] = replace(problem, **{name: value}).fingerprint
        assert replace(problem, **{name: value}).fingerprint == found[name]
    assert len(set(found.values())) == len(found)
    # Not on what is told of it alone.
    for name, value in {"origins": (("x",), ("y",)), "op_types": ("A", "B"), "cost": "x"}.items():
        assert replace(problem, **{name: value}).fingerprint == found[""]
