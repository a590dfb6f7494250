"""Random inputs that a model accepts, and the check of those that a caller gives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest

from hetsim.errors import RequestError, UsageError
from hetsim.graph.inputs.arrays import check_arrays
from hetsim.graph.inputs.samples import random_inputs
from hetsim.graph.loading import load_model
from hetsim.graph.model import Model
from hetsim.graph.zoo import models as zoo
from onnx_builders import make_model, op, run_whole, save, value
from sweeps import sweep


def model_of(
    folder: Path, nodes: list[onnx.NodeProto], inputs: list[onnx.ValueInfoProto], **more: Any
) -> Model:
    outputs = [onnx.ValueInfoProto(name=name) for node in nodes[-1:] for name in node.output]
    return load_model(save(make_model(nodes, inputs, outputs, **more), folder), canonical="none")


def test_the_same_seed_gives_the_same(tmp_path: Path) -> None:
    model = model_of(tmp_path, [op("Add", "a b", "y")], [value("a"), value("b")])
    one, two, other = (random_inputs(model, seed) for seed in (1, 1, 2))
    for name in ("a", "b"):
        assert one[name].dtype == np.float32
        np.testing.assert_array_equal(one[name], two[name])
        assert not np.array_equal(one[name], other[name])
    assert not np.array_equal(one["a"], one["b"])
    with pytest.raises(UsageError, match="the seed is -1"):
        random_inputs(model, -1)


def test_floats_are_standard_normal(tmp_path: Path) -> None:
    model = model_of(tmp_path, [op("Relu", "x", "y")], [value("x", (100, 100))])
    x = random_inputs(model)["x"]
    assert abs(float(x.mean())) < 0.05
    assert abs(float(x.std()) - 1) < 0.05


def test_indices_stay_in_the_table(tmp_path: Path) -> None:
    nodes = [
        op("Cast", "ids", "wide", to=onnx.TensorProto.INT64),
        op("Unsqueeze", "wide axis", "more"),
        op("Reshape", "more flat", "flat_ids"),
        op("Gather", "table flat_ids", "rows"),
        op("GatherElements", "small ids2", "cells", axis=1),
        op("ReduceSum", "cells", "one"),
        op("Add", "rows one", "y"),
    ]
    model = model_of(
        tmp_path,
        nodes,
        [value("ids", (500,), "INT32"), value("ids2", (50, 5), "INT64")],
        constants={
            "table": np.ones((30, 4), np.float32),
            "small": np.ones((50, 7), np.float32),
            "axis": np.array([0]),
            "flat": np.array([-1]),
        },
    )
    inputs = random_inputs(model)
    assert inputs["ids"].dtype == np.int32
    assert set(inputs["ids"].tolist()) == set(range(30))
    assert set(inputs["ids2"].ravel().tolist()) == set(range(7))
    assert np.isfinite(run_whole(model, inputs)["y"]).all()


def test_the_tightest_of_several_readers_counts(tmp_path: Path) -> None:
    model = model_of(
        tmp_path,
        [op("Gather", "big i", "a"), op("Gather", "small i", "b"), op("Add", "a b", "y")],
        [value("i", (200,), "INT64")],
        constants={"big": np.ones(50, np.float32), "small": np.ones(3, np.float32)},
    )
    assert set(random_inputs(model)["i"].tolist()) == {0, 1, 2}


def test_index_tuples_and_categories(tmp_path: Path) -> None:
    model = model_of(
        tmp_path,
        [
            op("GatherND", "data at", "a"),
            op("OneHot", "kind depth onoff", "h"),
            op("ReduceSum", "h", "b"),
            op("Add", "a b", "y"),
        ],
        [value("at", (100, 2), "INT64"), value("kind", (100,), "INT64")],
        constants={
            "data": np.ones((4, 9), np.float32),
            "depth": np.array(6),
            "onoff": np.array([0, 1], np.float32),
        },
    )
    inputs = random_inputs(model)
    assert inputs["at"].max() == 3
    assert set(inputs["kind"].tolist()) == set(range(6))
    run_whole(model, inputs)


def test_other_integers_bools_and_strings(tmp_path: Path) -> None:
    model = model_of(
        tmp_path,
        [
            op("Cast", "i", "a", to=1), op("Cast", "u", "b", to=1), op("Cast", "s", "c", to=1),
            op("Cast", "f", "d", to=1), op("Identity", "t", "t2"), op("Shape", "t2", "n"),
            op("Cast", "n", "e", to=1), op("Sum", "a b c d e", "y"),
        ],
        [
            value("i", (400,), "INT64"), value("u", (400,), "UINT8"), value("s", (400,), "INT8"),
            value("f", (400,), "BOOL"), value("t", (400,), "STRING"),
        ],
    )  # fmt: skip
    inputs = random_inputs(model)
    assert set(inputs["i"].tolist()) == {0, 1}
    assert inputs["u"].max() > 200
    assert inputs["s"].min() < -100
    assert set(inputs["f"].tolist()) == {False, True}
    assert all(isinstance(word, str) and len(word) == 5 for word in inputs["t"])
    check_arrays(model.graph, inputs, model.source)
    run_whole(model, inputs)


def test_small_and_complex_floats(tmp_path: Path) -> None:
    model = model_of(
        tmp_path,
        [op("Cast", "h", "a", to=1), op("Cast", "b", "c", to=1), op("Cast", "q", "e", to=1),
         op("Sum", "a c e", "y")],
        [value("h", (50,), "FLOAT16"), value("b", (50,), "BFLOAT16"),
         value("q", (50,), "FLOAT8E4M3FN")],
    )  # fmt: skip
    inputs = random_inputs(model)
    assert inputs["h"].dtype == np.float16
    assert inputs["b"].dtype == ml_dtypes.bfloat16
    assert inputs["q"].dtype == ml_dtypes.float8_e4m3fn
    check_arrays(model.graph, inputs, model.source)


@sweep("name", quick=["bert_small", "squeezenet"], full=zoo.names())
def test_zoo_models_take_them(name: str) -> None:
    model = load_model(f"zoo:{name}", canonical="none")
    inputs = random_inputs(model)
    assert tuple(inputs) == model.graph.inputs
    check_arrays(model.graph, inputs, model.source)
    for array in inputs.values():
        if array.dtype.kind == "i":
            assert array.max() > 1


F32 = np.float32


@pytest.mark.parametrize(
    ("inputs", "says"),
    [
        ({}, "no value for input 'images'; give all of: images, scale"),
        ({"image": np.ones((2, 3), F32)}, "no input 'image'; did you mean 'images'?"),
        ({"images": np.ones((2, 3), F32)}, "no value for input 'scale'"),
        ({"images": np.ones((2, 3)), "scale": np.ones((2, 1), F32)},
         "its dtype is float64, but the model reads float32"),
        ({"images": np.ones((2, 3, 1), F32), "scale": np.ones((2, 1), F32)},
         r"has 3 dimensions, but the model reads 2: \[n, 3\]"),
        ({"images": np.ones((2, 4), F32), "scale": np.ones((2, 1), F32)},
         r"its shape is \(2, 4\), but the model reads \[n, 3\]"),
        ({"images": np.ones((2, 3), F32), "scale": np.ones((4, 1), F32)},
         "dimension 'n' is 4 here but 2 in input 'images'"),
        ({"images": [[1.0]], "scale": np.ones((2, 1), F32)}, "a list is no NumPy array"),
        ({"images": np.ones((2, 3), F32), "scale": np.ones((2, 1), F32), "more": 1},
         "no input 'more'"),
    ],
)  # fmt: skip
def test_wrong_inputs(tmp_path: Path, inputs: dict[str, Any], says: str) -> None:
    model = model_of(
        tmp_path, [op("Mul", "images scale", "y")], [value("images", ("n", 3)),
        value("scale", ("n", None))]
    )  # fmt: skip
    with pytest.raises(RequestError, match=says) as caught:
        check_arrays(model.graph, inputs, model.source)
    assert "\n" not in str(caught.value)
    check_arrays(
        model.graph, {"images": np.ones((5, 3), F32), "scale": np.ones((5, 1), F32)}, model.source
    )


def test_inputs_that_cannot_be_drawn_name_the_file(tmp_path: Path) -> None:
    proto = make_model([op("Relu", "x", "y")], [value("x", (2**20, 2**20))], [value("y", None)])
    path = save(proto, tmp_path)
    model = load_model(path, canonical="none", measure=False)
    with pytest.raises(RequestError, match="more than half of the memory") as caught:
        random_inputs(model)
    assert caught.value.where == str(path)


@pytest.mark.parametrize(
    ("shape", "says"),
    [
        ([1] * 65, "it has 65 dimensions, and NumPy arrays have at most 64"),
        ([0, 2**62], "exceeds 64 bits"),
        ([2, 0, 2**61], "exceeds 64 bits"),
        ([2**62, 0], "exceeds 64 bits"),
    ],
)
@pytest.mark.parametrize("dtype", ["FLOAT", "INT64", "STRING", "BOOL", "DOUBLE"])
def test_shapes_that_numpy_has_no_array_of(
    tmp_path: Path, shape: list[int], says: str, dtype: str
) -> None:
    model = model_of(tmp_path, [op("Identity", "x", "y")], [value("x", shape, dtype)])
    with pytest.raises(RequestError, match=rf"input 'x': .*{says}"):
        random_inputs(model)
