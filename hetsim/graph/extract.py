"""A subgraph out of a model, as an ONNX model of its own."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import onnx

from hetsim.errors import PlanError
from hetsim.graph.canonical.half_precision import Lowering
from hetsim.graph.model import Model
from hetsim.graph.reading.structure import FunctionKey, calls, captures, key_of, replace


@dataclass(frozen=True, slots=True)
class Subgraph:
    """Nodes of a model with what they need to run alone.

    Attributes
    ----------
    inputs : tuple of str
        Values read from outside, in the order of their first read. Constants are inside.
    outputs : tuple of str
        Values written that a node outside reads or that the model puts out, in the order
        in which they are written.
    nodes : tuple of int
        Ids, ascending.
    proto : onnx.ModelProto
        Its own copy. Constants, inline or as references into the model's weights folder,
        are those that the nodes read; every input and output is typed.
    """

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    nodes: tuple[int, ...]
    proto: onnx.ModelProto


def extract(model: Model, nodes: Sequence[int]) -> Subgraph:
    """Return `nodes` of `model` as a model of its own.

    An input or a constant that is itself an output of the model belongs to no node, and
    so to no subgraph: whoever runs the parts hands it over unchanged. That the nodes can
    run in one go (no path leaves them and comes back) is for the partition to hold.

    Raises
    ------
    PlanError
        Where there is no node, or one that the model does not have, or one twice.

    Complexity: O(nodes and what they read); an index of the model is built once.
    """
    index = _index(model)
    chosen = checked_nodes(model, nodes)
    read, outputs = model.graph.exchanged(chosen, index.consumers, index.outputs)
    inputs = tuple(name for name in read if name not in index.stored)
    proto = onnx.ModelProto(ir_version=model.proto.ir_version)
    proto.opset_import.extend(model.proto.opset_import)
    graph = proto.graph
    graph.name = f"{model.name}:{chosen[0]}"
    graph.node.extend(index.nodes[v] for v in chosen)
    for name in read:
        stored = index.stored.get(name)
        if isinstance(stored, onnx.TensorProto):
            graph.initializer.append(stored)
        elif stored is not None:
            graph.sparse_initializer.append(stored)
    for values, names in ((graph.input, inputs), (graph.output, outputs)):
        for name in names:
            values.add(name=name).type.CopyFrom(index.types[name])
    proto.functions.extend(index.functions_behind(graph.node))
    return Subgraph(inputs, outputs, chosen, proto)


def stored_alone(model: Model, names: Sequence[str]) -> onnx.ModelProto:
    """Return a model without nodes whose outputs are constants of `model` that it puts out."""
    whole, wanted = model.proto, set(names)
    proto = onnx.ModelProto(ir_version=whole.ir_version, opset_import=whole.opset_import)
    proto.graph.name = "constants"
    proto.graph.initializer.extend(t for t in whole.graph.initializer if t.name in wanted)
    proto.graph.sparse_initializer.extend(
        t for t in whole.graph.sparse_initializer if t.values.name in wanted
    )
    proto.graph.output.extend(value for value in whole.graph.output if value.name in wanted)
    return proto


def checked_nodes(model: Model, nodes: Sequence[int]) -> tuple[int, ...]:
    """Return `nodes`, ascending. Raises PlanError where they are none, or not of the model."""
    chosen = tuple(sorted(nodes))
    count = len(model.graph.nodes)
    if not chosen or len(set(chosen)) != len(chosen) or chosen[0] < 0 or chosen[-1] >= count:
        raise PlanError(
            f"a subgraph needs distinct nodes out of 0 .. {count - 1}, not {chosen[:12]}",
            where=f"model '{model.name}'",
            hint="give at least one node id, each once",
        )
    return chosen


class _Index:
    """Where everything of a model is, so that a subgraph costs what it holds."""

    def __init__(self, model: Model) -> None:
        proto = model.proto
        self.nodes = list(proto.graph.node)
        self.consumers = model.graph.consumers()
        self.outputs = frozenset(model.graph.outputs)
        self.stored: dict[str, onnx.TensorProto | onnx.SparseTensorProto] = {
            tensor.name: tensor for tensor in proto.graph.initializer
        }
        for sparse in proto.graph.sparse_initializer:
            self.stored[sparse.values.name] = sparse
        self.types = {
            value.name: value.type
            for values in (proto.graph.input, proto.graph.value_info, proto.graph.output)
            for value in values
        }
        self._functions: dict[FunctionKey, onnx.FunctionProto] = {
            key_of(function): function for function in proto.functions
        }

    def functions_behind(self, nodes: Iterable[onnx.NodeProto]) -> list[onnx.FunctionProto]:
        """The model-local functions that `nodes` call, and those that they call in turn."""
        if not self._functions:
            return []
        found: dict[FunctionKey, onnx.FunctionProto] = {}
        pending = calls(nodes)
        while pending:
            key = pending.pop()
            function = self._functions.get(key)
            if function is not None and key not in found:
                found[key] = function
                pending.extend(calls(function.node))
        return [function for key, function in self._functions.items() if key in found]


_indexes: WeakKeyDictionary[Model, _Index] = WeakKeyDictionary()


def _index(model: Model) -> _Index:
    index = _indexes.get(model)
    if index is None:
        index = _indexes[model] = _Index(model)
    return index


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
    index = _lowered_index(model, model.lowering)
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


class _LoweredIndex:
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


_lowered_indexes: WeakKeyDictionary[Model, _LoweredIndex] = WeakKeyDictionary()


def _lowered_index(model: Model, lowering: Lowering) -> _LoweredIndex:
    index = _lowered_indexes.get(model)
    if index is None:
        index = _lowered_indexes[model] = _LoweredIndex(model, lowering)
    return index
