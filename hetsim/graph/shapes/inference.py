"""Type and shape inference: ONNX's first, ONNX Runtime's for the remaining values."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import onnx
from onnx import TensorProto, helper

from hetsim.core.room import out_of_room
from hetsim.errors import ModelError
from hetsim.graph.reading.extension import NONE, Custom
from hetsim.graph.reading.onnx_file import INLINE_BYTES
from hetsim.graph.reading.onnx_runtime import MANY_TREE_NODES, probe_types, tree_nodes
from hetsim.graph.reading.onnx_types import bytes_of, has_rank, has_type, without_values
from hetsim.graph.reading.structure import bodies, captures, replace, stated_types
from hetsim.graph.shapes.binding import bindable

PARTS_FROM = 10_000
"""Number of nodes above which ONNX Runtime checks the model in parts."""

_LISTED = 2**16
"""Maximum length of a list of sizes whose contents inference follows; no rank is that high."""


def annotate(
    proto: onnx.ModelProto,
    weights_dir: Path | None,
    declared: Mapping[str, onnx.TypeProto],
    where: str,
    *,
    accepted: bool,
    custom: Custom = NONE,
) -> None:
    """Write the type of every value of `proto`'s nodes, in place.

    Shapes are filled in as far as they follow from the inputs; a dimension keeps a name only if it
    is a symbolic dimension of an input, which the caller can bind. `declared` has types that the
    file states for its outputs, for shapes that cannot be inferred; `accepted` says whether ONNX
    Runtime is known to read the model: if not, it is checked.
    """
    graph = proto.graph
    written = [name for node in graph.node for name in node.output if name]
    known = inferred(proto, written, custom)
    missing = [name for name in written if name not in known or not has_rank(known[name])]
    if not missing and not accepted and len(graph.node) > PARTS_FROM:
        check_in_parts(proto, weights_dir, known, where, custom.libraries)
    elif missing or not accepted:
        # ONNX Runtime builds ensembles when opening a session: seconds for millions of tree nodes.
        large = tree_nodes(graph.node) >= MANY_TREE_NODES
        asked = skeleton(proto, values=True) if large else proto
        found = probe_types(asked, weights_dir, missing, where, custom.libraries)
        known.update({name: kind for name, kind in found.items() if has_type(kind)})
    known.update({value.name: value.type for value in graph.input})
    outputs = {value.name for value in graph.output}
    for tensor in graph.initializer:
        if tensor.name in outputs:
            known[tensor.name] = onnx.helper.make_tensor_type_proto(tensor.data_type, tensor.dims)
    for sparse in graph.sparse_initializer:
        known[sparse.values.name] = onnx.helper.make_tensor_type_proto(
            sparse.values.data_type, sparse.dims
        )
    names = bindable(graph)
    for name in (*written, *outputs):
        kind = known.get(name)
        if kind is None or not has_type(kind):
            raise ModelError(
                f"the type of value {name!r} cannot be inferred",
                where=where,
                hint="export the model with types, or check it with onnx.checker",
            )
        _clean(kind, names)
        if not has_rank(kind) and name in declared and has_rank(declared[name]):
            kind.CopyFrom(declared[name])
            _clean(kind, names)
    del graph.value_info[:]
    for name in written:
        if name not in outputs:
            graph.value_info.add(name=name).type.CopyFrom(known[name])
    for value in graph.output:
        value.type.CopyFrom(known[value.name])


def inferred(
    proto: onnx.ModelProto, written: Collection[str], custom: Custom
) -> dict[str, onnx.TypeProto]:
    """Return the types that ONNX infers for the values `written`; possibly none."""
    light = skeleton(proto)
    light.functions.extend(custom.bodies.values())
    replace_fragile(light)
    wanted = set(written)
    found = _found(light, wanted, with_contents=False)
    if found is None:
        return {}
    inputs = [value.type for value in light.graph.input]
    settled = len(found) == len(wanted) and all(map(_is_settled, found.values()))
    # Inference would generate a name for each of many entries, in 100 bytes and 1 us.
    shapes = (kind.tensor_type.shape.dim for kind in (*inputs, *found.values()))
    if settled or any(len(dims) == 1 and dims[0].dim_value > _LISTED for dims in shapes):
        return found
    return _found(light, wanted, with_contents=True) or found


def _found(
    skeleton: onnx.ModelProto, wanted: Collection[str], *, with_contents: bool
) -> dict[str, onnx.TypeProto] | None:
    """Return inferred types, with or without contents of lists of sizes; None on failure."""
    try:
        result = onnx.shape_inference.infer_shapes(skeleton, data_prop=with_contents)
    except Exception as error:
        if (short := out_of_room(error)) is not None:
            raise short from error
        # Its failures differ by version and are unclear; the runtime's are explained to the user.
        return None
    types = stated_types(result.graph.value_info, result.graph.output)
    return {name: kind for name, kind in types.items() if name in wanted and has_type(kind)}


def _is_settled(kind: onnx.TypeProto) -> bool:
    """Return whether a value's type and shape are fully known."""
    if kind.WhichOneof("value") != "tensor_type":
        return has_rank(kind)
    return has_rank(kind) and all(dim.HasField("dim_value") for dim in kind.tensor_type.shape.dim)


def skeleton(proto: onnx.ModelProto, *, values: bool = False) -> onnx.ModelProto:
    """Return the model without its trees and, except for `values`, contents of large constants."""
    light = onnx.ModelProto(ir_version=proto.ir_version)
    light.opset_import.extend(proto.opset_import)
    light.functions.extend(proto.functions)
    graph = light.graph
    graph.name = proto.graph.name or "light"
    for node in proto.graph.node:
        known = is_ensemble(node) and add_stand_in(graph, node)
        if not known and (values or not is_ensemble(node)):
            graph.node.append(node)
    graph.input.extend(proto.graph.input)
    graph.output.extend(proto.graph.output)
    graph.sparse_initializer.extend(proto.graph.sparse_initializer)
    for tensor in proto.graph.initializer:
        large = tensor.HasField("raw_data") and bytes_of(tensor) > INLINE_BYTES
        if not values and (large or tensor.data_location == onnx.TensorProto.EXTERNAL):
            graph.initializer.append(without_values(tensor))
        else:
            graph.initializer.append(tensor)
    return light


def _clean(kind: onnx.TypeProto, names: Collection[str]) -> None:
    """Remove dimension names generated by inference, and invalid sizes."""
    if kind.WhichOneof("value") == "tensor_type" and kind.tensor_type.HasField("shape"):
        for dim in kind.tensor_type.shape.dim:
            if dim.HasField("dim_param") and dim.dim_param not in names:
                dim.ClearField("dim_param")
            elif dim.dim_value < 0:
                dim.ClearField("dim_value")


FRAGILE = frozenset(
    {("", "EyeLike"), ("", "RegexFullMatch"), ("ai.onnx.ml", "DictVectorizer"),
     ("ai.onnx.ml", "LabelEncoder"), ("ai.onnx.ml", "TreeEnsemble")}
)  # fmt: skip
"""Domain and name of operators whose ONNX inference reads a missing type, which crashes the
process. Inference continues past unknown operators: outputs of com.microsoft's have no type. Found
by running every version of every operator of onnx 1.23 with each combination of inputs with and
without a type."""

_UNKNOWN = "hetsim.unknown"
_LABELS = {
    "values_strings": TensorProto.STRING,
    "values_int64s": TensorProto.INT64,
    "values_floats": TensorProto.FLOAT,
}


def replace_fragile(proto: onnx.ModelProto) -> None:
    """Replace, in place, operators on which inference crashes by equivalent ones."""
    hidden = False
    for node in _nodes(proto):
        domain = "" if node.domain == "ai.onnx" else node.domain
        if (domain, node.op_type) not in FRAGILE:
            continue
        kind = _written(node)
        del node.attribute[:]
        if kind is None or len(node.input) != 1:
            node.domain, hidden = _UNKNOWN, True
        elif kind == TensorProto.UNDEFINED:
            node.domain, node.op_type = "", "Identity"
        else:
            node.domain, node.op_type = "", "Cast"
            node.attribute.append(onnx.helper.make_attribute("to", kind))
    if hidden:
        for held in (proto, *proto.functions):
            held.opset_import.add(domain=_UNKNOWN, version=1)


def with_types(proto: onnx.ModelProto) -> onnx.ModelProto:
    """Return a copy with the inferred types of values written, including bodies."""
    probe = onnx.ModelProto()
    probe.CopyFrom(proto)
    replace_fragile(probe)
    result: onnx.ModelProto = onnx.shape_inference.infer_shapes(probe)
    for node, stands_for_it in zip(_nodes(proto), _nodes(result), strict=True):
        if (node.domain, node.op_type) != (stands_for_it.domain, stands_for_it.op_type):
            stands_for_it.CopyFrom(node)
    for held, own in zip((result, *result.functions), (proto, *proto.functions), strict=True):
        replace(held.opset_import, own.opset_import)
    return result


def _nodes(proto: onnx.ModelProto) -> Iterator[onnx.NodeProto]:
    """Yield all nodes, in a deterministic order."""
    pending: list[Any] = [proto.graph, *proto.functions]
    while pending:
        for node in pending.pop().node:
            pending += bodies(node)
            yield node


def _written(node: onnx.NodeProto) -> int | None:
    """Return the element type of its output: UNDEFINED if that of the input, None if unstated."""
    attributes = {attribute.name: attribute for attribute in node.attribute}
    if node.op_type == "EyeLike":
        return int(attributes["dtype"].i) if "dtype" in attributes else TensorProto.UNDEFINED
    if node.op_type == "RegexFullMatch":
        return TensorProto.BOOL
    if node.op_type == "LabelEncoder":
        if "values_tensor" in attributes:
            return int(attributes["values_tensor"].t.data_type)
        return next((kind for name, kind in _LABELS.items() if name in attributes), None)
    return None


_CLASSIFIER, _REGRESSOR = "TreeEnsembleClassifier", "TreeEnsembleRegressor"


def is_ensemble(node: onnx.NodeProto) -> bool:
    """Return whether it is an ensemble that ONNX cannot infer."""
    return node.domain == "ai.onnx.ml" and node.op_type in (_CLASSIFIER, _REGRESSOR)


def add_stand_in(graph: onnx.GraphProto, node: onnx.NodeProto) -> bool:
    """Add standard nodes with an ensemble's types and shapes; return if columns are known."""
    attributes = {attribute.name: attribute for attribute in node.attribute}
    texts = attributes.get("classlabels_strings")
    numbers = attributes.get("classlabels_int64s")
    if node.op_type == _CLASSIFIER:
        columns = len(texts.strings) if texts is not None else 0
        columns = columns or (len(numbers.ints) if numbers is not None else 0)
        label, scores = [*node.output, "", ""][:2]
    else:
        targets = attributes.get("n_targets")
        columns = targets.i if targets is not None else 0
        label, scores = "", node.output[0]
    if columns < 1:
        return False
    taken = {name for other in (*graph.node, node) for name in (*other.input, *other.output)}
    fresh = (name for n in count() if (name := f"{node.name}/{n}") not in taken)
    first, column, repeats, index = (next(fresh) for _ in range(4))
    # One number per sample for each column: [N, F] to [N, 1] to [N, columns]. ArgMax, Cast and Tile
    # are the same in all operator sets.
    graph.node.append(helper.make_node("ArgMax", [node.input[0]], [first], axis=1, keepdims=1))
    graph.node.append(helper.make_node("Cast", [first], [column], to=TensorProto.FLOAT))
    graph.initializer.append(helper.make_tensor(repeats, TensorProto.INT64, [2], [1, columns]))
    if scores:
        graph.node.append(helper.make_node("Tile", [column, repeats], [scores]))
    if label:
        kind = TensorProto.STRING if texts is not None and texts.strings else TensorProto.INT64
        graph.node.append(helper.make_node("ArgMax", [node.input[0]], [index], axis=1, keepdims=0))
        graph.node.append(helper.make_node("Cast", [index], [label], to=kind))
    return True


Kinds = Sequence[onnx.TypeProto | None]

_FIRST_SCAN_WITHOUT_BATCH = 9


def body_types(node: onnx.NodeProto, kinds: Kinds, version: int) -> list[onnx.TypeProto | None]:
    """Return the types of the body inputs of `node`; None if its declared types hold."""
    if node.op_type == "Loop":
        scalars = (onnx.TensorProto.INT64, onnx.TensorProto.BOOL)
        return [*(helper.make_tensor_type_proto(kind, []) for kind in scalars), *kinds[2:]]
    if node.op_type == "SequenceMap":
        return [
            kind.sequence_type.elem_type if kind and kind.HasField("sequence_type") else kind
            for kind in kinds
        ]
    if node.op_type != "Scan":
        return []
    stated = {a.name: a for a in node.attribute}
    count = stated["num_scan_inputs"].i
    axes = list(stated["scan_input_axes"].ints) if "scan_input_axes" in stated else [0] * count
    if version < _FIRST_SCAN_WITHOUT_BATCH:
        kinds, axes = [_without(kind, 0) for kind in kinds[1:]], [0] * count
    carried = len(kinds) - count
    scanned = zip(kinds[carried:], axes, strict=True)
    return [*kinds[:carried], *(_without(kind, axis) for kind, axis in scanned)]


def _without(kind: onnx.TypeProto | None, axis: int) -> onnx.TypeProto | None:
    if kind is None or not kind.tensor_type.HasField("shape"):
        return kind
    made = onnx.TypeProto()
    made.CopyFrom(kind)
    dims = list(made.tensor_type.shape.dim)
    del dims[axis]
    del made.tensor_type.shape.dim[:]
    made.tensor_type.shape.dim.extend(dims)
    made.tensor_type.shape.SetInParent()
    return made


PART = 5_000
"""Nodes per part: a session's cost grows faster than linearly with its nodes."""


def check_in_parts(
    proto: onnx.ModelProto,
    weights_dir: Path | None,
    known: Mapping[str, onnx.TypeProto],
    where: str,
    libraries: Sequence[str] = (),
) -> None:
    """Raise ModelError if ONNX Runtime rejects a slice of PART nodes of the model. O(V + E)."""
    graph = proto.graph
    types = {**known, **{value.name: value.type for value in graph.input}}
    stored = {tensor.name: tensor for tensor in graph.initializer}
    sparse = {one.values.name: one for one in graph.sparse_initializer}
    for start in range(0, len(graph.node), PART):
        nodes = graph.node[start : start + PART]
        part = onnx.ModelProto(ir_version=proto.ir_version)
        part.opset_import.extend(proto.opset_import)
        part.functions.extend(proto.functions)
        part.graph.name = graph.name or "part"
        part.graph.node.extend(nodes)
        read = dict.fromkeys(n for node in nodes for n in (*node.input, *captures(node)) if n)
        written = dict.fromkeys(name for node in nodes for name in node.output if name)
        for name in read:
            if name in stored:
                part.graph.initializer.append(stored[name])
            elif name in sparse:
                part.graph.sparse_initializer.append(sparse[name])
            elif name not in written:
                part.graph.input.add(name=name).type.CopyFrom(types[name])
        for name in written:
            if name not in read:
                part.graph.output.add(name=name).type.CopyFrom(types[name])
        probe_types(part, weights_dir, (), where, libraries)
