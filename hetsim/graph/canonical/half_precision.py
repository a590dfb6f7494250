"""16-bit floats: whether a model has any, and the casts that ONNX Runtime puts around them.

Its CPU kernels compute most ops on 16-bit floats in single precision. It casts what they read
and write, drops pairs of casts, and with them casts of the model. None of that is of the model.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

import onnx

from hetsim.graph.reading.structure import bodies, captures, constant_names, replace
from hetsim.graph.shapes.data_dependence import RANDOM

_HALF = onnx.TensorProto.FLOAT16
INSERTED = "InsertedPrecisionFreeCast_"
"""How ONNX Runtime begins the names of its casts, and of what they make or replace."""


def mentions_half(proto: onnx.ModelProto) -> bool:
    """Whether `proto` has 16-bit floats of IEEE; as ``mentions``."""
    return mentions(proto, {_HALF})


def mentions(proto: onnx.ModelProto, kinds: Collection[int]) -> bool:
    """Whether an input, a constant or an attribute of `proto` is of these types, or names one.

    All other values of a type come from these. Bodies and functions count. O(V + attributes).
    """
    if any(_typed(value.type, kinds) for value in proto.graph.input):
        return True
    if any(_in_nodes(function.node, kinds) for function in proto.functions):
        return True
    return _in_graph(proto.graph, kinds)


def hold_casts(graph: onnx.GraphProto) -> None:
    """Put an Identity, in place, between a cast and the casts that read it.

    ONNX Runtime takes such a pair for one cast, and so leaves a rounding out, where nothing
    but casts reads the first. In the graph that it saved they are those that it did not merge:
    another reader, perhaps one that no output depends on, kept them apart, or the pair came
    about later. It would merge them where it opens that graph, or a part of it, again. O(V + E).
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
    """What `hide` put aside: the input that the stand-ins read, types, and the nodes by name."""

    condition: str
    types: Mapping[str, onnx.TypeProto]
    nodes: dict[str, onnx.NodeProto] = field(default_factory=dict)


def hide(graph: onnx.GraphProto, types: Mapping[str, onnx.TypeProto]) -> Hidden:
    """Put what ONNX Runtime would take apart, in place, where no optimiser finds it.

    These are casts from and to 16-bit floats, and calls of ops that ONNX defines by a function
    body, which it opens where it has no kernel. Each becomes an If with itself in both
    branches, on an input of its own. What reads constants alone stays, so that it can be
    folded. O(V + E).

    `types` are those of the values of the graph; what they leave open may be a 16-bit float.
    """
    taken = {value.name for value in graph.input} | set(_all_names(graph))
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
    """Undo `hide`, in place: what was hidden reads what the optimiser made of its input.

    Where that became a constant, it may be one itself by then. O(V + E).
    """
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
    """Take the casts that ONNX Runtime inserted out again, in place.

    What one makes of a 16-bit value is that value; what one rounds bears the name of the
    result. `own` are names of nodes of the model, which may begin as those of the casts do.
    Values have no types afterwards. O(V + E).
    """
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
                    # Without a shape, shapes behind it could not be folded.
                    result.type.CopyFrom(hidden.types[node.output[0]])
                result.type.tensor_type.elem_type = kind
                body = onnx.helper.make_graph([inner], name, [], [result])
                branches.append(onnx.helper.make_attribute(name, body))
            node.op_type = "If"
            replace(node.input, [hidden.condition])
            replace(node.attribute, branches)


def _taken_apart(node: onnx.NodeProto, kinds: Mapping[str, int]) -> bool:
    """Whether a node casts 16-bit floats, or is of 16-bit floats and has a body in ONNX."""
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


def _all_names(graph: onnx.GraphProto) -> Iterable[str]:
    yield from constant_names(graph)
    for node in graph.node:
        yield from node.output
        for body in bodies(node):
            yield from (value.name for value in body.input)
            yield from _all_names(body)


def _is_cast(node: onnx.NodeProto) -> bool:
    return bool(node.op_type == "Cast" and not node.domain)


def _in_graph(graph: onnx.GraphProto, kinds: Collection[int]) -> bool:
    return (
        any(tensor.data_type in kinds for tensor in graph.initializer)
        or any(sparse.values.data_type in kinds for sparse in graph.sparse_initializer)
        or _in_nodes(graph.node, kinds)
    )


def _in_nodes(nodes: Iterable[onnx.NodeProto], kinds: Collection[int]) -> bool:
    return any(
        any(_in_attribute(attribute, kinds) for attribute in node.attribute)
        or any(_in_graph(body, kinds) for body in bodies(node))
        for node in nodes
    )


def _in_attribute(attribute: onnx.AttributeProto, kinds: Collection[int]) -> bool:
    """By value; an integer counts where the attribute's name says that it is a type."""
    kind = onnx.AttributeProto
    if attribute.type == kind.INT:
        return attribute.i in kinds and (attribute.name == "to" or "type" in attribute.name)
    if attribute.type == kind.TENSOR:
        return bool(attribute.t.data_type in kinds)
    if attribute.type == kind.SPARSE_TENSOR:
        return bool(attribute.sparse_tensor.values.data_type in kinds)
    if attribute.type == kind.TYPE_PROTO:
        return _typed(attribute.tp, kinds)
    return any(tensor.data_type in kinds for tensor in attribute.tensors)


def _typed(kind: onnx.TypeProto, kinds: Collection[int]) -> bool:
    which = kind.WhichOneof("value")
    if which in ("sequence_type", "optional_type"):
        return _typed(getattr(kind, which).elem_type, kinds)
    if which == "map_type":
        return _typed(kind.map_type.value_type, kinds)
    # An opaque type has no elements.
    return bool(which and getattr(getattr(kind, which), "elem_type", None) in kinds)
