"""Extraction of a subgraph from a model, as an ONNX model of its own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import onnx

from hetsim.errors import PlanError
from hetsim.graph.canonical.half_precision import Lowering
from hetsim.graph.model import Model
from hetsim.graph.reading.structure import (
    FunctionKey,
    calls,
    captures,
    key_of,
    replace,
    stated_types,
)

NO_NODE = -1
"""Marker in ``Subgraph.nodes`` for a cast of an input or constant."""


@dataclass(frozen=True, slots=True)
class Subgraph:
    """Nodes of a model with the inputs and constants that they need to run alone.

    `inputs` are read from outside, in order of the first read; `outputs` are read outside or are
    outputs of the model, in order of writing; `nodes` has the id of the graph's node for each node
    of `proto`, which is a copy with the constants that they read.
    """

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    nodes: tuple[int, ...]
    proto: onnx.ModelProto


def extract(model: Model, nodes: Sequence[int]) -> Subgraph:
    """Return `nodes` of `model` as a separate model.

    An input or constant that is itself an output of the model belongs to no node and thus no
    subgraph: the caller passes it on unchanged. The partition must ensure that the nodes can run at
    once (no path leaves them and returns).

    Raises PlanError without nodes, and for unknown or repeated ones. Complexity: O(nodes and their
    inputs and outputs); an index of the model is built once.
    """
    return _extracted(model, None, nodes)


def runnable(model: Model, nodes: Sequence[int]) -> Subgraph:
    """Return `nodes` of `model` as a model whose CPU kernels give the same bits as the whole.

    As ``extract``, but for models with 16-bit floats: crossing values may be wider than in the
    graph, and are renamed.
    """
    return _extracted(model, model.lowering, nodes)


def _extracted(model: Model, lowering: Lowering | None, nodes: Sequence[int]) -> Subgraph:
    chosen = tuple(sorted(nodes))
    count = len(model.graph.nodes)
    if not chosen or len(set(chosen)) != len(chosen) or chosen[0] < 0 or chosen[-1] >= count:
        raise PlanError(
            f"a subgraph needs distinct nodes from 0 .. {count - 1}, not {chosen[:12]}",
            where=f"model '{model.name}'",
            hint="give at least one node id, each once",
        )
    index = _index(model, lowering)
    places = index.places_of(chosen)
    inside = frozenset(places)
    written = dict.fromkeys(name for place in places for name in index.writes[place])
    read = dict.fromkeys(name for place in places for name in index.reads[place])
    inputs = tuple(name for name in read if name not in index.stored and name not in written)
    outputs = tuple(
        name
        for name in written
        if name in index.outputs
        or (
            index.owners[index.writer[name]] != NO_NODE
            and not inside.issuperset(index.readers.get(name, ()))
        )
    )
    if lowering is not None:
        # A node that only replaces a missing cast has no outputs, which a model must not have.
        outputs = outputs or tuple(written)[-1:]
    proto = onnx.ModelProto(ir_version=model.proto.ir_version)
    proto.opset_import.extend(index.opsets)
    graph = proto.graph
    graph.name = f"{model.name}:{chosen[0]}"
    graph.node.extend(index.nodes[place] for place in places)
    for name in read:
        stored = index.stored.get(name)
        if isinstance(stored, onnx.TensorProto):
            graph.initializer.append(stored)
        elif stored is not None:
            graph.sparse_initializer.append(stored)
    for values, names in ((graph.input, inputs), (graph.output, outputs)):
        for name in names:
            values.add(name=name).type.CopyFrom(index.types[name])
    if lowering is None:
        proto.functions.extend(index.functions_behind(graph.node))
    return Subgraph(inputs, outputs, tuple(index.owners[place] for place in places), proto)


def stored_alone(model: Model, names: Sequence[str]) -> onnx.ModelProto:
    """Return a model without nodes that only outputs constants of `model`."""
    whole, wanted = model.proto, set(names)
    proto = onnx.ModelProto(ir_version=whole.ir_version, opset_import=whole.opset_import)
    proto.graph.name = "constants"
    proto.graph.initializer.extend(t for t in whole.graph.initializer if t.name in wanted)
    proto.graph.sparse_initializer.extend(
        t for t in whole.graph.sparse_initializer if t.values.name in wanted
    )
    proto.graph.output.extend(value for value in whole.graph.output if value.name in wanted)
    return proto


def runnable_whole(model: Model) -> tuple[onnx.ModelProto, tuple[int, ...]]:
    """Return the executable form of the whole model, and the graph node of each of its nodes."""
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
    """Return the element types of values of the graph and of its executable form."""
    if model.lowering is None:
        return model.graph.dtypes
    return {**model.graph.dtypes, **model.lowering.dtypes}


class _Index:
    """Index of a model, or its lowering, so that extraction costs only the subgraph."""

    def __init__(self, model: Model, lowering: Lowering | None) -> None:
        proto, graph = model.proto, model.graph
        self.outputs = frozenset(graph.outputs)
        self.stored: dict[str, onnx.TensorProto | onnx.SparseTensorProto] = {
            tensor.name: tensor for tensor in proto.graph.initializer
        }
        self.stored.update((one.values.name, one) for one in proto.graph.sparse_initializer)
        self.types = stated_types(proto.graph.input)
        self._functions: dict[FunctionKey, onnx.FunctionProto] = {
            key_of(function): function for function in proto.functions
        }
        self._of: dict[int, list[int]] | None = None
        self.writer: Mapping[str, int]
        self.readers: Mapping[str, Sequence[int]]
        readers: dict[str, list[int]]
        if lowering is None:
            self.nodes: Sequence[onnx.NodeProto] = list(proto.graph.node)
            self.owners: Sequence[int] = range(len(self.nodes))
            self.opsets: Iterable[onnx.OperatorSetIdProto] = proto.opset_import
            self.reads = [node.reads for node in graph.nodes]
            self.writes = [node.writes for node in graph.nodes]
            self.writer, self.readers = graph.producers(), graph.consumers()
            self.types.update(stated_types(proto.graph.value_info, proto.graph.output))
        else:
            self.nodes, self.owners, self.opsets = lowering.nodes, lowering.owners, lowering.opsets
            self.reads = [
                tuple(dict.fromkeys(name for name in (*node.input, *captures(node)) if name))
                for node in self.nodes
            ]
            self.writes = [tuple(name for name in node.output if name) for node in self.nodes]
            self.types.update(lowering.types)
            self.stored.update((tensor.name, tensor) for tensor in lowering.constants)
            self._of, readers = {}, {}
            for place, owner in enumerate(self.owners):
                self._of.setdefault(owner, []).append(place)
                for name in self.reads[place]:
                    readers.setdefault(name, []).append(place)
            self.writer = {n: place for place, names in enumerate(self.writes) for n in names}
            self.readers = readers

    def places_of(self, nodes: Sequence[int]) -> Sequence[int]:
        """Return what is executed for `nodes`, with the casts of inputs and constants read."""
        if self._of is None:
            return nodes
        found = {place for v in nodes for place in self._of.get(v, ())}
        pending = list(found)
        while pending:
            for name in self.reads[pending.pop()]:
                before = self.writer.get(name)
                if before is not None and self.owners[before] == NO_NODE and before not in found:
                    found.add(before)
                    pending.append(before)
        return sorted(found)

    def functions_behind(self, nodes: Iterable[onnx.NodeProto]) -> list[onnx.FunctionProto]:
        """Return the model-local functions that `nodes` call, directly or indirectly."""
        if not self._functions:
            return []
        found: set[FunctionKey] = set()
        pending = calls(nodes)
        while pending:
            key = pending.pop()
            if key in self._functions and key not in found:
                found.add(key)
                pending.extend(calls(self._functions[key].node))
        return [function for key, function in self._functions.items() if key in found]


_indexes: WeakKeyDictionary[Model, dict[bool, _Index]] = WeakKeyDictionary()


def _index(model: Model, lowering: Lowering | None) -> _Index:
    kept = _indexes.setdefault(model, {})
    key = lowering is None
    if key not in kept:
        kept[key] = _Index(model, lowering)
    return kept[key]
