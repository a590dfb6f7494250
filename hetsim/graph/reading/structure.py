"""A parsed model made regular: every node named, constants apart, nodes in order, all checked."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

import numpy as np
import onnx

from hetsim.errors import ModelError
from hetsim.graph.dag import find_cycle, topological_order

_FIRST_IR_WITH_OWN_CONSTANTS = 4

_WITHOUT_BODIES = frozenset(onnx.AttributeProto.AttributeType.values()) - {
    onnx.AttributeProto.UNDEFINED, onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS
}  # fmt: skip
"""Types of attributes, for nearly all that there are hold no graph: fields are slow to look at."""


def regularise(proto: onnx.ModelProto, where: str) -> tuple[onnx.NodeProto, ...]:
    """Make `proto` regular in place, and return its nodes as they were named.

    Afterwards every node has a unique name; nodes ascend in the topological order that
    stays closest to the file's; Constant nodes and overridable inputs are initializers;
    types that the file states about inner values are gone, and so is the text on nodes. The
    returned nodes include those of op type Constant.

    Raises
    ------
    ModelError
        Where a value has two producers or none, nodes form a cycle, there is no output,
        or no operator set is declared.
    """
    graph = proto.graph
    _regularise_opsets(proto, where)
    proto.ir_version = max(proto.ir_version, _FIRST_IR_WITH_OWN_CONSTANTS)
    for node in graph.node:
        if node.domain == "ai.onnx":
            node.domain = ""
        node.ClearField("doc_string")
    name_nodes(graph.node)
    stored = constant_names(graph)
    inputs = [value for value in graph.input if value.name not in stored]
    replace(graph.input, inputs)
    drop_inner_types(graph)
    sort_nodes(graph, where)
    nodes = tuple(graph.node)
    _constants_to_initializers(graph, where)
    return nodes


def constant_names(graph: onnx.GraphProto) -> dict[str, None]:
    """Return the names of the initializers of `graph`, sparse ones last."""
    names: dict[str, None] = dict.fromkeys(tensor.name for tensor in graph.initializer)
    names.update(dict.fromkeys(sparse.values.name for sparse in graph.sparse_initializer))
    return names


def captures(node: onnx.NodeProto) -> tuple[str, ...]:
    """Return the outer values that the bodies of `node` read, in order of first read.

    A name that a body defines hides the outer one there and in the bodies within.
    """
    inner = bodies(node)
    if not inner:
        return ()
    found: dict[str, None] = {}
    for body in inner:
        found.update(dict.fromkeys(free_names(body)))
    own = set(node.input)
    return tuple(name for name in found if name not in own)


def bodies(node: onnx.NodeProto) -> list[onnx.GraphProto]:
    """Return the graphs among the attributes of `node`."""
    found: list[onnx.GraphProto] = []
    for attribute in node.attribute:
        if attribute.type in _WITHOUT_BODIES:
            continue
        if attribute.HasField("g"):
            found.append(attribute.g)
        found.extend(attribute.graphs)
    return found


def name_nodes(nodes: Iterable[onnx.NodeProto], taken: Collection[str] = ()) -> None:
    """Give every node a name of its own in place: its first owner keeps a name.

    Others become ``{op_type}_{position}``, which is extended while another node or one of
    `taken` has it.
    """
    listed = list(nodes)
    used: set[str] = set()
    unnamed: list[tuple[int, onnx.NodeProto]] = []
    for position, node in enumerate(listed):
        name = node.name
        if name and name not in used:
            used.add(name)
        else:
            unnamed.append((position, node))
    used.update(taken)
    for position, node in unnamed:
        name = f"{node.op_type}_{position}"
        while name in used:
            name += "_"
        used.add(name)
        node.name = name


def sort_nodes(graph: onnx.GraphProto, where: str, rank: Sequence[int] | None = None) -> None:
    """Put the nodes of `graph` in topological order in place, smallest `rank` first.

    Without a rank the position in the file counts. Checks that every value has one
    producer, that all that is read exists, and that there is an output. O((V + E) log V).
    """
    nodes = list(graph.node)
    reads = [[name for name in (*node.input, *captures(node)) if name] for node in nodes]
    producer, given = _producers(graph, nodes, where)
    succs: list[list[int]] = [[] for _ in nodes]
    for position, names in enumerate(reads):
        for name in names:
            if name in producer:
                succs[producer[name]].append(position)
            elif name not in given:
                raise ModelError(
                    f"value {name!r} is read, and nothing gives it",
                    where=f"{where}: node {nodes[position].name!r}",
                    hint="export the model anew: an input or a node is missing",
                )
    if not graph.output:
        raise ModelError(
            "the graph has no output", where=where, hint="mark the values to compute as outputs"
        )
    for value in graph.output:
        if value.name not in producer and value.name not in given:
            raise ModelError(
                f"nothing gives output {value.name!r}",
                where=where,
                hint="export the model anew: a node is missing",
            )
    order = topological_order(succs, rank)
    if order is None:
        names = [repr(nodes[position].name)[1:-1] for position in find_cycle(succs)]
        shown = " -> ".join([*names[:8], *(["..."] if len(names) > 8 else []), names[0]])
        raise ModelError(
            f"its nodes form a cycle: {shown}",
            where=where,
            hint="export the model anew: an ONNX graph must be acyclic",
        )
    if order != list(range(len(nodes))):
        replace(graph.node, [nodes[position] for position in order])


def drop_inner_types(graph: onnx.GraphProto) -> None:
    """Forget what is stated of inner values, in place: it may not fit the dims now bound.

    Outputs keep their type and lose their shape. Bodies keep the types of their inputs.
    """
    del graph.value_info[:]
    for value in graph.output:
        if value.type.HasField("tensor_type"):
            value.type.tensor_type.ClearField("shape")
    for node in graph.node:
        for body in bodies(node):
            drop_inner_types(body)


def replace(field: object, items: Sequence[object]) -> None:
    """Make `items` the content of a repeated protobuf field."""
    kept = list(items)
    del field[:]  # type: ignore[attr-defined]
    field.extend(kept)  # type: ignore[attr-defined]


def _regularise_opsets(proto: onnx.ModelProto, where: str) -> None:
    if not proto.opset_import:
        if proto.ir_version >= 3:
            raise ModelError(
                "it declares no operator set",
                where=where,
                hint="the file may be cut short; export the model anew",
            )
        proto.opset_import.add(domain="", version=1)
    for entry in proto.opset_import:
        if entry.domain == "ai.onnx":
            entry.domain = ""


def free_names(graph: onnx.GraphProto) -> Iterator[str]:
    """Yield the outer values that a body reads, as often as it reads them."""
    own = {value.name for value in graph.input} | constant_names(graph).keys()
    for node in graph.node:
        for name in (*node.input, *captures(node)):
            if name and name not in own:
                yield name
        own.update(node.output)
    for value in graph.output:
        if value.name not in own:
            yield value.name


def _producers(
    graph: onnx.GraphProto, nodes: Sequence[onnx.NodeProto], where: str
) -> tuple[dict[str, int], dict[str, str]]:
    """Who makes each value, by position; and what else there is, with what it is."""
    given: dict[str, str] = {}
    producer: dict[str, int] = {}

    def twice(name: str, source: str) -> ModelError:
        first = given.get(name) or f"node {nodes[producer[name]].name!r}"
        return ModelError(
            f"value {name!r} has two producers: {first} and {source}",
            where=where,
            hint="export the model anew: names of values must be unique",
        )

    def give(name: str, source: str) -> None:
        if name in given:
            raise twice(name, source)
        given[name] = source

    for value in graph.input:
        give(value.name, "an input")
    for tensor in graph.initializer:
        give(tensor.name, "an initializer")
    for sparse in graph.sparse_initializer:
        give(sparse.values.name, "an initializer")
    for position, node in enumerate(nodes):
        for name in node.output:
            if name:
                if name in producer or name in given:
                    raise twice(name, f"node {node.name!r}")
                producer[name] = position
    return producer, given


def _constants_to_initializers(graph: onnx.GraphProto, where: str) -> None:
    if not any(node.op_type == "Constant" and not node.domain for node in graph.node):
        return
    kept: list[onnx.NodeProto] = []
    for node in graph.node:
        if node.op_type != "Constant" or node.domain:
            kept.append(node)
        elif not any(node.output):
            continue
        elif len(node.attribute) == 1 and node.attribute[0].name == "sparse_value":
            sparse = graph.sparse_initializer.add()
            sparse.CopyFrom(node.attribute[0].sparse_tensor)
            sparse.values.name = node.output[0]
        else:
            graph.initializer.append(_constant(node, where))
    replace(graph.node, kept)


def _constant(node: onnx.NodeProto, where: str) -> onnx.TensorProto:
    attribute = node.attribute[0] if len(node.attribute) == 1 else onnx.AttributeProto()
    name = node.output[0] if node.output else ""
    if attribute.name == "value":
        tensor = onnx.TensorProto()
        tensor.CopyFrom(attribute.t)
        tensor.name = name
        return tensor
    if attribute.name in ("value_int", "value_ints"):
        single = attribute.name == "value_int"
        ints = np.array(attribute.i if single else list(attribute.ints), dtype=np.int64)
        return onnx.numpy_helper.from_array(ints, name)
    if attribute.name in ("value_float", "value_floats"):
        single = attribute.name == "value_float"
        floats = np.array(attribute.f if single else list(attribute.floats), dtype=np.float32)
        return onnx.numpy_helper.from_array(floats, name)
    if attribute.name in ("value_string", "value_strings"):
        single = attribute.name == "value_string"
        return onnx.TensorProto(
            name=name,
            data_type=onnx.TensorProto.STRING,
            dims=[] if single else [len(attribute.strings)],
            string_data=[attribute.s] if single else attribute.strings,
        )
    raise ModelError(
        "a Constant needs exactly one value attribute",
        where=f"{where}: node {node.name!r}",
        hint="export the model anew",
    )
