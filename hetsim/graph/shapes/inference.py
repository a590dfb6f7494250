"""Types and shapes of every value: ONNX's inference first, ONNX Runtime for what it leaves."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

import onnx

from hetsim.core.room import out_of_room
from hetsim.errors import ModelError
from hetsim.graph.reading.acceptance import check_in_parts
from hetsim.graph.reading.extension import NONE, Custom
from hetsim.graph.reading.onnx_file import INLINE_BYTES
from hetsim.graph.reading.onnx_runtime import probe_types
from hetsim.graph.reading.onnx_types import bytes_of, has_rank, has_type, without_values
from hetsim.graph.shapes.binding import bindable
from hetsim.graph.shapes.fragile import replace_fragile
from hetsim.graph.shapes.tree_types import add_stand_in, is_ensemble

PARTS_FROM = 10_000
"""Nodes above which ONNX Runtime is asked of one part after the other whether it reads them."""

_LISTED = 2**16
"""Longest list of sizes whose contents inference follows: as many dimensions has no tensor."""


def annotate(
    proto: onnx.ModelProto,
    weights_dir: Path | None,
    declared: Mapping[str, onnx.TypeProto],
    where: str,
    *,
    accepted: bool,
    custom: Custom = NONE,
) -> None:
    """Give every value that a node of `proto` writes its type, in place.

    Shapes are filled in as far as they follow from the inputs; a dimension keeps a name
    only where it is that of a symbolic dimension of an input, which the caller can bind.

    Parameters
    ----------
    declared : mapping
        Types that the file states of its outputs, for shapes that cannot be inferred.
    accepted : bool
        Whether ONNX Runtime is known to read the model. If not, it is asked.
    custom : Custom
        What extensions give to the model.
    """
    graph = proto.graph
    written = [name for node in graph.node for name in node.output if name]
    known = inferred(proto, written, custom)
    missing = [name for name in written if name not in known or not has_rank(known[name])]
    if not missing and not accepted and len(graph.node) > PARTS_FROM:
        check_in_parts(proto, weights_dir, known, where, custom.libraries)
    elif missing or not accepted:
        found = probe_types(proto, weights_dir, missing, where, custom.libraries)
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
    """Return the types that ONNX's own inference finds of the values `written`; none may be."""
    skeleton = _skeleton(proto)
    skeleton.functions.extend(custom.bodies.values())
    replace_fragile(skeleton)
    wanted = set(written)
    found = _found(skeleton, wanted, with_contents=False)
    if found is None:
        return {}
    inputs = [value.type for value in skeleton.graph.input]
    settled = len(found) == len(wanted) and all(map(_is_settled, found.values()))
    if settled or any(map(_is_long_list, (*inputs, *found.values()))):
        return found
    return _found(skeleton, wanted, with_contents=True) or found


def _found(
    skeleton: onnx.ModelProto, wanted: Collection[str], *, with_contents: bool
) -> dict[str, onnx.TypeProto] | None:
    """What inference says of values, by the contents of lists of sizes or not; None: it failed."""
    try:
        result = onnx.shape_inference.infer_shapes(skeleton, data_prop=with_contents)
    except Exception as error:
        if (short := out_of_room(error)) is not None:
            raise short from error
        # Its failures differ by version and say little; the probe's are explained to the user.
        return None
    return {
        value.name: value.type
        for values in (result.graph.value_info, result.graph.output)
        for value in values
        if value.name in wanted and has_type(value.type)
    }


def _is_settled(kind: onnx.TypeProto) -> bool:
    """Whether nothing is open of a value's type and shape."""
    if kind.WhichOneof("value") != "tensor_type":
        return has_rank(kind)
    return has_rank(kind) and all(dim.HasField("dim_value") for dim in kind.tensor_type.shape.dim)


def _is_long_list(kind: onnx.TypeProto) -> bool:
    """Whether inference would make up a name for each of many entries, in 100 bytes and 1 us."""
    dims = kind.tensor_type.shape.dim
    return len(dims) == 1 and dims[0].dim_value > _LISTED


def _skeleton(proto: onnx.ModelProto) -> onnx.ModelProto:
    """The same model, its large inline constants reduced to type and shape.

    Inference takes a serialised copy, and their contents do not matter to it.
    """
    skeleton = onnx.ModelProto(ir_version=proto.ir_version)
    skeleton.opset_import.extend(proto.opset_import)
    skeleton.functions.extend(proto.functions)
    graph = skeleton.graph
    graph.name = proto.graph.name
    for node in proto.graph.node:
        if is_ensemble(node):
            add_stand_in(graph, node)
        else:
            graph.node.append(node)
    graph.input.extend(proto.graph.input)
    graph.output.extend(proto.graph.output)
    graph.sparse_initializer.extend(proto.graph.sparse_initializer)
    for tensor in proto.graph.initializer:
        large = tensor.HasField("raw_data") and bytes_of(tensor) > INLINE_BYTES
        if large or tensor.data_location == onnx.TensorProto.EXTERNAL:
            graph.initializer.append(without_values(tensor))
        else:
            graph.initializer.append(tensor)
    return skeleton


def _clean(kind: onnx.TypeProto, names: Collection[str]) -> None:
    """Drop dimension names that inference made up, and sizes that are none."""
    if kind.WhichOneof("value") == "tensor_type" and kind.tensor_type.HasField("shape"):
        for dim in kind.tensor_type.shape.dim:
            if dim.HasField("dim_param") and dim.dim_param not in names:
                dim.ClearField("dim_param")
            elif dim.dim_value < 0:
                dim.ClearField("dim_value")
