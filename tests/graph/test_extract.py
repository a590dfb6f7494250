"""Subgraphs: whatever the cut, the parts give the bits of the whole."""

from __future__ import annotations

import itertools
import random
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetsim.errors import PlanError
from hetsim.graph.extract import extract
from hetsim.graph.inputs.samples import random_inputs
from hetsim.graph.loading import load_model
from hetsim.graph.model import Model
from odd_graphs import functions
from onnx_builders import (
    assert_bitwise_equal,
    make_model,
    op,
    open_exactly,
    run_parts,
    run_whole,
    save,
    value,
)
from sweeps import examples

FLOAT = np.float32


def contiguous(count: int, seed: int) -> list[list[int]]:
    """Nodes 0 .. count-1 cut into runs at random places."""
    generator = random.Random(seed)
    cuts = sorted(generator.sample(range(1, count), min(count - 1, generator.randint(0, 6))))
    bounds = [0, *cuts, count]
    return [list(range(a, b)) for a, b in itertools.pairwise(bounds)]


def check_cuts(model: Model, seeds: Sequence[int] = (0, 1, 2)) -> None:
    """Every node alone, and contiguous runs, against the whole."""
    inputs = random_inputs(model, seed=3)
    whole = run_whole(model, inputs)
    count = len(model.graph.nodes)
    belongs = {name for node in model.graph.nodes for name in node.writes} | set(inputs)
    expected = {name: array for name, array in whole.items() if name in belongs}
    partitions = [[[v] for v in range(count)], *(contiguous(count, seed) for seed in seeds)]
    for parts in partitions:
        assert_bitwise_equal(run_parts(model, inputs, parts), expected)


def load(proto: onnx.ModelProto, folder: Path, level: Any = "none") -> Model:
    return load_model(save(proto, folder), canonical=level)


def diamond() -> onnx.ModelProto:
    return make_model(
        [
            op("MatMul", "x w", "a", "n0"),
            op("Relu", "a", "b", "n1"),
            op("Add", "a w2", "c", "n2"),
            op("Mul", "b c", "d", "n3"),
            op("Add", "d w2", "y", "n4"),
        ],
        [value("x")],
        [value("y", None), value("b", None)],
        {"w": np.linspace(0, 1, 9, dtype=FLOAT).reshape(3, 3), "w2": np.ones(3, FLOAT)},
    )


def test_inputs_outputs_and_constants(tmp_path: Path) -> None:
    model = load(diamond(), tmp_path)
    part = extract(model, [3, 1, 2])
    assert part.nodes == (1, 2, 3)
    assert part.inputs == ("a",)
    assert part.outputs == ("b", "d")
    assert [t.name for t in part.proto.graph.initializer] == ["w2"]
    assert [node.name for node in part.proto.graph.node] == ["n1", "n2", "n3"]
    assert [d.dim_value for d in part.proto.graph.input[0].type.tensor_type.shape.dim] == [2, 3]
    onnx.checker.check_model(part.proto, full_check=True)
    last = extract(model, [4])
    assert (last.inputs, last.outputs) == (("d",), ("y",))
    everything = extract(model, range(5))
    assert (everything.inputs, everything.outputs) == (("x",), ("b", "y"))


def test_the_copy_is_its_own(tmp_path: Path) -> None:
    model = load(diamond(), tmp_path)
    before = model.proto.SerializeToString()
    part = extract(model, [0, 1])
    part.proto.graph.node[0].op_type = "Other"
    part.proto.graph.initializer[0].raw_data = b""
    assert model.proto.SerializeToString() == before
    assert extract(model, [0]).proto.graph.node[0].op_type == "MatMul"


@pytest.mark.parametrize("nodes", [[], [0, 0], [-1], [5], [0, 99]])
def test_wrong_nodes(tmp_path: Path, nodes: list[int]) -> None:
    with pytest.raises(PlanError, match=r"distinct nodes from 0 \.\. 4"):
        extract(load(diamond(), tmp_path), nodes)


def test_captured_values_are_inputs_and_only_the_functions_called_are_copied(
    tmp_path: Path,
) -> None:
    model = load(functions()[0], tmp_path)
    parts = [extract(model, [v]) for v in range(5)]
    assert [node.op_type for node in model.graph.nodes] == ["Tanh", "Pick", "If", "Cap", "Sum"]
    assert set(parts[2].inputs) == {"c", "h", "x"}
    copied = [[function.name for function in part.proto.functions] for part in parts]
    assert copied == [[], ["Bend", "Pick"], ["Bend", "Pick"], ["Cap"], []]


def test_external_weights_are_referred_to(tmp_path: Path) -> None:
    proto = make_model(
        [op("Add", "x w", "a", "n0"), op("Mul", "a w", "b", "n1"), op("Exp", "b", "y", "n2")],
        [value("x", (5000,))],
        [value("y", None)],
        {"w": np.linspace(0, 1, 5000, dtype=FLOAT)},
    )
    onnx.save(
        proto, tmp_path / "m.onnx", save_as_external_data=True, location="w.bin", size_threshold=0
    )
    for level in ("none", "basic"):
        model = load_model(tmp_path / "m.onnx", canonical=level)
        stored = extract(model, [0]).proto.graph.initializer[0]
        assert stored.data_location == onnx.TensorProto.EXTERNAL
        assert not stored.raw_data
        check_cuts(model)


def test_symbolic_shapes_can_be_cut(tmp_path: Path) -> None:
    proto = make_model(
        [op("Relu", "x", "a", "n0"), op("NonZero", "a", "i", "n1"), op("Cast", "i", "y", to=1)],
        [value("x", ("n", 3))],
        [value("y", None)],
    )
    model = load(proto, tmp_path)
    part = extract(model, [1])
    shape = part.proto.graph.input[0].type.tensor_type.shape.dim
    assert (shape[0].dim_param, shape[1].dim_value) == ("n", 3)
    x = {"x": np.array([[1, -1, 2], [0, 3, 0]], FLOAT)}
    assert_bitwise_equal(run_parts(model, x, [[0], [1], [2]]), run_whole(model, x))


@st.composite
def cut_models(draw: st.DrawFn) -> tuple[onnx.ModelProto, list[set[str]]]:
    """A random elementwise DAG, and its nodes dealt to stages that ascend along edges."""
    values, stage_of = ["x"], {"x": 0}
    nodes, stages = [], []
    for i in range(draw(st.integers(1, 14))):
        kind = draw(st.sampled_from(["Relu", "Tanh", "Add", "Mul", "Sub"]))
        count = 1 if kind in ("Relu", "Tanh") else 2
        reads = [draw(st.sampled_from([*values, "k"])) for _ in range(count)]
        nodes.append(op(kind, " ".join(reads), f"v{i}", f"n{i}"))
        stage = max([stage_of.get(name, 0) for name in reads]) + draw(st.integers(0, 2))
        values.append(f"v{i}")
        stage_of[f"v{i}"] = stage
        stages.append(stage)
    outputs = draw(st.lists(st.sampled_from(values[1:]), unique=True, min_size=1))
    proto = make_model(
        nodes, [value("x")], [value(name) for name in outputs], {"k": np.full(3, 0.5, FLOAT)}
    )
    parts = [{f"n{v}" for v, s in enumerate(stages) if s == stage} for stage in sorted(set(stages))]
    return proto, parts


@examples(quick=15, full=60)
@given(cut_models())
def test_any_partition_in_order_gives_the_bits_of_the_whole(
    case: tuple[onnx.ModelProto, list[set[str]]],
) -> None:
    proto, stages = case
    with tempfile.TemporaryDirectory() as folder:
        model = load(proto, Path(folder))
    alive = [[n.id for n in model.graph.nodes if n.name in names] for names in stages]
    parts = [nodes for nodes in alive if nodes]
    inputs = random_inputs(model)
    assert_bitwise_equal(run_parts(model, inputs, parts), run_whole(model, inputs))
    written = [name for nodes in parts for name in extract(model, nodes).outputs]
    assert len(set(written)) == len(written)
    for nodes in parts:
        part = extract(model, nodes)
        assert set(part.inputs) <= {"x", *written}
        assert len(set(part.inputs)) == len(part.inputs)
        session = open_exactly(part.proto, None)
        assert [v.name for v in session.get_inputs()] == list(part.inputs)
        assert [v.name for v in session.get_outputs()] == list(part.outputs)
