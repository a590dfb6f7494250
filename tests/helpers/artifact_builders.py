"""Small models as compiled files, and files changed with their digest taken anew."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from hetsim.device.artifact import Identity, export, import_compiled
from hetsim.device.kernels.onnx_runtime import CompiledSubgraph
from onnx_builders import make_model, op, value

NPU = Identity("npu", "npu:small", "graph")


def weighted_model() -> onnx.ModelProto:
    """Convolution, pooling and a product: weights above and below 1 KiB."""
    rng = np.random.default_rng(3)
    return make_model(
        [
            op("Conv", "x w b", "c", pads=[1, 1, 1, 1], group=1, strides=[1, 1]),
            op("Relu", "c", "r"),
            op("MaxPool", "r", "m", kernel_shape=[2, 2], strides=[2, 2]),
            op("Reshape", "m shape", "s"),
            op("MatMul", "s f", "p"),
            op("Softmax", "p", "y", axis=-1),
        ],
        [value("x", (1, 3, 8, 8))],
        [value("y", (1, 4))],
        {
            "w": rng.standard_normal((16, 3, 3, 3)).astype(np.float32),
            "b": np.zeros(16, np.float32),
            "f": rng.standard_normal((256, 4)).astype(np.float32),
            "shape": np.array([1, -1]),
        },
    )


def mixed_model() -> onnx.ModelProto:
    """Strings, bools, int8, float16, a branch with a constant in it, a symbolic dimension."""
    half = numpy_helper.from_array(np.full(4, 3, np.float16), "three")
    then = helper.make_graph([op("Add", "h h", "t")], "then", [], [value("t", (4,), "FLOAT16")])
    other = helper.make_graph(
        [op("Constant", "", "k", value=half), op("Mul", "h k", "e")],
        "else",
        [],
        [value("e", (4,), "FLOAT16")],
    )
    return make_model(
        [
            op("If", "flag", "o", then_branch=then, else_branch=other),
            op("Not", "flag", "n"),
            op("Cast", "q", "f", to=onnx.TensorProto.FLOAT),
            op("Gather", "table i", "g", axis=0),
            op("Identity", "s", "u"),
            op("OneHot", "i depth ends", "hot"),
            op("Split", "f", "left right", axis=0, num_outputs=2),
        ],
        [
            value("flag", (), "BOOL"),
            value("h", (4,), "FLOAT16"),
            value("q", (4,), "INT8"),
            value("i", ("count",), "INT64"),
            value("s", (2,), "STRING"),
        ],
        [
            value("o", (4,), "FLOAT16"),
            value("n", (), "BOOL"),
            value("f", (4,)),
            value("g", ("count",), "STRING"),
            value("u", (2,), "STRING"),
            value("hot", ("count", 3)),
            value("right", (2,)),
        ],
        {
            "table": np.array(["a", "bc", "ä"], object),
            "depth": np.array(3),
            "ends": np.array([0, 1], np.float32),
        },
    )


def loop_model() -> onnx.ModelProto:
    """A loop whose body reads a large weight from outside, and a function of the model's own."""
    rng = np.random.default_rng(4)
    body = helper.make_graph(
        [op("Identity", "going", "still"), op("MatMul", "s w", "p"), op("Tanh", "p", "t")],
        "body",
        [value("turn", (), "INT64"), value("going", (), "BOOL"), value("s", (2, 32))],
        [value("still", (), "BOOL"), value("t", (2, 32))],
    )
    twice = helper.make_function(
        "local", "Twice", ["a"], ["b"], [op("Add", "a a", "b")], [helper.make_opsetid("", 20)]
    )
    return make_model(
        [op("Loop", "turns yes x", "l", body=body), op("Twice", "l", "y", domain="local")],
        [value("x", (2, 32))],
        [value("y", (2, 32))],
        {
            "w": rng.standard_normal((32, 32)).astype(np.float32),
            "turns": np.array(3),
            "yes": np.array(True),
        },
        domains={"local": 1},
        functions=[twice],
    )


def inputs_of(name: str) -> dict[str, Any]:
    """Inputs for a model of ``MODELS``."""
    rng = np.random.default_rng(9)
    if name == "mixed":
        return {
            "flag": np.array(False),
            "h": rng.standard_normal(4).astype(np.float16),
            "q": np.array([-128, 0, 5, 127], np.int8),
            "i": np.array([2, 0, 1, 2]),
            "s": np.array(["p", "ü"], object),
        }
    shape = {"weighted": (1, 3, 8, 8), "loop": (2, 32)}[name]
    return {"x": rng.standard_normal(shape).astype(np.float32)}


MODELS = {"weighted": weighted_model, "mixed": mixed_model, "loop": loop_model}


def exported(
    proto: onnx.ModelProto, identity: Identity = NPU, weights_dir: Path | None = None
) -> bytes:
    """The file of a model."""
    stream = io.BytesIO()
    export(stream, proto, weights_dir=weights_dir, identity=identity, name="g0")
    return stream.getvalue()


def opened(data: bytes) -> CompiledSubgraph:
    """Open a file as the device ``npu`` does."""
    return import_compiled(io.BytesIO(data), identity=NPU)


def sealed(proto: onnx.ModelProto) -> bytes:
    """The file of a model that states all but its digest, with that."""
    content = proto.SerializeToString(deterministic=True)
    proto.metadata_props.add(key="hetsim.sha256", value=hashlib.sha256(content).hexdigest())
    return proto.SerializeToString(deterministic=True)


def stated(data: bytes) -> onnx.ModelProto:
    """The model in a file, without its digest."""
    proto = onnx.ModelProto.FromString(data)
    del proto.metadata_props[-1]
    return proto


def whole(proto: onnx.ModelProto, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Outputs of the model as it was, on the settings of compiled subgraphs."""
    names = [output.name for output in proto.graph.output]
    return CompiledSubgraph(proto.SerializeToString(), None, names).run(inputs)
