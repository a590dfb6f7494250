"""The ONNX backend: its options, what it prepares, and what it says of what it cannot do."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx.backend.base import Backend, BackendRep

from hetsim import backend
from hetsim.backend import Split, make_backend, split
from hetsim.errors import ModelError, RequestError, UsageError
from hetsim.graph.loading import model_of
from hetsim.problem.validator import problems_of
from onnx_builders import make_model, op, value
from sweeps import examples

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def chain(nodes: int = 4) -> onnx.ModelProto:
    names = ["x", *(f"v{i}" for i in range(nodes - 1)), "y"]
    return make_model(
        [op("Neg", a, b) for a, b in pairwise(names)],
        [value("x")],
        [value("y")],
    )


def test_it_is_a_backend_and_leaves_the_model_as_it_is() -> None:
    proto = chain()
    before = proto.SerializeToString()
    prepared = backend.prepare(proto)
    assert issubclass(backend.HetsimBackend, Backend)
    assert isinstance(prepared, BackendRep)
    for given_inputs in ([X], X, {"x": X}, (X,)):
        (y,) = prepared.run(given_inputs)
        np.testing.assert_array_equal(y, X)
    assert backend.run_model(proto, [X])[0].tobytes() == X.tobytes()
    assert proto.SerializeToString() == before


def test_a_model_with_open_sizes_is_cut_and_run_at_any() -> None:
    proto = make_model(
        [op("Neg", "x", "v0"), op("Neg", "v0", "y")],
        [value("x", ("rows", 3))],
        [value("y", ("rows", 3))],
    )
    prepared = make_backend(devices=2, assignment=(0, 1)).prepare(proto)
    for rows in (1, 5):
        given_input = np.ones((rows, 3), dtype=np.float32)
        np.testing.assert_array_equal(prepared.run([given_input])[0], given_input)


def test_only_the_cpu_is_supported() -> None:
    assert backend.supports_device("CPU")
    assert backend.supports_device("CPU:1")
    assert not backend.supports_device("CUDA")
    with pytest.raises(UsageError, match="there is no device 'CUDA'; choose 'CPU'"):
        backend.prepare(chain(), "CUDA")


def test_a_model_is_compatible_where_onnx_runtime_reads_it() -> None:
    assert backend.is_compatible(chain())
    unknown = make_model([op("Neck", "x", "y")], [value("x")], [value("y")])
    assert not backend.is_compatible(unknown)
    with pytest.raises(ModelError, match="unknown op 'Neck'"):
        backend.prepare(unknown)
    with pytest.raises(UsageError, match="did you mean 'devices'"):
        backend.is_compatible(chain(), device_count=3, deices=2)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"devices": 0}, "devices cannot be 0"),
        ({"cuts": 0}, "cuts cannot be 0"),
        ({"cuts": True}, "cuts cannot be True"),
        ({"seed": -1}, "seed cannot be -1"),
        ({"executor": "thread"}, "did you mean 'threads'"),
        ({"assignment": "even"}, "there is no assignment 'even'"),
        ({"assignment": [0, 1, 2, 0], "cuts": 2}, "both given"),
        ({"assignment": [0, 1]}, "names 2 devices for 4 nodes"),
        ({"assignment": [0, 1, 2, 3]}, "has device 3"),
        ({"sed": 1}, "did you mean 'seed'"),
    ],
)
def test_wrong_options(options: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        backend.prepare(chain(), **options)


@pytest.mark.parametrize(
    ("inputs", "says"),
    [
        ([], "0 values for 1 inputs"),
        ([X, X], "2 values for 1 inputs"),
        ({"z": X}, "no input 'z'"),
        ([X.astype(np.float64)], "the model reads float32"),
        ([X[0]], "the model reads 2"),
    ],
)
def test_wrong_inputs(inputs: Any, says: str) -> None:
    with pytest.raises(RequestError, match=says):
        backend.prepare(chain()).run(inputs)


def test_single_nodes() -> None:
    found = backend.run_node(op("Add", "a b", "c"), [X, X])
    assert found._fields == ("c",)
    np.testing.assert_array_equal(found.c, 2 * X)
    top = backend.run_node(op("TopK", "x k", "values at"), [X, np.array([1])])
    np.testing.assert_array_equal(top["at"], [[2], [2]])
    low = backend.run_node(op("Clip", "x - high", "y"), [X, np.float32(2)])
    assert low.y.max() == 2
    old = backend.run_node(op("Clip", "x", "y", max=1.0), X, opset_version=6)
    assert old.y.max() == 1
    joined = backend.run_node(op("ConcatFromSequence", "s", "y", axis=0), [[X, X]])
    assert joined.y.shape == (4, 3)
    words = backend.run_node(op("StringConcat", "a b", "c"), [np.array(["u"]), np.array(["v"])])
    assert words.c.tolist() == ["uv"]
    gelu = backend.run_node(op("QuickGelu", "x", "y", domain="com.microsoft"), [X])
    assert gelu.y.shape == X.shape
    codes = op("LabelEncoder", "x", "y", domain="ai.onnx.ml", keys_int64s=[1], values_int64s=[7])
    assert backend.run_node(codes, [np.array([1])]).y.tolist() == [7]


@examples(quick=30, full=40)
@given(
    st.lists(st.lists(st.integers(0, 30), max_size=2), min_size=1, max_size=12),
    st.integers(1, 14),
    st.integers(0, 9),
)
def test_cuts_are_as_many_as_asked_and_close_no_cycle(
    reads: list[list[int]], cuts: int, seed: int
) -> None:
    names = ["x"]
    nodes = []
    for position, chosen in enumerate(reads):
        sources = [names[i % len(names)] for i in chosen] or ["x"]
        nodes.append(op("Sum", " ".join(sources), f"v{position}"))
        names.append(f"v{position}")
    proto = make_model(nodes, [value("x")], [value(name) for name in names[1:]])
    model = model_of(proto, canonical="none")
    plan = split(model, Split(cuts=cuts, seed=seed))
    assert len(plan.groups) == min(cuts, len(nodes))
    problem = plan.problem
    assert problems_of(problem.dag, plan.groups, problem.devices, problem.supported.tolist()) == []
    again = split(model, Split(cuts=cuts, seed=seed))
    assert again.groups == plan.groups
