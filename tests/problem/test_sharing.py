"""Bytes that a subgraph moves, counted by hand; and devices that wait for one memory."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

import hetsim
from hetsim.graph.loading import model_of
from hetsim.problem.problem import Problem
from hetsim.problem.repriced import SLOWEST, RepricedModel, moved_bytes
from onnx_builders import make_model, op, value
from problem.test_executed import IN, OUT, T4, WEIGHTS, of, residual

T4_FLOAT = 2 if T4.execution_dtype.get("float32") == "float16" else 4
"""Bytes of a float32 on the device."""

PLAIN = of(residual("Tan"), T4)
INTEGERS = of(residual("Relu"), T4, "int8")


@pytest.mark.parametrize("nodes", [[0], [1], [2], [0, 1], [1, 2], [0, 1, 2], [0, 2]])
def test_each_kernel_reads_and_writes_what_others_have_and_its_constants(
    nodes: list[int],
) -> None:
    """Of Conv x > c, Add c s > a, and what makes y of a; in bytes of the device's own types."""
    reads = {0: {"x"}, 1: {"c", "s"}, 2: {"a"}}
    writes = {0: "c", 1: "a", 2: "y"}
    size = {"x": IN, "c": OUT, "s": OUT, "a": OUT, "y": OUT}
    for problem, item in ((PLAIN, T4_FLOAT), (INTEGERS, 1)):
        expected = 0
        for members, seconds in problem.kernels(0, nodes):
            assert seconds > 0
            made = {writes[v] for v in members}
            outer = set().union(*(reads[v] for v in members)) - made
            inner = {value for v in members for value in reads[v]} & made
            expected += item * sum(size[value] for value in outer | (made - inner))
            expected += item * WEIGHTS * (0 in members)
        assert moved_bytes(problem, 0, nodes) == expected


def test_integers_are_moved_as_wide_as_they_are() -> None:
    made = make_model(
        [op("Gather", "x i", "y")], [value("x", (8, 64)), value("i", (3,), "INT64")],
        [value("y", (3, 64))],
    )  # fmt: skip
    problem = of(model_of(made, canonical="none"), T4)
    # Both inputs and the output, though the kernel touches only three rows.
    assert moved_bytes(problem, 0, [0]) == T4_FLOAT * (8 * 64 + 3 * 64) + 8 * 3
    # A number that is stored with the model is no float either.
    stored = make_model([op("Mul", "i k", "y")], [value("i", (3,), "INT64")],
                        [value("y", (3,), "INT64")], {"k": np.ones(3, np.int64)})  # fmt: skip
    problem = of(model_of(stored, canonical="none"), T4)
    assert moved_bytes(problem, 0, [0]) == 8 * (3 + 3 + 3)


@pytest.fixture(scope="module")
def priced() -> RepricedModel:
    problem = Problem.of(hetsim.load_model("zoo:squeezenet"), hetsim.load_platform("laptop"))
    return RepricedModel(problem, problem.devices)


def test_a_memory_is_never_faster_than_alone_and_at_most_so_many_times_slower(
    priced: RepricedModel,
) -> None:
    problem = priced.problem
    gpu = problem.device_index("gpu")
    nodes = tuple(v for v in range(problem.n) if problem.runnable[v, gpu])
    groups: Sequence[tuple[Sequence[int], int]] = [(nodes, 1)]
    assert priced.slower(gpu, groups, 0.5) == priced.slower(gpu, groups, 1.0) == 1.0
    most = priced.slower(gpu, groups, SLOWEST)
    assert priced.slower(gpu, groups, 10 * SLOWEST) == most > 1.0
    # Nothing to run is not slower, and running it often changes nothing.
    assert priced.slower(gpu, [], 5.0) == 1.0
    assert priced.slower(gpu, [(nodes, 0)], 5.0) == 1.0
    assert priced.slower(gpu, [(nodes, 3)], 5.0) == pytest.approx(priced.slower(gpu, groups, 5.0))
    # Of two subgraphs it is by what each of them takes, as often as it runs.
    first, rest = nodes[: len(nodes) // 2], nodes[len(nodes) // 2 :]
    parts = [(first, 2), (rest, 1)]
    alone = [count * problem.group_seconds(gpu, own) for own, count in parts]
    each = [priced.slower(gpu, [part], 5.0) for part in parts]
    assert priced.slower(gpu, parts, 5.0) == pytest.approx(
        sum(s * factor for s, factor in zip(alone, each, strict=True)) / sum(alone)
    )
