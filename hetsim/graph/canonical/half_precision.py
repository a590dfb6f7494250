"""16-bit floats: casts inserted by ONNX Runtime, and its CPU kernels for them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import onnx

from hetsim.graph.canonical.provenance import Operation, operations_of, trace
from hetsim.graph.reading.extension import Custom
from hetsim.graph.reading.onnx_runtime import optimise
from hetsim.graph.reading.onnx_types import dtype_name, to_tensor
from hetsim.graph.reading.structure import (
    all_names,
    bodies,
    captures,
    constant_names,
    drop_inner_types,
    name_nodes,
    prune,
    replace,
    sort_nodes,
    stated_types,
    unshadow,
)
from hetsim.graph.shapes.inference import annotate
from hetsim.graph.shapes.open_shapes import RANDOM

_HALF = onnx.TensorProto.FLOAT16
INSERTED = "InsertedPrecisionFreeCast_"
"""Prefix of the names of ONNX Runtime's casts, and of values that these make or replace."""

_FOLLOWING = frozenset({"output", "value_info", "training_info"})
"""Fields whose types follow from inputs, constants and attributes, or that never run."""


def mentions_half(proto: onnx.ModelProto) -> bool:
    """Return whether `proto` has IEEE 16-bit floats; as ``mentions``."""
    return mentions(proto, {_HALF})


def mentions(message: Any, kinds: Collection[int]) -> bool:
    """Return whether an input, constant or attribute of the model or its bodies has these types."""
    kind = type(message)
    if kind is onnx.TensorProto:
        return message.data_type in kinds
    if kind in (onnx.TypeProto.Tensor, onnx.TypeProto.SparseTensor):
        return message.elem_type in kinds
    if kind is onnx.AttributeProto and message.type == onnx.AttributeProto.INT:
        return message.i in kinds and (message.name == "to" or "type" in message.name)
    if kind is onnx.NodeProto:
        return any(mentions(attribute, kinds) for attribute in message.attribute)
    return any(
        mentions(part, kinds)
        for field, value in message.ListFields()
        if field.type == field.TYPE_MESSAGE and field.name not in _FOLLOWING
        for part in (value if hasattr(value, "extend") else (value,))
    )


def hold_casts(graph: onnx.GraphProto) -> None:
    """Insert an Identity, in place, between a cast and the casts that read it. O(V + E).

    ONNX Runtime merges such a pair into one cast and drops a rounding, if only casts read the
    first: it would merge here what it did not merge in the whole graph.
    """
    found = {node.output[0] for node in graph.node if _is_cast(node)}
    held: dict[str, str] = {}
    for node in graph.node:
        if _is_cast(node) and node.input[0] in found:
            node.input[0] = held.setdefault(node.input[0], f"{node.input[0]}/held")
    for name, other in held.items():
        graph.node.add(op_type="Identity", input=[name], output=[other])


@dataclass(slots=True)
class Hidden:
    """Parts removed by `hide`: the stand-ins' input, types, and the nodes by name."""

    condition: str
    types: Mapping[str, onnx.TypeProto]
    nodes: dict[str, onnx.NodeProto] = field(default_factory=dict)


def hide(graph: onnx.GraphProto, types: Mapping[str, onnx.TypeProto]) -> Hidden:
    """Replace, in place, nodes that ONNX Runtime would split by stand-ins that it keeps. O(V + E).

    Casts from and to 16-bit floats (or types left open by `types`), and calls of ops with an ONNX
    function body, become an If with themselves in both branches, on an additional input. Nodes that
    read only constants are kept, so that they can be folded.
    """
    taken = all_names(graph)
    condition = "hidden"
    while condition in taken:
        condition += "_"
    hidden = Hidden(condition, types)
    kinds = {name: kind.tensor_type.elem_type for name, kind in types.items()}
    kinds.update((value.name, value.type.tensor_type.elem_type) for value in graph.input)
    kinds.update((tensor.name, tensor.data_type) for tensor in graph.initializer)
    _hide(graph, hidden, kinds, set())
    graph.input.add(name=condition).type.CopyFrom(
        onnx.helper.make_tensor_type_proto(onnx.TensorProto.BOOL, [])
    )
    return hidden


def show(graph: onnx.GraphProto, hidden: Hidden) -> None:
    """Undo `hide` in place: hidden nodes read the optimised model's values."""
    stored = constant_names(graph)
    kept: list[onnx.NodeProto] = []
    for node in graph.node:
        for body in bodies(node):
            show(body, hidden)
        if node.op_type != "If" or node.domain or node.input[0] != hidden.condition:
            kept.append(node)
            continue
        branch = bodies(node)[0]
        if not branch.node:
            tensor = graph.initializer.add()
            tensor.CopyFrom(branch.initializer[0])
            tensor.name = node.output[0]
            continue
        shown = onnx.NodeProto()
        shown.CopyFrom(hidden.nodes[node.name])
        replace(shown.output, list(node.output))
        read = captures(node)
        values = [name for name in read if name not in stored] or list(read)
        shown.input[0] = values[0]
        kept.append(shown)
    replace(graph.node, kept)
    replace(graph.input, [value for value in graph.input if value.name != hidden.condition])


def drop_inserted_casts(graph: onnx.GraphProto, own: Collection[str]) -> None:
    """Remove the casts inserted by ONNX Runtime, except those in `own`, in place. O(V + E)."""
    _drop_inserted(graph, set(own), {})


def _hide(
    graph: onnx.GraphProto, hidden: Hidden, kinds: Mapping[str, int], outside: set[str]
) -> None:
    constant = outside | set(constant_names(graph))
    for node in graph.node:
        for body in bodies(node):
            _hide(body, hidden, kinds, constant)
        given = [name for name in node.input if name and name not in constant]
        if node.op_type == "Constant" or (
            node.op_type not in RANDOM and not bodies(node) and any(node.input) and not given
        ):
            constant.update(node.output)
        elif (
            given
            and given == list(node.input[:1])
            and len(node.output) == 1
            and _taken_apart(node, kinds)
        ):
            whole = hidden.nodes[node.name] = onnx.NodeProto()
            whole.CopyFrom(node)
            kind = kinds.get(node.output[0], 0)
            if _is_cast(node):
                kind = next((a.i for a in node.attribute if a.name == "to"), 0)
            branches = []
            for name in ("then_branch", "else_branch"):
                inner = onnx.NodeProto()
                inner.CopyFrom(node)
                inner.name = inner.output[0] = f"{node.output[0]}/{name}"
                result = onnx.ValueInfoProto(name=inner.output[0])
                if node.output[0] in hidden.types:
                    # Without a shape, dependent shapes could not be folded.
                    result.type.CopyFrom(hidden.types[node.output[0]])
                result.type.tensor_type.elem_type = kind
                body = onnx.helper.make_graph([inner], name, [], [result])
                branches.append(onnx.helper.make_attribute(name, body))
            node.op_type = "If"
            replace(node.input, [hidden.condition])
            replace(node.attribute, branches)


def _taken_apart(node: onnx.NodeProto, kinds: Mapping[str, int]) -> bool:
    """Return whether a node casts 16-bit floats, or has them and an ONNX function body."""
    if node.domain or not node.name:
        return False
    ends = [kinds.get(name, _HALF) for name in (node.input[0], node.output[0])]
    if _is_cast(node):
        ends[1] = next((a.i for a in node.attribute if a.name == "to"), 0)
        return _HALF in ends
    if ends != [_HALF, _HALF] or any(name not in kinds for name in node.output):
        return False
    try:
        schema = onnx.defs.get_schema(node.op_type)
    except onnx.defs.SchemaError:
        return False
    bodied = ("has_function", "has_context_dependent_function")
    return any(getattr(schema, name, False) for name in bodied)


def _drop_inserted(graph: onnx.GraphProto, own: set[str], outer: dict[str, str]) -> None:
    names = dict(outer)
    kept: list[onnx.NodeProto] = []
    written = {name for node in graph.node for name in node.output}
    for node in graph.node:
        if _is_cast(node) and node.name.startswith(INSERTED) and node.name not in own:
            half = any(a.name == "to" and a.i == _HALF for a in node.attribute)
            source, result = node.input[0], node.output[0]
            names[source if half else result] = result if half else source
        else:
            kept.append(node)
    for name in sorted(written):
        bare = name.removeprefix(INSERTED)
        if bare != name and name not in names and bare not in written:
            names[name] = bare

    def final(name: str) -> str:
        seen: set[str] = set()
        while name in names and name not in seen:
            seen.add(name)
            name = names[name]
        return name

    for node in kept:
        for names_of in (node.input, node.output):
            for port, name in enumerate(names_of):
                names_of[port] = final(name)
        for body in bodies(node):
            _drop_inserted(body, own, {name: final(name) for name in names})
    for value in graph.output:
        value.name = final(value.name)
    replace(graph.node, kept)


def _is_cast(node: onnx.NodeProto) -> bool:
    return bool(node.op_type == "Cast" and not node.domain)


_SHARED = -1
"""Owner of casts of inputs and constants, which each reader makes itself."""


@dataclass(frozen=True, slots=True)
class Lowering:
    """Lowered nodes, of which any subset computes the same bits as the whole.

    `owners` are the original nodes of each, -1 for casts of inputs and constants; `types` those of
    the nodes' outputs; `constants` come from function bodies.
    """

    nodes: tuple[onnx.NodeProto, ...] = field(repr=False)
    owners: tuple[int, ...] = field(repr=False)
    types: Mapping[str, onnx.TypeProto] = field(repr=False)
    opsets: tuple[onnx.OperatorSetIdProto, ...] = field(repr=False)
    constants: tuple[onnx.TensorProto, ...] = field(repr=False)

    @property
    def dtypes(self) -> dict[str, str]:
        """Element types of all outputs of the nodes, and of the constants."""
        stored = {tensor.name: dtype_name(tensor.data_type) for tensor in self.constants}
        return stored | {name: to_tensor(name, kind).dtype for name, kind in self.types.items()}


def lowered(
    proto: onnx.ModelProto, weights_dir: Path | None, where: str, custom: Custom
) -> onnx.ModelProto:
    """Return the model as lowered by ONNX Runtime; lowering it again changes nothing."""
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
    weights_dir: Path | None,
    where: str,
    custom: Custom,
) -> Lowering | None:
    """Return the map from nodes of `made` to those of `graph`; None if they are the same."""
    if [(op.op_type, op.inputs, op.outputs) for op in before] == [
        (op.op_type, op.inputs, op.outputs) for op in operations_of(made.graph.node)
    ]:
        return None
    prune(made)
    operations = operations_of(made.graph.node)
    known = {op.name: op for op in before}
    same = {op.name for op in operations if op.name in known
            and known[op.name].op_type == op.op_type}  # fmt: skip
    owner = _owners(graph, made.graph, before, operations, same)
    _fill_holes(graph, made.graph, owner, same)
    sort_nodes(made.graph, where)
    annotate(made, weights_dir, {}, where, accepted=True, custom=custom)
    written = {name for node in made.graph.node for name in node.output}
    types = stated_types(made.graph.value_info, made.graph.output)
    stored = constant_names(graph)
    return Lowering(
        tuple(made.graph.node),
        tuple(owner[node.name] for node in made.graph.node),
        {name: kind for name, kind in types.items() if name in written},
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
    """Return the node of `graph` for each of `made`, by name; -1 for casts of given values."""
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
            # A function body, e.g. of CastLike, may be one cast, which writes the call's output.
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
    """Return by name the origins of each node except inserted casts, e.g. of a function."""
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
    """Insert an Identity, in place, for each cast of `graph` merged with an inserted one."""
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
            # In a function body, the name identifies what it reads.
            read = name.removeprefix(INSERTED)
            if node.name in same:
                read = inputs[port] if port < len(inputs) else ""
            if read in inputs:
                readers.setdefault(read, []).append((node, port))
    producer = {name: v for v, node in enumerate(graph.node) for name in node.output if name}
    # Backwards, as added nodes read outputs of earlier ones.
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
