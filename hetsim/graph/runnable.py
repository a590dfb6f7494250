"""A model, or a subgraph of it, as ONNX Runtime's CPU kernels run it to the bits of the whole."""

from __future__ import annotations

from collections.abc import Sequence
from weakref import WeakKeyDictionary

import onnx

from hetsim.graph.canonical.half_lowering import Lowering
from hetsim.graph.extract import Subgraph, checked_nodes, extract
from hetsim.graph.model import Model
from hetsim.graph.reading.structure import captures, replace

NO_NODE = -1
"""In ``Subgraph.nodes``: what casts an input or a constant."""


def runnable(model: Model, nodes: Sequence[int]) -> Subgraph:
    """Return `nodes` of `model` as what runs for them, as a model of its own.

    As ``extract`` does it, which it is but for models with 16-bit floats. For those `nodes`
    names the node of the graph behind each node of the subgraph, and values that cross may be
    wider than in the graph, under names of their own.

    Raises PlanError as ``extract`` does. Complexity: O(nodes and what they read).
    """
    if model.lowering is None:
        return extract(model, nodes)
    index = _index(model, model.lowering)
    chosen = checked_nodes(model, nodes)
    places = index.places_of(chosen)
    proto = onnx.ModelProto(ir_version=model.proto.ir_version)
    proto.opset_import.extend(model.lowering.opsets)
    graph = proto.graph
    graph.name = f"{model.name}:{chosen[0]}"
    graph.node.extend(model.lowering.nodes[place] for place in places)
    written = dict.fromkeys(name for place in places for name in index.writes[place])
    read = dict.fromkeys(name for place in places for name in index.reads[place])
    inside = set(places)
    outputs = tuple(
        name
        for name in written
        if name in index.outputs or any(p not in inside for p in index.readers.get(name, ()))
        if index.owner_of(name) != NO_NODE or name in index.outputs
    )
    # What only stands for a cast that is none here gives nothing out, and no model may do so.
    outputs = outputs or tuple(written)[-1:]
    inputs: list[str] = []
    for name in read:
        stored = index.stored.get(name)
        if isinstance(stored, onnx.TensorProto):
            graph.initializer.append(stored)
        elif stored is not None:
            graph.sparse_initializer.append(stored)
        elif name not in written:
            inputs.append(name)
    for values, names in ((graph.input, inputs), (graph.output, outputs)):
        for name in names:
            values.add(name=name).type.CopyFrom(index.types[name])
    owners = tuple(model.lowering.owners[place] for place in places)
    return Subgraph(tuple(inputs), outputs, owners, proto)


def runnable_whole(model: Model) -> tuple[onnx.ModelProto, tuple[int, ...]]:
    """Return what runs for the whole model, and the node of the graph behind each of its nodes."""
    if model.lowering is None:
        return model.proto, tuple(range(len(model.graph.nodes)))
    proto = onnx.ModelProto()
    proto.CopyFrom(model.proto)
    replace(proto.graph.node, model.lowering.nodes)
    replace(proto.opset_import, model.lowering.opsets)
    proto.graph.initializer.extend(model.lowering.constants)
    del proto.graph.value_info[:]
    del proto.functions[:]
    return proto, model.lowering.owners


def runnable_dtypes(model: Model) -> dict[str, str]:
    """Element types of the values of the graph, and of what runs for it."""
    if model.lowering is None:
        return model.graph.dtypes
    return {**model.graph.dtypes, **model.lowering.dtypes}


class _Index:
    """Where everything of a lowering is."""

    def __init__(self, model: Model, lowering: Lowering) -> None:
        self.owners = lowering.owners
        self.outputs = frozenset(model.graph.outputs)
        self.reads = [
            tuple(dict.fromkeys(name for name in (*node.input, *captures(node)) if name))
            for node in lowering.nodes
        ]
        self.writes = [tuple(name for name in node.output if name) for node in lowering.nodes]
        self.writer = {name: place for place, names in enumerate(self.writes) for name in names}
        self.readers: dict[str, list[int]] = {}
        self.of: dict[int, list[int]] = {}
        for place, owner in enumerate(lowering.owners):
            self.of.setdefault(owner, []).append(place)
            for name in self.reads[place]:
                self.readers.setdefault(name, []).append(place)
        graph = model.proto.graph
        self.stored: dict[str, onnx.TensorProto | onnx.SparseTensorProto] = {
            tensor.name: tensor for tensor in graph.initializer
        }
        self.stored.update((sparse.values.name, sparse) for sparse in graph.sparse_initializer)
        self.stored.update((tensor.name, tensor) for tensor in lowering.constants)
        self.types = {
            **{value.name: value.type for value in graph.input},
            **lowering.types,
        }

    def owner_of(self, name: str) -> int:
        """The node of the graph whose part writes a value."""
        return self.owners[self.writer[name]]

    def places_of(self, nodes: Sequence[int]) -> list[int]:
        """What runs for `nodes`, with the casts of inputs and constants that it reads."""
        found = {place for v in nodes for place in self.of.get(v, ())}
        pending = list(found)
        while pending:
            for name in self.reads[pending.pop()]:
                before = self.writer.get(name)
                if before is not None and self.owners[before] == NO_NODE and before not in found:
                    found.add(before)
                    pending.append(before)
        return sorted(found)


_indexes: WeakKeyDictionary[Model, _Index] = WeakKeyDictionary()


def _index(model: Model, lowering: Lowering) -> _Index:
    index = _indexes.get(model)
    if index is None:
        index = _indexes[model] = _Index(model, lowering)
    return index
