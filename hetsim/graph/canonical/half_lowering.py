"""What ONNX Runtime's CPU kernels run in the place of a graph with 16-bit floats."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import onnx

from hetsim.graph.canonical.half_precision import INSERTED, drop_inserted_casts, hold_casts
from hetsim.graph.canonical.operations import operations_of
from hetsim.graph.canonical.provenance import Operation, trace
from hetsim.graph.reading.extension import NONE, Custom
from hetsim.graph.reading.onnx_runtime import optimise
from hetsim.graph.reading.onnx_types import to_tensor
from hetsim.graph.reading.pruning import prune
from hetsim.graph.reading.shadowing import unshadow
from hetsim.graph.reading.structure import (
    captures,
    constant_names,
    drop_inner_types,
    name_nodes,
    sort_nodes,
)
from hetsim.graph.shapes.inference import annotate

_SHARED = -1
"""Owner of what casts inputs and constants: whoever reads it does that for itself."""


@dataclass(frozen=True, slots=True)
class Lowering:
    """The nodes that run, each for one node of the graph.

    Which roundings the runtime leaves out depends on the neighbours of a node, even on those
    that no output needs. It is settled here for the whole graph, so that any part of it gives
    the bits of the whole. Values between nodes may be wider here than in the graph.

    Attributes
    ----------
    nodes : tuple of onnx.NodeProto
        In topological order; they read the constants of the graph.
    owners : tuple of int
        The node of the graph that each stands for; -1 for casts of inputs and constants.
    types : mapping of str to onnx.TypeProto
        Of what the nodes write.
    opsets : tuple of onnx.OperatorSetIdProto
        That the nodes are of.
    constants : tuple of onnx.TensorProto
        Those that the graph does not have, out of the bodies of functions.
    """

    nodes: tuple[onnx.NodeProto, ...] = field(repr=False)
    owners: tuple[int, ...] = field(repr=False)
    types: Mapping[str, onnx.TypeProto] = field(repr=False)
    opsets: tuple[onnx.OperatorSetIdProto, ...] = field(repr=False)
    constants: tuple[onnx.TensorProto, ...] = field(repr=False)

    @property
    def dtypes(self) -> dict[str, str]:
        """Element type of every value that the nodes write."""
        return {name: to_tensor(name, kind).dtype for name, kind in self.types.items()}


def lowered(
    proto: onnx.ModelProto, weights_dir: Path | None, where: str, custom: Custom
) -> onnx.ModelProto:
    """Return what ONNX Runtime makes of a model before it runs it, unoptimised.

    Opened again, whole or in parts, it stays as it is. Raises ModelError where the runtime
    refuses the model.
    """
    made = optimise(proto, weights_dir, "none", where, custom.libraries)
    for node in made.graph.node:
        node.ClearField("doc_string")
    hold_casts(made.graph)
    name_nodes(made.graph.node)
    drop_inner_types(made.graph)
    unshadow(made.graph)
    sort_nodes(made.graph, where)
    return made


def lowering_of(
    graph: onnx.GraphProto,
    made: onnx.ModelProto,
    before: Sequence[Operation],
    operations: Sequence[Operation],
    weights_dir: Path | None,
    where: str,
    custom: Custom = NONE,
) -> Lowering | None:
    """Tell which node of `graph` each node of `made` stands for; None where they are the same.

    Parameters
    ----------
    graph : onnx.GraphProto
        Without what no output needs; its nodes may have been renamed and put in another order.
    made : onnx.ModelProto
        As ``lowered`` returns it; changed.
    before, operations : sequence of Operation
        The nodes that were lowered, and those of `made`.

    Complexity: O(V + E), and type inference.
    """
    if [(op.op_type, op.inputs, op.outputs) for op in before] == [
        (op.op_type, op.inputs, op.outputs) for op in operations
    ]:
        return None
    known = {op.name: op for op in before}
    same = {op.name for op in operations if op.name in known
            and known[op.name].op_type == op.op_type}  # fmt: skip
    owner = _owners(graph, made.graph, before, operations, same)
    prune(made)
    _fill_holes(graph, made.graph, owner, same)
    sort_nodes(made.graph, where)
    annotate(made, weights_dir, {}, where, accepted=True, custom=custom)
    written = {name for node in made.graph.node for name in node.output}
    stored = constant_names(graph)
    return Lowering(
        tuple(made.graph.node),
        tuple(owner[node.name] for node in made.graph.node),
        {
            value.name: value.type
            for values in (made.graph.value_info, made.graph.output)
            for value in values
            if value.name in written
        },
        tuple(made.opset_import),
        tuple(tensor for tensor in made.graph.initializer if tensor.name not in stored),
    )


def _owners(
    graph: onnx.GraphProto,
    made: onnx.GraphProto,
    before: Sequence[Operation],
    operations: Sequence[Operation],
    same: set[str],
) -> dict[str, int]:
    """The node of `graph` behind each of `made`, by name; -1 for casts of what is given."""
    place = {name: v for v, node in enumerate(graph.node) for name in node.output if name}
    home: dict[str, int] = {}
    for op in before:
        for name in op.writes:
            if name in place:
                home[op.name] = place[name]
    origins: dict[str, tuple[str, ...]] = {}
    writer: dict[str, int] = {}
    found: dict[str, int] = {}
    for op in operations:
        if op.name in same:
            owner = home.get(op.name, _SHARED)
        elif op.op_type in ("Cast", "Identity"):
            owner = writer.get(op.inputs[0], _SHARED)
            # The body of a function, CastLike say, may be one cast: it writes what its call wrote.
            for name in op.writes:
                if name in place and graph.node[place[name]].op_type not in ("Cast", "Identity"):
                    owner = place[name]
        else:
            if not origins:
                origins = _origins(made, before)
            owner = max((home.get(name, _SHARED) for name in origins[op.name]), default=_SHARED)
        found[op.name] = owner
        writer.update(dict.fromkeys(op.writes, owner))
    return found


def _origins(made: onnx.GraphProto, before: Sequence[Operation]) -> dict[str, tuple[str, ...]]:
    """What each node that is no inserted cast was made of, by name: of a function, say."""
    bare = onnx.GraphProto()
    bare.CopyFrom(made)
    drop_inserted_casts(bare, {op.name for op in before})
    operations = operations_of(bare.node)
    outputs = [value.name for value in bare.output]
    traced, _ = trace(before, {}, operations, constant_names(bare), outputs)
    return {op.name: names for op, names in zip(operations, traced, strict=True)}


def _fill_holes(
    graph: onnx.GraphProto, made: onnx.GraphProto, owner: dict[str, int], same: set[str]
) -> None:
    """Add nodes, in place, for those of `graph` that nothing stands for.

    They are casts that the runtime merged with its own: what reads one of them in the graph
    reads another value here. An Identity of that value is put between. O(V + E).
    """
    present = {owner[node.name] for node in made.node}
    taken = {name for node in made.node for name in (*node.output, *captures(node))}
    taken.update(value.name for value in made.input)
    taken.update(constant_names(made))
    readers: dict[str, list[tuple[onnx.NodeProto, int]]] = {}
    values: dict[int, str] = {}
    for node in made.node:
        v = owner[node.name]
        if v == _SHARED:
            continue
        values[v] = node.output[0]
        inputs = graph.node[v].input
        for port, name in enumerate(node.input):
            # Of a function's body it is the name that tells what it reads.
            read = name.removeprefix(INSERTED)
            if node.name in same:
                read = inputs[port] if port < len(inputs) else ""
            if read in inputs:
                readers.setdefault(read, []).append((node, port))
    producer = {name: v for v, node in enumerate(graph.node) for name in node.output if name}
    # Backwards: those that are added read what those before them are to give.
    for v in reversed(range(len(graph.node))):
        if v in present:
            continue
        node = graph.node[v]
        result = node.output[0]
        given: dict[str, str] = {}
        for reader, port in readers.get(result, ()):
            value = reader.input[port]
            if value not in given:
                name = result
                while name in taken or name in owner:
                    name += "_"
                taken.add(name)
                given[value] = name
            reader.input[port] = given[value]
        if not given:
            before = producer.get(node.input[0])
            value = node.input[0] if before is None else values.get(before, node.input[0])
            given[value] = f"{result}/unread"
        for value, name in given.items():
            added = made.node.add(op_type="Identity", name=name, input=[value], output=[name])
            owner[name] = v
            readers.setdefault(node.input[0], []).append((added, 0))
