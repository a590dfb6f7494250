"""Models of one request at a time that take several: what each gives is what it gives alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import hetsim
from hetsim.errors import ModelError, UsageError
from hetsim.execution.program import given_inputs
from hetsim.execution.run import whole_model
from hetsim.graph.zoo import models as zoo
from onnx_builders import make_model, op, run_whole, value
from sweeps import sweep

REQUESTS = 3
RNG = np.random.default_rng(0)


def floats(*shape: int) -> np.ndarray[Any, Any]:
    return RNG.standard_normal(shape).astype(np.float32)


def ints(*numbers: int) -> np.ndarray[Any, Any]:
    return np.array(numbers, dtype=np.int64)


def bytes_(*shape: int) -> np.ndarray[Any, Any]:
    return RNG.integers(0, 255, shape).astype(np.uint8)


Nodes = Sequence[onnx.NodeProto]
Constants = Mapping[str, Any]

IMAGE, ROWS, HEADS = (1, 4, 6, 6), (1, 5, 8), (1, 2, 5, 8)

APART: dict[str, tuple[tuple[int, ...], Nodes, Constants]] = {
    "each": (ROWS, [op("Relu", "x", "a"), op("Erf", "a", "y")], {}),
    "sum of two": (ROWS, [op("Sigmoid", "x", "a"), op("Mul", "x a", "y")], {}),
    "one for all": (ROWS, [op("Add", "x c", "y")], {"c": floats(1, 5, 8)}),
    "of fewer axes": (ROWS, [op("Add", "c x", "y")], {"c": floats(8)}),
    "limits": (
        ROWS,
        [op("Clip", "x low high", "y")],
        {"low": np.float32(0), "high": np.float32(1)},
    ),
    "where": (ROWS, [op("Greater", "x c", "m"), op("Where", "m x c", "y")], {"c": floats(1, 1, 8)}),
    "slopes": (IMAGE, [op("PRelu", "x c", "y")], {"c": floats(4, 1, 1)}),
    "half each": (ROWS, [op("Dropout", "x", "y m"), op("Cast", "m", "z", to=1)], {}),
    "convolution": (
        IMAGE,
        [
            op("Conv", "x w b", "a", kernel_shape=[3, 3]),
            op("MaxPool", "a", "y", kernel_shape=[2, 2]),
        ],
        {"w": floats(3, 4, 3, 3), "b": floats(3)},
    ),
    "transposed": (IMAGE, [op("ConvTranspose", "x w", "y")], {"w": floats(4, 3, 3, 3)}),
    "normalised": (
        IMAGE,
        [op("BatchNormalization", "x s b m v", "a"), op("LRN", "a", "y", size=3)],
        {"s": floats(4), "b": floats(4), "m": floats(4), "v": np.ones(4, dtype=np.float32)},
    ),
    "instances": (
        IMAGE,
        [op("InstanceNormalization", "x s b", "a"), op("GlobalAveragePool", "a", "y")],
        {"s": floats(4), "b": floats(4)},
    ),
    "depth": (IMAGE, [op("SpaceToDepth", "x", "a", blocksize=2), op("Flatten", "a", "y")], {}),
    "flat from the front": (ROWS, [op("Flatten", "x", "y", axis=0)], {}),
    "from the back": (ROWS, [op("Flatten", "x", "a", axis=-3), op("Softmax", "a", "y")], {}),
    "flat into rows": (ROWS, [op("Flatten", "x", "y", axis=2)], {}),
    "layer": (ROWS, [op("LayerNormalization", "x s b", "y")], {"s": floats(8), "b": floats(8)}),
    "layer of two axes": (
        ROWS,
        [op("LayerNormalization", "x s", "y", axis=1)],
        {"s": floats(5, 8)},
    ),
    "softmax": (ROWS, [op("Softmax", "x", "y", axis=1)], {}),
    "product with weights": (ROWS, [op("MatMul", "x w", "y")], {"w": floats(8, 3)}),
    "weights first": (ROWS, [op("MatMul", "w x", "y")], {"w": floats(1, 2, 5)}),
    "weights by head": (HEADS, [op("MatMul", "x w", "y")], {"w": floats(1, 2, 8, 3)}),
    "attention": (
        ROWS,
        [
            op("Reshape", "x s", "a"),
            op("Transpose", "a", "q", perm=[0, 2, 1, 3]),
            op("Transpose", "a", "k", perm=[0, 2, 3, 1]),
            op("MatMul", "q k", "l"),
            op("Softmax", "l", "p"),
            op("MatMul", "p q", "o"),
            op("Transpose", "o", "t", perm=[0, 2, 1, 3]),
            op("Reshape", "t back", "y"),
        ],
        {"s": ints(1, 5, 2, 4), "back": ints(1, 5, 8)},
    ),
    "rows merged with requests": (
        ROWS,
        [
            op("Reshape", "x s", "a"),
            op("Gemm", "a w b", "g"),
            op("Add", "g c", "h"),
            op("Reshape", "h back", "y"),
        ],
        {"s": ints(5, 8), "w": floats(8, 6), "b": floats(5, 6), "c": floats(5, 6),
         "back": ints(1, 5, 6)},
    ),
    "heads merged with requests": (
        HEADS,
        [
            op("Reshape", "x s", "a"),
            op("Transpose", "a", "t", perm=[0, 2, 1]),
            op("MatMul", "a t", "m"),
            op("MatMul", "m w", "y"),
        ],
        {"s": ints(2, 5, 8), "w": floats(2, 5, 3)},
    ),
    "inferred size": (ROWS, [op("Reshape", "x s", "y")], {"s": ints(-1, 4)}),
    "kept size": (ROWS, [op("Reshape", "x s", "y")], {"s": ints(0, -1)}),
    "squeezed": (ROWS, [op("Squeeze", "x s", "a"), op("Relu", "a", "y")], {"s": ints(0)}),
    "all squeezed": ((1, 1, 8), [op("Squeeze", "x", "y")], {}),
    "another squeezed": ((1, 1, 8), [op("Squeeze", "x s", "y")], {"s": ints(1)}),
    "unsqueezed": (ROWS, [op("Unsqueeze", "x s", "a"), op("Relu", "a", "y")], {"s": ints(0, 2)}),
    "channels last": (IMAGE, [op("Transpose", "x", "y", perm=[1, 2, 3, 0])], {}),
    "reversed": (ROWS, [op("Transpose", "x", "y")], {}),
    "class token": (ROWS, [op("Concat", "c x", "y", axis=1)], {"c": floats(1, 1, 8)}),
    "split": (ROWS, [op("Split", "x", "a b", axis=2, num_outputs=2), op("Add", "a b", "y")], {}),
    "slice": (
        ROWS,
        [op("Slice", "x b e a", "y")],
        {"b": ints(1), "e": ints(3), "a": ints(1)},
    ),
    "pad": (ROWS, [op("Pad", "x p", "y")], {"p": ints(0, 1, 0, 0, 0, 2)}),
    "mean": (ROWS, [op("ReduceMean", "x a", "y")], {"a": ints(-1)}),
    "mean without its axis": (
        ROWS,
        [op("Transpose", "x", "t", perm=[2, 0, 1]), op("ReduceMean", "t a", "y", keepdims=0)],
        {"a": ints(0)},
    ),
    "largest": (ROWS, [op("ArgMax", "x", "i", axis=2, keepdims=0), op("Cast", "i", "y", to=1)], {}),
    "first few": (ROWS, [op("TopK", "x k", "y i")], {"k": ints(2)}),
    "adding up": (ROWS, [op("CumSum", "x a", "y")], {"a": np.int64(1)}),
    "embedding": (
        ROWS,
        [op("Cast", "x", "i", to=7), op("Mod", "i n", "j"), op("Gather", "w j", "y")],
        {"n": ints(3), "w": floats(3, 4)},
    ),
    "picked": (ROWS, [op("Gather", "x i", "y", axis=1)], {"i": np.int64(0)}),
    "picked ahead": (
        ROWS,
        [op("Transpose", "x", "t", perm=[1, 0, 2]), op("Gather", "t i", "y", axis=0)],
        {"i": ints(0, 2)},
    ),
    "expanded": (
        (1, 1, 8),
        [op("Expand", "x s", "y")],
        {"s": ints(2, 1, 5, 8)},
    ),
    "repeated": (ROWS, [op("Tile", "x t", "y")], {"t": ints(1, 2, 1)}),
    "larger": (IMAGE, [op("Resize", "x - s", "y")], {"s": np.array([1, 1, 2, 2], np.float32)}),
    "of a size": (IMAGE, [op("Resize", "x - - s", "y")], {"s": ints(1, 4, 9, 9)}),
    "recurrent": (
        ROWS,
        [
            op("Transpose", "x", "t", perm=[1, 0, 2]),
            op("GRU", "t w r - - h", "g l", hidden_size=3),
            op("Relu", "l", "z"),
            op("Squeeze", "g s", "y"),
        ],
        {"w": floats(1, 9, 8), "r": floats(1, 9, 3), "h": floats(1, 1, 3), "s": ints(1)},
    ),
    "quantised": (
        IMAGE,
        [
            op("QuantizeLinear", "x s z", "q"),
            op("QLinearConv", "q s z w t u s z", "c"),
            op("DequantizeLinear", "c s z", "y"),
        ],
        {"s": np.float32(0.1), "z": np.uint8(128), "w": bytes_(3, 4, 1, 1),
         "t": np.float32(0.01), "u": np.uint8(100)},
    ),
    "scales by channel": (
        IMAGE,
        [op("QuantizeLinear", "x s z", "q"), op("DequantizeLinear", "q s z", "y")],
        {"s": np.full(4, 0.1, np.float32), "z": np.full(4, 128, np.uint8)},
    ),
    "integers": (
        ROWS,
        [op("Cast", "x", "i", to=2), op("MatMulInteger", "i w", "m"), op("Cast", "m", "y", to=1)],
        {"w": bytes_(8, 3)},
    ),
}  # fmt: skip

MIXED: dict[str, tuple[tuple[int, ...], Nodes, Constants, str]] = {
    "mean of all": (ROWS, [op("ReduceMean", "x", "y")], {}, "reduces over all requests"),
    "mean of requests": (ROWS, [op("ReduceSum", "x a", "y")], {"a": ints(0)}, "reduces over all"),
    "softmax": (ROWS, [op("Softmax", "x", "y", axis=0)], {}, "along the axis of the requests"),
    "layer": (
        ROWS,
        [op("LayerNormalization", "x s", "y", axis=0)],
        {"s": floats(1, 5, 8)},
        "normalises over all requests",
    ),
    "scale of all": (
        ROWS,
        [op("DynamicQuantizeLinear", "x", "q s z"), op("DequantizeLinear", "q s z", "y")],
        {},
        "no rule for it",
    ),
    "with itself": (
        (1, 8),
        [op("Transpose", "x", "t"), op("MatMul", "t x", "y")],
        {},
        "sums over all requests",
    ),
    "crossed": ((1, 8), [op("Transpose", "x", "t"), op("Add", "t x", "y")], {}, "different axes"),
    "broadcast": (ROWS, [op("Add", "x c", "y")], {"c": floats(4, 1, 1)}, "broadcasts an axis"),
    "part of": (ROWS, [op("Slice", "x b e", "y")], {"b": ints(0), "e": ints(1)}, "slices the axis"),
    "first one": (ROWS, [op("Gather", "x i", "y")], {"i": np.int64(0)}, "gathers along the axis"),
    "joined": (ROWS, [op("Concat", "x x", "y", axis=0)], {}, "concatenates along the axis"),
    "turned and reshaped": (
        ROWS,
        [op("Transpose", "x", "t", perm=[1, 0, 2]), op("Reshape", "t s", "y")],
        {"s": ints(40)},
        "does not hold the requests",
    ),
    "padded": (ROWS, [op("Pad", "x p", "y")], {"p": ints(1, 0, 0, 0, 0, 0)}, "pads the axis"),
    "repeated": (ROWS, [op("Tile", "x t", "y")], {"t": ints(2, 1, 1)}, "repeats along"),
    "one number": ((1,), [op("Squeeze", "x", "y")], {}, "no axis for the requests"),
    "shape": (ROWS, [op("Shape", "x", "s"), op("Cast", "s", "y", to=1)], {}, "no rule for it"),
    "indices": (
        IMAGE,
        [op("MaxPool", "x", "y i", kernel_shape=[2, 2]), op("Cast", "i", "z", to=1)],
        {},
        "counts over all requests",
    ),
    "training": (
        IMAGE,
        [op("BatchNormalization", "x s b m v", "y n w", training_mode=1)],
        {"s": floats(4), "b": floats(4), "m": floats(4), "v": np.ones(4, dtype=np.float32)},
        "means over all requests",
    ),
    "one way for all": (
        ROWS,
        [op("RandomNormal", "", "r", shape=[1, 1, 8]), op("Concat", "x r", "y", axis=1)],
        {},
        "is not a constant",
    ),
}


def model(shape: tuple[int, ...], nodes: Nodes, constants: Constants) -> onnx.ModelProto:
    """All values that nobody reads are its outputs, but those without a name."""
    read = {name for node in nodes for name in node.input}
    outputs = [name for node in nodes for name in node.output if name and name not in read]
    untyped = [onnx.ValueInfoProto(name=name) for name in outputs]
    made = make_model(nodes, [value("x", shape)], untyped, constants)
    typed = onnx.shape_inference.infer_shapes(made, data_prop=True)
    # What is inferred of one request must not hold of several.
    assert all(found.type.HasField("tensor_type") for found in typed.graph.output)
    return typed


def check(one: hetsim.Model, several: hetsim.Model, within: float = 1e-5) -> None:
    """What several requests give is what each gives, one after another along some axis."""
    given = [given_inputs(one, None, seed) for seed in range(REQUESTS)]
    alone = [run_whole(one, each) for each in given]
    together = run_whole(
        several, {name: np.concatenate([each[name] for each in given]) for name in given[0]}
    )
    assert [node.name for node in several.graph.nodes] == [node.name for node in one.graph.nodes]
    for name, found in together.items():
        assert found.shape == several.graph.tensors[name].static_shape
        each = [outputs[name] for outputs in alone]
        axes = [at for at in range(found.ndim) if found.shape[at] != each[0].shape[at]]
        assert len(axes) == 1
        wanted = np.concatenate(each, axis=axes[0])
        scale = max(float(np.abs(wanted).max()), 1e-6)
        np.testing.assert_allclose(found / scale, wanted / scale, atol=within, rtol=0)


@pytest.mark.parametrize("level", ["none", "basic"])
@pytest.mark.parametrize("name", APART)
def test_requests_stay_apart(name: str, level: str) -> None:
    proto = model(*APART[name])
    one = hetsim.model_of(proto, canonical=level)  # type: ignore[arg-type]
    several = hetsim.model_of(proto, canonical=level, dims={"x[0]": REQUESTS})  # type: ignore[arg-type]
    assert several.dims == {"x[0]": REQUESTS}
    assert several.graph.tensors["x"].static_shape == (REQUESTS, *one.graph.tensors["x"].shape[1:])  # type: ignore[index]
    check(one, several)


@pytest.mark.parametrize("name", MIXED)
def test_requests_that_meet_are_refused(name: str) -> None:
    *parts, why = MIXED[name]
    proto = model(*parts)  # type: ignore[arg-type]
    assert hetsim.model_of(proto, canonical="none").graph.nodes
    with pytest.raises(ModelError, match=f"the model takes one request at a time.*{why}") as caught:
        hetsim.model_of(proto, canonical="none", dims={"x[0]": REQUESTS})
    assert "export the model with an open batch dimension" in str(caught.value)


@sweep(
    "name, level",
    quick=[("squeezenet", "basic"), ("shufflenet", "basic"), ("bert_small", "extended")],
    full=[(name, level) for name in zoo.names() for level in ("none", "basic", "extended")],
)
def test_models_of_the_zoo(name: str, level: str) -> None:
    one = hetsim.load_model(f"zoo:{name}", canonical=level)  # type: ignore[arg-type]
    [given] = one.graph.inputs
    dims = {f"{given}[0]": REQUESTS}
    several = hetsim.load_model(f"zoo:{name}", canonical=level, dims=dims)  # type: ignore[arg-type]
    check(one, several)


def test_two_inputs_go_together() -> None:
    proto = make_model(
        [op("Mul", "x z", "a"), op("Add", "a w", "y")],
        [value("x", (1, 4)), value("z", (1, 4)), value("w", (1,))],
        [value("y", (1, 4))],
    )
    one = hetsim.model_of(proto)
    several = hetsim.model_of(proto, dims={"x[0]": 2, "z[0]": 2})
    assert several.graph.tensors["w"].static_shape == (1,)
    given = given_inputs(several, None, 0)
    halves = [
        {**given, "x": given["x"][at : at + 1], "z": given["z"][at : at + 1]} for at in (0, 1)
    ]
    wanted = np.concatenate([run_whole(one, half)["y"] for half in halves])
    np.testing.assert_allclose(run_whole(several, given)["y"], wanted, rtol=1e-6)
    with pytest.raises(UsageError, match=r"different sizes: 'x.0.' to 2, 'z.0.' to 3"):
        hetsim.model_of(proto, dims={"x[0]": 2, "z[0]": 3})
    with pytest.raises(UsageError, match=r"inputs are given, but 'x.0.' is bound"):
        hetsim.model_of(proto, dims={"x[0]": 2}, inputs=halves[0])
    # One of both stays the same for all.
    shared = hetsim.model_of(proto, dims={"x[0]": 2})
    assert shared.graph.tensors["y"].static_shape == (2, 4)


def test_what_is_fixed_at_more_than_one_stays() -> None:
    proto = model((2, 5, 8), *APART["each"][1:])
    with pytest.raises(UsageError, match=r"no input has a dimension named 'x\[0\]'"):
        hetsim.model_of(proto, dims={"x[0]": 4})


@pytest.mark.parametrize("name", ["product with weights", "layer", "attention", "convolution"])
def test_half_precision_runs_as_its_lowering(name: str) -> None:
    """ONNX Runtime's kernels lack 16-bit floats: what runs in their place is made for several."""
    shape, nodes, constants = APART[name]
    halves = {
        key: array.astype(np.float16) if array.dtype == np.float32 else array
        for key, array in constants.items()
    }
    proto = make_model(
        nodes, [value("x", shape, "FLOAT16")], [onnx.ValueInfoProto(name="y")], halves
    )
    proto = onnx.shape_inference.infer_shapes(proto, data_prop=True)
    one = hetsim.model_of(proto)
    several = hetsim.model_of(proto, dims={"x[0]": REQUESTS})
    assert (one.lowering is None) == (several.lowering is None)
    given = [given_inputs(one, None, seed) for seed in range(REQUESTS)]
    alone = [whole_model(one).run(each)["y"] for each in given]
    both = whole_model(several).run({"x": np.concatenate([each["x"] for each in given])})["y"]
    assert both.dtype == np.float16
    np.testing.assert_allclose(both, np.concatenate(alone), rtol=0.01, atol=0.01)


def test_a_plan_of_several_requests_is_kept_and_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "rows.onnx"
    onnx.save(model(*APART["rows merged with requests"]), path)
    loaded = hetsim.load_model(path, dims={"x[0]": REQUESTS})
    problem = hetsim.Problem.of(loaded, hetsim.load_platform("laptop"))
    hetsim.plan(problem, "single:gpu").save(tmp_path / "plan.json")
    again = hetsim.load_plan(tmp_path / "plan.json")
    assert again.problem.model is not None
    assert again.problem.model.dims == {"x[0]": REQUESTS}
    found = hetsim.run(again, executor="threads")
    assert found.bitwise_equal
    assert found.outputs["y"].shape == (REQUESTS, 5, 6)
