"""A model computed node by node, every float32 value rounded by numpy before and after."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray
from onnx import external_data_helper, numpy_helper

from hetsim.graph.model import Model

Array = NDArray[Any]


def compute(
    model: Model, inputs: Mapping[str, Array], rounding: Callable[[Array], Array]
) -> dict[str, Array]:
    """Return the outputs; each node is a session of its own, constants are inputs of it."""
    proto = model.proto
    values: dict[str, Array] = dict(inputs)
    for tensor in proto.graph.initializer:
        held = onnx.TensorProto()
        held.CopyFrom(tensor)
        if external_data_helper.uses_external_data(held):
            external_data_helper.load_external_data_for_tensor(held, str(model.weights_dir))
        values[tensor.name] = numpy_helper.to_array(held)
    types = {
        value.name: value.type
        for field in (proto.graph.input, proto.graph.value_info, proto.graph.output)
        for value in field
    }

    def near(value: Array) -> Array:
        return rounding(value) if value.dtype == np.float32 else value

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    options.add_session_config_entry("session.disable_prepacking", "1")
    for node in proto.graph.node:
        reads = list(dict.fromkeys(name for name in node.input if name))
        graph = onnx.helper.make_graph(
            [node],
            "node",
            [
                onnx.helper.make_tensor_value_info(
                    name,
                    onnx.helper.np_dtype_to_tensor_dtype(values[name].dtype),
                    values[name].shape,
                )
                for name in reads
            ],
            [onnx.ValueInfoProto(name=name, type=types[name]) for name in node.output if name],
        )
        alone = onnx.helper.make_model(
            graph, opset_imports=proto.opset_import, ir_version=proto.ir_version
        )
        session = onnxruntime.InferenceSession(
            alone.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        found = session.run(None, {name: near(values[name]) for name in reads})
        names = [name for name in node.output if name]
        values.update((n, near(value)) for n, value in zip(names, found, strict=True))
    return {name: values[name] for name in model.graph.outputs}
