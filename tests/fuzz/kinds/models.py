"""Small models of every structure that ONNX has, to be changed; and the files that go with them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper

from compiled_models import loop_model, mixed_model, weighted_model
from odd_graphs import ODD_GRAPHS
from odd_values import ODD_VALUES
from onnx_builders import make_model, op, value
from profile_builders import unit_model

LARGE = 5000
"""Bytes of the models of odd structure that are left out: those with large constants."""

DIMS = ("--dim", "*=2")


def chain() -> onnx.ModelProto:
    """Two convolutions, a pool and a product."""
    return make_model(
        [
            op("Conv", "x w b", "c", "first", pads=[1, 1, 1, 1]),
            op("BatchNormalization", "c s o m v", "n", "norm"),
            op("Relu", "n", "r", "act"),
            op("GlobalAveragePool", "r", "g", "pool"),
            op("Flatten", "g", "f", "flat"),
            op("Gemm", "f k", "y", "head", transB=1),
        ],
        [value("x", (1, 3, 6, 6))],
        [value("y", (1, 5))],
        {
            "w": np.ones((4, 3, 3, 3), np.float32),
            "k": np.ones((5, 4), np.float32),
            **{name: np.ones(4, np.float32) for name in "bsomv"},
        },
    )


def quantized() -> onnx.ModelProto:
    """Dequantized inputs, a convolution and a quantized output; integers by operators, too."""
    return make_model(
        [
            op("QuantizeLinear", "x s z", "q"),
            op("DequantizeLinear", "q s z", "d"),
            op("DequantizeLinear", "w ws wz", "dw", axis=0),
            op("Conv", "d dw", "c", pads=[1, 1, 1, 1]),
            op("Relu", "c", "r"),
            op("QuantizeLinear", "r s z", "rq"),
            op("QLinearConv", "rq s z k s zk s z", "e"),
            op("DequantizeLinear", "e s z", "y"),
            op("MatMulInteger", "a i", "j"),
        ],
        [value("x", (1, 2, 4, 4)), value("a", (2, 3), "UINT8")],
        [value("y", None), value("j", None, "INT32")],
        {
            "s": np.array(0.1, np.float32),
            "z": np.array(128, np.uint8),
            "w": np.ones((2, 2, 3, 3), np.int8),
            "ws": np.array([0.1, 0.2], np.float32),
            "wz": np.zeros(2, np.int8),
            "k": np.ones((2, 2, 1, 1), np.int8),
            "zk": np.array(0, np.int8),
            "i": np.ones((3, 2), np.int8),
        },
    )


def attention() -> onnx.ModelProto:
    """A head of attention over an open length, with its reshapes."""
    return make_model(
        [
            op("Shape", "x", "sx"),
            op("Gather", "sx one", "length", axis=0),
            op("Concat", "b length h", "to", axis=0),
            op("MatMul", "x w", "q"),
            op("Reshape", "q to", "q2"),
            op("Transpose", "x", "t", perm=[0, 2, 1]),
            op("MatMul", "q2 t", "a"),
            op("Softmax", "a", "p", axis=-1),
            op("MatMul", "p x", "o"),
            op("LayerNormalization", "o g", "y", axis=-1),
            op("Gelu", "y", "z"),
            op("Slice", "z zero one one", "last"),
        ],
        [value("x", ("batch", "length", 8))],
        [value("z", None), value("last", None)],
        {
            "w": np.ones((8, 8), np.float32),
            "g": np.ones(8, np.float32),
            "one": np.array([1]),
            "zero": np.array([0]),
            "b": np.array([-1]),
            "h": np.array([8]),
        },
    )


def shaped_by_data() -> onnx.ModelProto:
    """Shapes that follow from constants: ranges, tiles, expansions, what is counted."""
    return make_model(
        [
            op("Range", "zero n one", "r"),
            op(
                "ConstantOfShape",
                "shape",
                "f",
                value=numpy_helper.from_array(np.array([2.0], np.float32)),
            ),
            op("Expand", "x shape", "e"),
            op("Tile", "e times", "t"),
            op("Add", "t f", "a"),
            op("NonZero", "a", "nz"),
            op("Resize", "img - scales", "big", mode="nearest"),
            op("Pad", "img pads", "padded"),
            op("TopK", "a k", "top where"),
            op("OneHot", "r n ends", "hot"),
            op("CumSum", "a zero", "sums"),
        ],
        [value("x", (1, 3)), value("img", (1, 1, 3, 3))],
        [value(name, None) for name in ("sums", "big", "padded", "top")]
        + [value("nz", None, "INT64"), value("hot", None)],
        {
            "zero": np.array(0),
            "n": np.array(5),
            "one": np.array(1),
            "shape": np.array([4, 3]),
            "times": np.array([1, 1]),
            "scales": np.array([1, 1, 2, 2], np.float32),
            "pads": np.array([0, 0, 1, 1, 0, 0, 1, 1]),
            "k": np.array([2]),
            "ends": np.array([0, 1], np.float32),
        },
    )


def trees() -> onnx.ModelProto:
    """A regressor of trees and a scaler, of the domain of machine learning."""
    return make_model(
        [
            op("Scaler", "x", "s", domain="ai.onnx.ml", offset=[0.0] * 3, scale=[1.0] * 3),
            op(
                "TreeEnsembleRegressor",
                "s",
                "y",
                domain="ai.onnx.ml",
                n_targets=1,
                nodes_falsenodeids=[2, 0, 0],
                nodes_featureids=[0, 0, 0],
                nodes_hitrates=[1.0] * 3,
                nodes_missing_value_tracks_true=[0] * 3,
                nodes_modes=["BRANCH_LEQ", "LEAF", "LEAF"],
                nodes_nodeids=[0, 1, 2],
                nodes_treeids=[0, 0, 0],
                nodes_truenodeids=[1, 0, 0],
                nodes_values=[0.5, 0.0, 0.0],
                target_ids=[0, 0],
                target_nodeids=[1, 2],
                target_treeids=[0, 0],
                target_weights=[1.0, 2.0],
            ),
        ],
        [value("x")],
        [value("y", (2, 1))],
        domains={"ai.onnx.ml": 3},
    )


def noted() -> onnx.ModelProto:
    """A model whose nodes note devices, as annotated files do, with text beside everything."""
    proto = chain()
    for number, node in enumerate(proto.graph.node):
        entry = node.metadata_props.add()
        entry.key, entry.value = "hetsim.device", ("cpu", "gpu")[number % 2]
        node.doc_string = "noted"
    entry = proto.metadata_props.add()
    entry.key, entry.value = "author", "somebody"
    proto.graph.value_info.append(value("r", (1, 4, 6, 6)))
    return proto


def outside() -> onnx.ModelProto:
    """Weights in a file beside it, one small, one larger than what is read at once."""
    proto = make_model(
        [op("MatMul", "x w", "m"), op("Add", "m b", "y")],
        [value("x", (2, 64))],
        [value("y", (2, 64))],
        {"w": np.ones((64, 64), np.float32), "b": np.ones(64, np.float32)},
    )
    at = 0
    for tensor in proto.graph.initializer:
        length = len(tensor.raw_data)
        tensor.ClearField("raw_data")
        tensor.data_location = onnx.TensorProto.EXTERNAL
        for key, said in (("location", WEIGHTS), ("offset", at), ("length", length)):
            entry = tensor.external_data.add()
            entry.key, entry.value = key, str(said)
        at += length
    return proto


WEIGHTS = "weights.bin"
WEIGHTS_BYTES = 4 * (64 * 64 + 64)

OWN: tuple[Callable[[], onnx.ModelProto], ...] = (
    chain,
    quantized,
    attention,
    shaped_by_data,
    trees,
    noted,
    outside,
    weighted_model,
    mixed_model,
    loop_model,
    unit_model,
)


def originals() -> tuple[onnx.ModelProto, ...]:
    """All of them that are small."""
    found = [make() for make in OWN] + [make()[0] for make in (*ODD_GRAPHS, *ODD_VALUES)]
    return tuple(proto for proto in found if proto.ByteSize() < LARGE or proto in found[: len(OWN)])


def write_weights(folder: Path) -> None:
    """The file that ``outside`` refers to."""
    (folder / WEIGHTS).write_bytes(np.ones(WEIGHTS_BYTES // 4, np.float32).tobytes())
