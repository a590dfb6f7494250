"""Models of what ONNX allows and few write: cut anywhere, the bits of a plain session."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetsim.backend import Split, SplitModel, load
from hetsim.execution.transports.ray_connection import RayConnection
from odd_graphs import ODD_GRAPHS, Case
from odd_values import ODD_VALUES, maps, optionals, sequence_map, strings
from onnx_builders import bits, make_model, op, open_exactly, value
from sweeps import examples, sweep

ODD = (*ODD_GRAPHS, *ODD_VALUES)
SEEDS = range(6)


def plain_bits(proto: onnx.ModelProto, inputs: dict[str, Any]) -> Any:
    return bits(open_exactly(proto, None).run(None, inputs))


def check(proto: onnx.ModelProto, inputs: dict[str, Any], ways: list[Split]) -> None:
    expected = plain_bits(proto, inputs)
    model = load(proto)
    for how in ways:
        assert bits(list(SplitModel(model, how).run(inputs))) == expected, how


@pytest.mark.parametrize("build", ODD)
def test_any_cut_gives_the_bits_of_the_plain_session(build: Callable[[], Case]) -> None:
    proto, inputs = build()
    nodes = len(load(proto).graph.nodes)
    cuts = [Split(cuts=1 + seed % max(1, nodes), seed=seed) for seed in SEEDS]
    check(proto, inputs, [Split(seed=1), *cuts])


@sweep("build", quick=[maps], full=[maps, optionals, sequence_map, strings])
def test_values_that_are_no_tensors_cross_processes(
    build: Callable[[], Case], ray_connection: RayConnection
) -> None:
    proto, inputs = build()
    check(proto, inputs, [Split(seed=2, executor="ray")])


def test_the_odd_models_hold_what_they_promise() -> None:
    """A model that lost its oddity, by an edit, would pass as well."""
    made = {build.__name__: build()[0] for build in ODD}
    graphs = {name: load(proto).graph for name, proto in made.items()}
    assert graphs["no_node"].nodes == graphs["constants_alone"].nodes == ()
    assert {"outer", "w"} <= set(graphs["scan"].nodes[-2].captures)
    assert len({node.name for node in graphs["names_in_scopes"].nodes}) == 5
    dtypes = {tensor.dtype for graph in graphs.values() for tensor in graph.tensors.values()}
    assert {"sequence", "optional", "map", "string", "int4", "float16"} <= dtypes
    assert sum(len(proto.graph.sparse_initializer) for proto in made.values()) == 1
    assert [len(made[name].functions) for name in ("functions", "overloads")] == [3, 2]
    everything = graphs["outputs_of_every_kind"]
    assert set(everything.inputs) < set(everything.outputs)
    read = {name for node in everything.nodes for name in node.reads}
    assert {"h", "y", "k"} <= read & set(everything.outputs)


KINDS = {
    "half": ("FLOAT16", "Tanh Relu Exp Softmax Sqrt"),
    "single": ("FLOAT", "Tanh Relu Exp Softmax Sqrt"),
    "double": ("DOUBLE", "Tanh Relu Exp Softmax Sqrt"),
    "integer": ("INT32", "Neg Abs"),
    "brain": ("BFLOAT16", ""),
}


@st.composite
def mixed_precision(draw: st.DrawFn) -> Case:
    """Chains that change between types, with products, some values unused and some put out."""
    values = [("x", "single"), ("h", "half")]
    nodes = []
    for i in range(draw(st.integers(2, 12))):
        name, kind = draw(st.sampled_from(values[-3:]))
        actions = ("cast", "turn", "join", "bend") if KINDS[kind][1] else ("cast", "turn")
        action = draw(st.sampled_from(actions))
        if action == "cast":
            kind = draw(st.sampled_from(list(KINDS)))
            to = getattr(onnx.TensorProto, KINDS[kind][0])
            nodes.append(op("Cast", name, f"v{i}", to=to))
        elif action == "turn":
            nodes.append(op("Transpose", name, f"v{i}", perm=[1, 0]))
        elif action == "join":
            other = draw(st.sampled_from([n for n, k in values if k == kind]))
            nodes.append(op(draw(st.sampled_from(("Add", "Mul", "MatMul"))),
                            f"{name} {other}", f"v{i}"))  # fmt: skip
        else:
            nodes.append(op(draw(st.sampled_from(KINDS[kind][1].split())), name, f"v{i}"))
        values.append((f"v{i}", kind))
    # ONNX Runtime's Python interface gives no bfloat16 out to the plain session.
    shown = [(name, kind) for name, kind in values[2:] if kind != "brain"]
    if not shown:
        nodes.append(op("Cast", values[-1][0], "last", to=onnx.TensorProto.FLOAT))
        shown = [("last", "single")]
    chosen = draw(st.lists(st.sampled_from(shown), unique=True, min_size=1))
    proto = make_model(
        nodes,
        [value("x", (4, 4)), value("h", (4, 4), "FLOAT16")],
        [value(name, None, KINDS[kind][0]) for name, kind in chosen],
    )
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    x, h = rng.standard_normal((2, 4, 4)) * 3
    return proto, {"x": x.astype(np.float32), "h": h.astype(np.float16)}


@examples(quick=7, full=60)
@given(mixed_precision(), st.integers(0, 99))
def test_values_are_rounded_where_the_plain_session_rounds_them(case: Case, seed: int) -> None:
    check(*case, [Split(seed=seed), Split(cuts=1), Split(cuts=3, seed=seed)])
