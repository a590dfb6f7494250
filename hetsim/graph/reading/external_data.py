"""External data: references of tensors to files, and constants moved from a model to a file."""

from __future__ import annotations

import os
from collections.abc import Collection
from typing import Any, BinaryIO

import onnx

from hetsim.graph.reading.onnx_types import bytes_of

_ALIGNMENT_BYTES = 4096
"""Alignment at which weights can be memory-mapped."""


def refer(tensor: onnx.TensorProto, location: str, offset: int, nbytes: int) -> None:
    """Make a tensor refer to a piece of a file."""
    tensor.data_location = onnx.TensorProto.EXTERNAL
    del tensor.external_data[:]
    for key, value in {"location": location, "offset": offset, "length": nbytes}.items():
        tensor.external_data.add(key=key, value=str(value))


def reference_of(tensor: onnx.TensorProto) -> tuple[str, int]:
    """Return the location of a tensor's file, and its offset there."""
    told = {entry.key: entry.value for entry in tensor.external_data}
    return told["location"], int(told.get("offset") or 0)


def externalise(
    proto: onnx.ModelProto, moved: Collection[int], file: BinaryIO, location: str
) -> tuple[onnx.ModelProto, dict[int, onnx.TensorProto]]:
    """Write the constants at indices `moved` to `file`, page-aligned. Raises OSError.

    Returns a model with references to `location` instead, and the constants by offset.
    """
    light = copy_without(proto, graph=("initializer",))
    kept: dict[int, onnx.TensorProto] = {}
    for position, tensor in enumerate(proto.graph.initializer):
        content = b""
        if position in moved:
            content = tensor.raw_data or onnx.numpy_helper.to_array(tensor).tobytes()
        # ONNX Runtime reports a wrong length.
        if not content or len(content) != bytes_of(tensor):
            light.graph.initializer.append(tensor)
            continue
        reference = light.graph.initializer.add(
            name=tensor.name,
            data_type=tensor.data_type,
            dims=tensor.dims,
            metadata_props=tensor.metadata_props,
        )
        if tensor.doc_string:
            reference.doc_string = tensor.doc_string
        file.seek(-file.tell() % _ALIGNMENT_BYTES, os.SEEK_CUR)
        kept[file.tell()] = tensor
        refer(reference, location, file.tell(), len(content))
        file.write(content)
    return light, kept


def copy_without(proto: onnx.ModelProto, *, graph: Collection[str]) -> onnx.ModelProto:
    """Return a copy without the fields `graph` of the graph."""
    copied = onnx.ModelProto()
    _copy_fields(proto, copied, ("graph",))
    copied.graph.SetInParent()
    _copy_fields(proto.graph, copied.graph, graph)
    return copied


def _copy_fields(source: Any, target: Any, left_out: Collection[str]) -> None:
    for field, value in source.ListFields():
        if field.name in left_out:
            continue
        if hasattr(value, "extend"):
            getattr(target, field.name).extend(value)
        elif field.type == field.TYPE_MESSAGE:
            getattr(target, field.name).CopyFrom(value)
        else:
            setattr(target, field.name, value)
