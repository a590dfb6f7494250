"""Networks of the archive, by the rows that were measured of them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import onnx
from onnx import numpy_helper

from catalog.points import Graphs
from hetsim.graph.loading import model_of
from hetsim.graph.model import Model

Row = Mapping[str, Any]


def network_of(row: Row) -> str:
    """Return the file that stands for the row's network best."""
    first = row["graphs"][0]
    name: str = first["file"] if isinstance(first, Mapping) else first
    return name


def batched(proto: onnx.ModelProto, batch: int) -> onnx.ModelProto:
    """Return a network of one sample as it is for `batch` of them.

    Inputs and the shapes to which it reshapes begin with the batch. What is stored stays.
    """
    larger = onnx.ModelProto()
    larger.CopyFrom(proto)
    graph = larger.graph
    del graph.value_info[:]
    for value in (*graph.input, *graph.output):
        value.type.tensor_type.shape.dim[0].dim_value *= batch
    shapes = {node.input[1] for node in graph.node if node.op_type == "Reshape"}
    for stored in graph.initializer:
        if stored.name in shapes:
            sizes = numpy_helper.to_array(stored).copy()
            if sizes[0] == 1:
                sizes[0] = batch
                stored.CopyFrom(numpy_helper.from_array(sizes, stored.name))
    return larger


class Networks:
    """Networks of the archive, the last one loaded kept: rows come sorted by them."""

    def __init__(self, graphs: Graphs) -> None:
        self.graphs = graphs
        self._last: tuple[tuple[str, int], Model] | None = None

    def proto(self, file: str) -> onnx.ModelProto:
        """Return the network as its file has it."""
        return onnx.load_model_from_string(self.graphs.content(file))

    def load(self, file: str, batch: int = 1) -> Model:
        """Return the network for so many samples."""
        if self._last is None or self._last[0] != (file, batch):
            proto = self.proto(file)
            model = model_of(batched(proto, batch) if batch > 1 else proto, name=Path(file).stem)
            self._last = (file, batch), model
        return self._last[1]
