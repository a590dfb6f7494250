"""The weights of a model where every process of a run maps the same pages of them."""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import onnx

from hetsim.core.cache import ROOM
from hetsim.core.room import out_of_room
from hetsim.errors import ExecutionError
from hetsim.execution.devices.folders import run_folder
from hetsim.graph.graph import ITEM_BITS
from hetsim.graph.reading.onnx_file import tensors_of
from hetsim.graph.reading.onnx_types import bytes_of, dtype_name

if TYPE_CHECKING:
    from hetsim.graph.model import Model

INLINE_BELOW_BYTES = 1024
"""Weights smaller than this stay in the subgraph: ONNX Runtime may need them to infer shapes."""

_ALIGNMENT = 4096


@dataclass(frozen=True, slots=True)
class Extent:
    """A piece of a weights file: the file below the weights folder, and where it lies in it."""

    location: str
    offset: int
    nbytes: int


@contextlib.contextmanager
def staged(model: Model) -> Iterator[Model]:
    """Give `model` with its weights of 1 KiB and more in files, removed at the end.

    Files that the model already refers to are used where they are. Raises ExecutionError where the
    weights cannot be written. O(graph + inline weights).
    """
    large = [tensor for tensor in model.proto.graph.initializer if _is_large(tensor)]
    if not large:
        yield model
        return
    with run_folder() as folder:
        file = folder / "weights.bin"
        try:
            extents = _spill(large, file)
        except OSError as error:
            needed = sum(map(bytes_of, large))
            short = out_of_room(error, file, needed_bytes=needed, hint=ROOM)
            raise short or ExecutionError(
                f"the weights cannot be written: {error.strerror or error}",
                where=str(file),
                hint=ROOM,
            ) from error
        # One folder serves for all external data, and links that lead out of it are refused.
        root = folder
        if model.weights_dir is not None:
            root = Path(os.path.commonpath((folder, model.weights_dir)))
        proto = _referring(model.proto, model.weights_dir, extents, file, root)
        yield replace(model, proto=proto, weights_dir=root)


def extents_of(proto: onnx.ModelProto) -> tuple[Extent, ...]:
    """Return the pieces of weights files that `proto` refers to, ascending, each once."""
    found: set[Extent] = set()
    for tensor in external_tensors(proto):
        fields = {entry.key: entry.value for entry in tensor.external_data}
        offset = int(fields.get("offset") or 0)
        found.add(Extent(fields["location"], offset, bytes_of(tensor)))
    return tuple(sorted(found, key=lambda extent: (extent.location, extent.offset, extent.nbytes)))


def _is_large(tensor: onnx.TensorProto) -> bool:
    bits = ITEM_BITS.get(dtype_name(tensor.data_type), 0)
    if bits < 8 or tensor.data_location == onnx.TensorProto.EXTERNAL:
        return False
    size: int = math.prod(tensor.dims) * bits
    return size >= 8 * INLINE_BELOW_BYTES


def _spill(tensors: Sequence[onnx.TensorProto], file: Path) -> dict[str, tuple[int, int]]:
    """Write the tensors, page-aligned; return (offset, bytes) by name."""
    extents: dict[str, tuple[int, int]] = {}
    with file.open("wb") as stream:
        for tensor in tensors:
            data = tensor.raw_data or onnx.numpy_helper.to_array(tensor).tobytes()
            offset = -(-stream.tell() // _ALIGNMENT) * _ALIGNMENT
            stream.seek(offset)
            stream.write(data)
            extents[tensor.name] = (offset, len(data))
    return extents


def _referring(
    proto: onnx.ModelProto,
    weights_dir: Path | None,
    extents: Mapping[str, tuple[int, int]],
    file: Path,
    root: Path,
) -> onnx.ModelProto:
    """Copy `proto` with the spilled weights as references, and every reference below `root`."""
    copy = onnx.ModelProto()
    _copy_but(proto, copy, "graph")
    _copy_but(proto.graph, copy.graph, "initializer")
    for tensor in proto.graph.initializer:
        if tensor.name not in extents:
            copy.graph.initializer.append(tensor)
    if weights_dir is not None:
        for tensor in external_tensors(copy):
            for entry in tensor.external_data:
                if entry.key == "location":
                    entry.value = (weights_dir / entry.value).relative_to(root).as_posix()
    location = file.relative_to(root).as_posix()
    for tensor in proto.graph.initializer:
        if tensor.name in extents:
            offset, nbytes = extents[tensor.name]
            reference = copy.graph.initializer.add(
                name=tensor.name,
                data_type=tensor.data_type,
                dims=tensor.dims,
                data_location=onnx.TensorProto.EXTERNAL,
            )
            fields = {"location": location, "offset": str(offset), "length": str(nbytes)}
            for key, value in fields.items():
                reference.external_data.add(key=key, value=value)
    return copy


def _copy_but(
    source: onnx.ModelProto | onnx.GraphProto,
    target: onnx.ModelProto | onnx.GraphProto,
    excluded: str,
) -> None:
    for descriptor, value in source.ListFields():
        if descriptor.name == excluded:
            continue
        if not isinstance(value, str | bytes) and hasattr(value, "extend"):
            getattr(target, descriptor.name).extend(value)
        else:
            setattr(target, descriptor.name, value)


def external_tensors(proto: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    """Yield the tensors of `proto`, of bodies and functions too, that are in files."""
    for tensor in _tensors(proto):
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            yield tensor


def _tensors(proto: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    yield from tensors_of(proto.graph)
    for function in proto.functions:
        for attribute in (a for node in function.node for a in node.attribute):
            if attribute.HasField("t"):
                yield attribute.t
            yield from attribute.tensors
            for body in (*attribute.graphs, *([attribute.g] if attribute.HasField("g") else ())):
                yield from tensors_of(body)
