"""What the body of a control-flow node is started with: types of its inputs, turn by turn alike."""

from __future__ import annotations

from collections.abc import Sequence

import onnx

Kinds = Sequence[onnx.TypeProto | None]

_FIRST_SCAN_WITHOUT_BATCH = 9


def body_types(node: onnx.NodeProto, kinds: Kinds, version: int) -> list[onnx.TypeProto | None]:
    """Return the types of the inputs of the body of `node`; None where what it states holds.

    Parameters
    ----------
    kinds : sequence of TypeProto or None
        Of the inputs of the node.
    version : int
        Of the standard operator set.

    A value that is carried on is typed as it starts. A scanned one loses its scanned axis.
    """
    if node.op_type == "Loop":
        scalar = onnx.helper.make_tensor_type_proto
        return [
            scalar(onnx.TensorProto.INT64, []),
            scalar(onnx.TensorProto.BOOL, []),
            *kinds[2:],
        ]
    if node.op_type == "Scan":
        return _scanned(node, kinds, version)
    if node.op_type == "SequenceMap":
        return [_element(kind) for kind in kinds]
    return []


def _scanned(node: onnx.NodeProto, kinds: Kinds, version: int) -> list[onnx.TypeProto | None]:
    stated = {a.name: a for a in node.attribute}
    count = stated["num_scan_inputs"].i
    if version < _FIRST_SCAN_WITHOUT_BATCH:
        values = kinds[1:]
        carried = len(values) - count
        return [
            _without(_without(kind, 0), 0) if place >= carried else _without(kind, 0)
            for place, kind in enumerate(values)
        ]
    carried = len(kinds) - count
    axes = list(stated["scan_input_axes"].ints) if "scan_input_axes" in stated else [0] * count
    return [
        *kinds[:carried],
        *(_without(kind, axis) for kind, axis in zip(kinds[carried:], axes, strict=True)),
    ]


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


def _element(kind: onnx.TypeProto | None) -> onnx.TypeProto | None:
    if kind is None or kind.WhichOneof("value") != "sequence_type":
        return kind
    return kind.sequence_type.elem_type
