"""A subgraph out of a model, as an ONNX model of its own."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import onnx

from hetsim.errors import PlanError
from hetsim.graph.model import Model
from hetsim.graph.reading.functions import FunctionKey, calls, key_of


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
