"""Structure of a parsed model: normal form, names, order, bodies, functions, pruning."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import numpy as np
import onnx

from hetsim.errors import ModelError
from hetsim.graph.dag import find_cycle, topological_order

_FIRST_IR_WITH_OWN_CONSTANTS = 4

_WITHOUT_BODIES = frozenset(onnx.AttributeProto.AttributeType.values()) - {
    onnx.AttributeProto.UNDEFINED, onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS
}  # fmt: skip
"""Attribute types without graphs, as access to fields is slow."""


def regularise(proto: onnx.ModelProto, where: str) -> tuple[onnx.NodeProto, ...]:
    """Normalise `proto` in place; return its original nodes, including Constant nodes.

    Every node gets a unique name, in the topological order closest to the file's; constants become
    initializers; types of inner values and documentation are removed. Raises ModelError for missing
    or duplicate producers, cycles, no output, or no operator set.
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
    """Return the outer values that the bodies of `node` read, in order of first read."""
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


def all_names(graph: onnx.GraphProto) -> set[str]:
    """Return the names of all values in the graph and its bodies."""
    found = {*constant_names(graph), *(value.name for value in (*graph.input, *graph.output))}
    for node in graph.node:
        found.update(node.input, node.output)
        found.update(*map(all_names, bodies(node)))
    return found


def name_nodes(nodes: Iterable[onnx.NodeProto], taken: Collection[str] = ()) -> None:
    """Give every node a unique name in place: the first owner of a name keeps it."""
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
    """Sort the nodes topologically in place, smallest `rank` first. O((V + E) log V)."""
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
                    hint="export the model again: an input or a node is missing",
                )
    if not graph.output:
        raise ModelError(
            "the graph has no output", where=where, hint="mark the values to compute as outputs"
        )
    for value in graph.output:
        if value.name not in producer and value.name not in given:
            raise ModelError(
                f"no node computes output {value.name!r}",
                where=where,
                hint="export the model again: a node is missing",
            )
    order = topological_order(succs, rank)
    if order is None:
        names = [repr(nodes[position].name)[1:-1] for position in find_cycle(succs)]
        shown = " -> ".join([*names[:8], *(["..."] if len(names) > 8 else []), names[0]])
        raise ModelError(
            f"its nodes form a cycle: {shown}",
            where=where,
            hint="export the model again: an ONNX graph must be acyclic",
        )
    if order != list(range(len(nodes))):
        replace(graph.node, [nodes[position] for position in order])


def drop_inner_types(graph: onnx.GraphProto) -> None:
    """Remove the types of inner values, and the shapes of outputs, in place."""
    del graph.value_info[:]
    for value in graph.output:
        if value.type.HasField("tensor_type"):
            value.type.tensor_type.ClearField("shape")
    for node in graph.node:
        for body in bodies(node):
            drop_inner_types(body)


def stated_types(*lists: Iterable[onnx.ValueInfoProto]) -> dict[str, onnx.TypeProto]:
    """Return the declared types of lists of values, by name."""
    return {value.name: value.type for values in lists for value in values}


def replace(field: object, items: Sequence[object]) -> None:
    """Replace the content of a repeated protobuf field by `items`."""
    kept = list(items)
    del field[:]  # type: ignore[attr-defined]
    field.extend(kept)  # type: ignore[attr-defined]


def _regularise_opsets(proto: onnx.ModelProto, where: str) -> None:
    if not proto.opset_import:
        if proto.ir_version >= 3:
            raise ModelError(
                "it declares no operator set",
                where=where,
                hint="the file may be truncated; export the model again",
            )
        proto.opset_import.add(domain="", version=1)
    for entry in proto.opset_import:
        if entry.domain == "ai.onnx":
            entry.domain = ""


def free_names(graph: onnx.GraphProto) -> Iterator[str]:
    """Yield the outer values that a body reads, once per read."""
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
) -> tuple[dict[str, int], frozenset[str]]:
    """Return the producer of each value, by index; and the other values."""
    makers: dict[str, str] = {}
    producer: dict[str, int] = {}

    def give(name: str, source: str) -> None:
        if name in makers:
            raise ModelError(
                f"value {name!r} has two producers: {makers[name]} and {source}",
                where=where,
                hint="export the model again: names of values must be unique",
            )
        makers[name] = source

    for value in graph.input:
        give(value.name, "an input")
    for name in (
        *(tensor.name for tensor in graph.initializer),
        *(sparse.values.name for sparse in graph.sparse_initializer),
    ):
        give(name, "an initializer")
    given = frozenset(makers)
    for position, node in enumerate(nodes):
        for name in filter(None, node.output):
            give(name, f"node {node.name!r}")
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


_PLAIN_CONSTANTS: Mapping[str, tuple[str, type]] = {
    "value_int": ("i", np.int64), "value_ints": ("ints", np.int64),
    "value_float": ("f", np.float32), "value_floats": ("floats", np.float32),
    "value_string": ("s", object), "value_strings": ("strings", object),
}  # fmt: skip
"""Field and type of each non-tensor attribute of a Constant."""


def _constant(node: onnx.NodeProto, where: str) -> onnx.TensorProto:
    attribute = node.attribute[0] if len(node.attribute) == 1 else onnx.AttributeProto()
    name = node.output[0] if node.output else ""
    if attribute.name == "value":
        tensor = onnx.TensorProto()
        tensor.CopyFrom(attribute.t)
        tensor.name = name
        return tensor
    if attribute.name in _PLAIN_CONSTANTS:
        field, dtype = _PLAIN_CONSTANTS[attribute.name]
        held = getattr(attribute, field)
        values = list(held) if hasattr(held, "extend") else held
        return onnx.numpy_helper.from_array(np.array(values, dtype), name)
    raise ModelError(
        "a Constant needs exactly one value attribute",
        where=f"{where}: node {node.name!r}",
        hint="export the model again",
    )


def rename_values(graph: onnx.GraphProto, renamed: Mapping[str, str]) -> None:
    """Rename the constants of a graph and its nodes' outputs, in place, as bodies see them."""
    for tensor in graph.initializer:
        tensor.name = renamed.get(tensor.name, tensor.name)
    for sparse in graph.sparse_initializer:
        sparse.values.name = renamed.get(sparse.values.name, sparse.values.name)
    for node in graph.node:
        for names in (node.input, node.output):
            for port, name in enumerate(names):
                names[port] = renamed.get(name, name)
        for body in bodies(node):
            own = {value.name for value in body.input} | constant_names(body).keys()
            own.update(name for inner in body.node for name in inner.output)
            rename_values(body, {old: new for old, new in renamed.items() if old not in own})
    for values in (graph.output, graph.value_info):
        for value in values:
            value.name = renamed.get(value.name, value.name)


def unshadow(graph: onnx.GraphProto, outer: Collection[str] = ()) -> None:
    """Rename, in place, body outputs that reuse an outer name, which ONNX Runtime refuses."""
    taken = {*outer, *(value.name for value in graph.input), *constant_names(graph)}
    taken.update(name for node in graph.node for name in node.output)
    for node in graph.node:
        for body in bodies(node):
            own = {name for inner in body.node for name in inner.output if name}
            clashes = sorted(own & taken)
            if clashes:
                used = taken | own
                renamed: dict[str, str] = {}
                for name in clashes:
                    renamed[name] = name
                    while renamed[name] in used:
                        renamed[name] += "_"
                    used.add(renamed[name])
                rename_values(body, renamed)
            unshadow(body, taken)


def prune(proto: onnx.ModelProto) -> None:
    """Remove, in place, nodes and constants that no output depends on. O(V + E)."""
    graph = proto.graph
    read = {value.name for value in graph.output}
    alive: list[onnx.NodeProto] = []
    for node in reversed(graph.node):
        if read.intersection(name for name in node.output if name):
            alive.append(node)
            read.update(node.input)
            read.update(captures(node))
    if len(alive) != len(graph.node):
        replace(graph.node, alive[::-1])
    versions = {entry.domain: entry.version for entry in proto.opset_import}
    for node in graph.node:
        _drop_outputs(node, read, versions.get(node.domain, 1))
    if any(tensor.name not in read for tensor in graph.initializer):
        replace(graph.initializer, [t for t in graph.initializer if t.name in read])
    kept = [s for s in graph.sparse_initializer if s.values.name in read]
    if len(kept) != len(graph.sparse_initializer):
        replace(graph.sparse_initializer, kept)
    used = _domains(proto)
    replace(proto.opset_import, [entry for entry in proto.opset_import if entry.domain in used])


def _drop_outputs(node: onnx.NodeProto, read: set[str], version: int) -> None:
    """Remove the name of an unused optional output (a Dropout's mask), so it is not computed."""
    unread = [i for i, name in enumerate(node.output) if name and name not in read]
    if not unread:
        return
    try:
        declared = onnx.defs.get_schema(node.op_type, version, node.domain).outputs
    except onnx.defs.SchemaError:
        return
    for i in unread:
        if (
            i < len(declared)
            and declared[i].option == onnx.defs.OpSchema.FormalParameterOption.Optional
        ):
            node.output[i] = ""
    while node.output and not node.output[-1]:
        node.output.pop()


def _domains(proto: onnx.ModelProto) -> set[str]:
    """Return the domains in use; ONNX Runtime's saved models import every one that it knows."""
    used = {""}
    pending = [proto.graph]
    while pending:
        for node in pending.pop().node:
            used.add(node.domain)
            pending.extend(bodies(node))
    for function in proto.functions:
        used.update(entry.domain for entry in function.opset_import)
        used.update((function.domain, *(node.domain for node in function.node)))
    return used


FunctionKey = tuple[str, str, str]
"""Domain, name and overload of a function."""

NODES_LIMIT = 1_000_000
"""Maximum number of nodes after inlining all calls of model-local functions."""

DEPTH_LIMIT = 100
"""Maximum call depth of functions: the limit of ONNX Runtime, whose stack overflows above."""


def key_of(function: onnx.FunctionProto) -> FunctionKey:
    """Return the key by which calls refer to `function`."""
    return function.domain, function.name, function.overload


def calls(nodes: Iterable[onnx.NodeProto]) -> list[FunctionKey]:
    """Return the keys of functions that nodes, and those of their bodies, may call."""
    found: list[FunctionKey] = []
    pending = [*nodes]
    while pending:
        node = pending.pop()
        found.append((node.domain, node.op_type, node.overload))
        for body in bodies(node):
            pending.extend(body.node)
    return found


def check_unfolding(
    called: Mapping[FunctionKey, Sequence[FunctionKey]], main: Iterable[FunctionKey]
) -> None:
    """Raise ValueError if functions called by `main` recurse or expand to too many nodes."""
    sizes: dict[FunctionKey, int] = {}
    depths: dict[FunctionKey, int] = {}
    entered: set[FunctionKey] = set()
    pending = list(called)
    while pending:
        key = pending[-1]
        if key not in entered:
            entered.add(key)
            missing = dict.fromkeys(c for c in called[key] if c in called and c not in sizes)
            if not entered.isdisjoint(missing):
                raise ValueError(f"function {key[1]!r} calls itself")
            pending.extend(missing)
            continue
        pending.pop()
        if key not in sizes:
            sizes[key] = _unfolded(called[key], sizes)
            depths[key] = 1 + max((depths.get(c, 0) for c in called[key]), default=0)
    if max(depths.values(), default=0) > DEPTH_LIMIT:
        raise ValueError(f"its function calls are nested more than {DEPTH_LIMIT} deep")
    if _unfolded(main, sizes) > NODES_LIMIT:
        raise ValueError(f"its functions expand to more than {NODES_LIMIT} nodes")


def _unfolded(called: Iterable[FunctionKey], sizes: Mapping[FunctionKey, int]) -> int:
    # Capped, as doubling in each of many functions gives a huge number.
    return min(sum(1 + sizes.get(key, 0) for key in called), NODES_LIMIT + 1)
