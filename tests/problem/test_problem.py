"""Problems from arrays: what they hold, and what they refuse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hetsim
from full_problems import full_problems
from hetsim.errors import InvalidInput, UsageError
from hetsim.problem.parts import Constant, FusedKernel, Value
from hetsim.problem.problem import Problem
from sweeps import examples


def test_from_edges_and_tensors() -> None:
    by_edges = Problem.from_arrays([[1, 2], [3, 4], [5, 6]], edges=[(0, 2, 8), (0, 1, 4)])
    assert [(v.producer, v.nbytes, v.consumers) for v in by_edges.values] == [
        (0, 4, (1,)),
        (0, 8, (2,)),
    ]
    assert by_edges.dag.succs == ((1, 2), (), ())
    assert by_edges.devices == ("d0", "d1")
    by_tensors = Problem.from_arrays(
        [[1, 2], [3, 4]], tensors=[(-1, 2, (1, 0)), (0, 4, (1,)), (1, 8, ())], host=1
    )
    assert by_tensors.values == (
        Value("t0", 2, -1, (0, 1)),
        Value("t1", 4, 0, (1,)),
        Value("t2", 8, 1, (), is_output=True),
    )


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"seconds": [1.0]}, "shape"),
        ({"seconds": [[-1.0, 1.0]]}, "negative"),
        ({"seconds": [[float("nan"), 1.0]]}, "NaN"),
        ({"devices": ("a",)}, "1 device names for 2"),
        ({"devices": ("a", "a")}, "not unique"),
        ({"edges": [(1, 0, 4)]}, "does not ascend"),
        ({"edges": [(0, 1, 4), (0, 1, 5)]}, "twice"),
        ({"edges": [(0, 1, -4)]}, "number of bytes"),
        ({"edges": [], "tensors": []}, "both edges and tensors"),
        ({"tensors": [(1, 4, (0,))]}, "do not follow"),
        ({"tensors": [(7, 4, (0,))]}, "producer 7"),
        ({"tensors": [(-1, 4, ())]}, "nobody reads"),
        ({"latency_s": -1.0}, "latency"),
        ({"latency_s": [1.0, 2.0]}, "shape"),
        ({"bytes_per_s": 0.0}, "bandwidth"),
        ({"host": 2}, "host is 2"),
        ({"weight_bytes": [1]}, "weight_bytes has 1 entries, not"),
        ({"capacity_bytes": [1]}, "capacity_bytes has 1 entries, not 2"),
        ({"streams": [1, 0]}, "streams"),
        ({"dispatch_s": -1.0}, "dispatch_s"),
        ({"contention": "some"}, "unknown contention"),
    ],
)
def test_bad_arrays_are_refused(change: dict[str, object], complaint: str) -> None:
    arguments: dict[str, object] = {"seconds": [[1.0, 1.0], [1.0, 1.0]], **change}
    with pytest.raises(InvalidInput, match=complaint):
        Problem.from_arrays(**arguments)  # type: ignore[arg-type]


def fused_problem() -> Problem:
    plain = Problem.from_arrays(
        [[1.0, 2.0], [3.0, 2.0], [1.0, 1.0]], edges=[(0, 1, 4), (1, 2, 4)], dispatch_s=[0.5, 0.25]
    )
    fields = {name: getattr(plain, name) for name in plain.__dataclass_fields__}
    return Problem(**{**fields, "fused": (FusedKernel(0, (0, 1), 2.0),)})


def test_fused_kernels_replace_their_members() -> None:
    problem = fused_problem()
    assert problem.kernels(0, (0, 1, 2)) == [((0, 1), 2.0), ((2,), 1.0)]
    assert problem.group_seconds(0, (0, 1, 2)) == 3.5
    assert problem.group_seconds(0, (1, 2)) == 0.5 + 3.0 + 1.0
    assert problem.group_seconds(1, (0, 1, 2)) == 5.25
    np.testing.assert_allclose(problem.shared_seconds[:, 0], [0.5, 1.5, 1.0])
    np.testing.assert_array_equal(problem.shared_seconds[:, 1], problem.seconds[:, 1])


def test_weights_and_device_names() -> None:
    problem = Problem.from_arrays([[1.0], [1.0]], weight_bytes=[0, 7], devices=("cpu",))
    assert problem.constants == (Constant("w1", 7, (1,)),)
    assert problem.device_index("cpu") == 0
    with pytest.raises(UsageError, match="did you mean 'cpu'"):
        problem.device_index("cpuu")


@examples(quick=60, full=300)
@given(full_problems(), st.data())
def test_a_subgraph_pays_for_what_crosses_its_border(problem: Problem, data: st.DataObject) -> None:
    """Each tensor once: outputs and inputs of the model only with a host, and where they count."""
    nodes = data.draw(st.sets(st.integers(0, problem.n - 1), min_size=1))
    for device in range(len(problem.devices)):
        fetched = stored = 0.0
        staging = problem.staging
        ends = problem.host is not None and staging is not None and staging.ends
        for value in problem.values:
            readers = set(value.consumers)
            if value.producer in nodes:
                if readers - nodes or (value.is_output and ends):
                    stored += value.nbytes
            elif readers & nodes and (value.producer >= 0 or ends):
                fetched += value.nbytes
        seconds = 0.0
        if staging is not None:
            seconds = fetched * staging.fetch_s_per_byte[device]
            seconds += stored * staging.store_s_per_byte[device]
        assert problem.staged_seconds(device, sorted(nodes)) == seconds
        compute = problem.dispatch_s[device]
        left = set(nodes)
        for kernel in problem.fused:
            if kernel.device == device and nodes.issuperset(kernel.nodes):
                alone = sum(float(problem.seconds[v, device]) for v in kernel.nodes)
                if kernel.seconds <= alone:
                    compute += kernel.seconds
                    left.difference_update(kernel.nodes)
        compute += sum(float(problem.seconds[v, device]) for v in left)
        assert problem.group_seconds(device, sorted(nodes)) == compute + seconds


def of(**given: Any) -> Problem:
    model, platform = hetsim.load_model("zoo:squeezenet"), hetsim.load_platform("laptop")
    return Problem.of(**{"model": model, "platform": platform, **given})


@pytest.mark.parametrize(
    ("call", "names"),
    [
        (Problem.from_arrays([[1.0]]).device_index, "name"),
        (of, "model platform cost contention profiles execute pessimistic"),
        (lambda **given: Problem.from_arrays(**{"seconds": [[1.0]], **given}),
         "seconds edges tensors devices latency_s bytes_per_s weight_bytes capacity_bytes host "
         "contention dispatch_s streams composites staging sd name"),
    ],
)  # fmt: skip
def test_an_argument_of_another_type_is_named(call: Callable[..., object], names: str) -> None:
    for name in names.split():
        with pytest.raises(InvalidInput, match=name):
            call(**{name: object()})
