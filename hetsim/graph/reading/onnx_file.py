"""An ONNX file from disk: found, parsed, its external weights checked, its digest taken."""

from __future__ import annotations

import hashlib
import math
import os
import shlex
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx

from hetsim.core.files import open_regular, read_most
from hetsim.core.room import check_memory, out_of_room
from hetsim.errors import ModelError, nearest
from hetsim.graph.graph import ITEM_BITS
from hetsim.graph.reading.onnx_types import bytes_of, dtype_name
from hetsim.graph.reading.well_formed import ill_formed

INLINE_BYTES = 8192
"""External tensors up to this size are read at once: shapes, axes and scales steer inference."""

_MEMORY_TAG = "_ORT_MEM_ADDR_"
"""In the locations by which ONNX Runtime, within a process, means an address and no file."""

_PROTOBUF_LIMIT_BYTES = 2**31 - 1
_DEEPEST = 31
"""Bodies within bodies that protobuf reads: each is three messages of at most 100."""

Stored = onnx.TensorProto | onnx.SparseTensorProto


@dataclass(frozen=True, slots=True)
class OnnxFile:
    """A model as it lies on disk.

    Attributes
    ----------
    proto : onnx.ModelProto
        As stored, but small external tensors are inline; large ones are references.
    folder : Path
        Where external data is relative to.
    sha256 : str
        Of the file's bytes; where there is external data, also of each of its files'
        name and size.
    """

    proto: onnx.ModelProto
    folder: Path
    sha256: str


def read_onnx(path: Path) -> OnnxFile:
    """Return the model at `path`, its large weights left on disk.

    Raises
    ------
    ModelError
        Where the file is missing, no ONNX or cut short, or its external data is missing,
        too short, or outside the model's folder.
    """
    content = _read(path)
    try:
        check_memory(2 * len(content))
        proto = onnx.ModelProto.FromString(content)
    except Exception as error:  # protobuf's own type has no stubs, and differs by backend
        raise out_of_room(error, path) or ModelError(
            f"not an ONNX model, or cut short: {len(content)} bytes that cannot be parsed",
            where=str(path),
            hint=f"give a complete .onnx file (binary protobuf), bodies of nodes nested at most "
            f"{_DEEPEST} deep, as ONNX Runtime reads them",
        ) from error
    digest = hashlib.sha256(content)
    del content
    return _checked(proto, digest, path)


def from_memory(proto: onnx.ModelProto, name: str, folder: Path | None) -> OnnxFile:
    """Return a copy of `proto` as if it had been read from `folder`, under `name` in messages.

    Raises
    ------
    ModelError
        Where it is no complete model, larger than 2 GiB, or its external data is not in
        `folder`; None stands for a model that has none.
    """
    try:
        check_memory(4 * inline_bytes(proto))
        content = proto.SerializeToString()
    except Exception as error:  # protobuf's own type depends on its backend
        raise out_of_room(error, name) or ModelError(
            "larger than 2 GiB, which an ONNX file cannot be",
            where=name,
            hint="keep its weights as external data",
        ) from error
    if folder is None and refers_outside(proto):
        raise ModelError(
            "its weights are in files, and it is not said where",
            where=name,
            hint="give the folder that they are in, or load them into the model",
        )
    digest = hashlib.sha256(content)
    del content
    copy = onnx.ModelProto()
    copy.CopyFrom(proto)
    return _checked(copy, digest, (folder or Path()) / (Path(name).name or "model"))


def _checked(proto: onnx.ModelProto, digest: hashlib._Hash, path: Path) -> OnnxFile:
    """Check what a file of that `digest` says, and attach its small external data in place."""
    if not proto.HasField("graph") or not proto.ir_version:
        raise ModelError(
            f"not an ONNX model: it {'holds no graph' if proto.ListFields() else 'is empty'}",
            where=str(path),
            hint="give a complete .onnx file (binary protobuf)",
        )
    if _not_text(proto):
        raise ModelError(
            "not an ONNX model, or damaged: a name in it is no text",
            where=str(path),
            hint="export the model anew",
        )
    if said := ill_formed(proto):
        raise ModelError(
            f"not an ONNX model that can be read: {said}",
            where=str(path),
            hint="export the model anew",
        )
    sizes = _attach_external(proto, path)
    for location, size in sorted(sizes.items()):
        digest.update(f"\0{location}\0{size}".encode())
    return OnnxFile(proto, path.parent, digest.hexdigest())


def tensors_of(graph: onnx.GraphProto) -> Iterator[onnx.TensorProto]:
    """Yield every stored tensor of `graph` and of the bodies in it, attributes included."""
    for stored in _stored(graph):
        yield from _parts(stored)


def refers_outside(proto: onnx.ModelProto) -> bool:
    """Whether any tensor of the model is still external data."""
    return any(
        tensor.data_location == onnx.TensorProto.EXTERNAL
        for stored in _all_stored(proto)
        for tensor in _parts(stored)
    )


def inline_bytes(proto: onnx.ModelProto) -> int:
    """Return about how many bytes the model is: those of its graph's weights that are in it.

    protobuf itself writes the whole of it to tell. O(initializers).
    """
    return sum(
        bytes_of(tensor)
        for tensor in proto.graph.initializer
        if tensor.data_location != onnx.TensorProto.EXTERNAL
    )


def external_bytes(proto: onnx.ModelProto) -> int:
    """Bytes of the weights that the graph of `proto` has in files."""
    return sum(
        bytes_of(tensor)
        for tensor in proto.graph.initializer
        if tensor.data_location == onnx.TensorProto.EXTERNAL
    )


def _all_stored(proto: onnx.ModelProto) -> Iterator[Stored]:
    yield from _stored(proto.graph)
    for function in proto.functions:
        yield from _of_attributes(function.attribute_proto)
        for node in function.node:
            yield from _of_attributes(node.attribute)


def _stored(graph: onnx.GraphProto) -> Iterator[Stored]:
    yield from graph.initializer
    yield from graph.sparse_initializer
    for node in graph.node:
        yield from _of_attributes(node.attribute)


def _of_attributes(attributes: Iterable[onnx.AttributeProto]) -> Iterator[Stored]:
    for attribute in attributes:
        if attribute.HasField("t"):
            yield attribute.t
        if attribute.HasField("sparse_tensor"):
            yield attribute.sparse_tensor
        yield from attribute.tensors
        yield from attribute.sparse_tensors
        if attribute.HasField("g"):
            yield from _stored(attribute.g)
        for body in attribute.graphs:
            yield from _stored(body)


def _parts(stored: Stored) -> tuple[onnx.TensorProto, ...]:
    if isinstance(stored, onnx.TensorProto):
        return (stored,)
    return stored.values, stored.indices


def _read(path: Path) -> bytes:
    try:
        if path.is_dir():
            raise ModelError("it is a folder, not a model", where=str(path), hint=_siblings(path))
        with open_regular(path) as stream:
            # Its stated size may be less than what there is to read.
            if os.fstat(stream.fileno()).st_size <= _PROTOBUF_LIMIT_BYTES:
                content = read_most(stream, _PROTOBUF_LIMIT_BYTES + 1)
                if len(content) <= _PROTOBUF_LIMIT_BYTES:
                    return content
        raise ModelError(
            "larger than 2 GiB, which an ONNX file cannot be",
            where=str(path),
            hint="save it with its weights as external data",
        )
    except FileNotFoundError as error:
        raise ModelError("no such file", where=str(path), hint=_siblings(path)) from error
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise out_of_room(error, path) or ModelError(
            f"cannot be read: {reason}", where=str(path), hint="check the path and its permissions"
        ) from error


def _siblings(path: Path) -> str:
    folder = path if path.is_dir() else path.parent
    try:
        models = [entry.name for entry in folder.iterdir() if entry.suffix == ".onnx"]
    except OSError:
        return f"there is no folder {folder!r}"
    return nearest(path.name, models) if models else f"there is no .onnx file in '{folder}'"


def _attach_external(proto: onnx.ModelProto, path: Path) -> dict[str, int]:
    """Check every external reference, read the small ones, those of sparse
    constants too, and return size by location."""
    sizes: dict[str, int] = {}
    small: dict[str, list[tuple[onnx.TensorProto, int, int]]] = {}
    inline_bytes = 0
    found = ((part, stored) for stored in _all_stored(proto) for part in _parts(stored))
    for tensor, stored in found:
        if tensor.data_location != onnx.TensorProto.EXTERNAL:
            continue
        location, offset, length = _reference(tensor, path)
        if location not in sizes:
            sizes[location] = _external_size(location, tensor, path)
        if offset + length > sizes[location]:
            raise ModelError(
                f"external data {location!r} has {sizes[location]} bytes, and tensor "
                f"{tensor.name!r} needs bytes {offset} to {offset + length}",
                where=str(path),
                hint="fetch the weights file anew, it is cut short",
            )
        # ONNX Runtime looks for the parts of sparse ones in the folder that the process is in.
        if length <= INLINE_BYTES or isinstance(stored, onnx.SparseTensorProto):
            small.setdefault(location, []).append((tensor, offset, length))
            inline_bytes += length
        if inline_bytes > _PROTOBUF_LIMIT_BYTES:
            raise ModelError(
                "its sparse and small constants in files are larger than 2 GiB together",
                where=str(path),
                hint="save large weights as dense tensors",
            )
    for location, wanted in small.items():
        try:
            with open_regular(path.parent / location) as file:
                for tensor, offset, length in wanted:
                    file.seek(offset)
                    tensor.raw_data = file.read(length)
                    tensor.ClearField("external_data")
                    tensor.ClearField("data_location")
        except OSError as error:
            raise out_of_room(error, path) or ModelError(
                f"external data {location!r} cannot be read: {error.strerror or error}",
                where=str(path),
                hint="check the file and its permissions",
            ) from error
    return sizes


def _reference(tensor: onnx.TensorProto, path: Path) -> tuple[str, int, int]:
    fields = {entry.key: entry.value for entry in tensor.external_data}
    try:
        nbytes = (math.prod(tensor.dims) * ITEM_BITS[dtype_name(tensor.data_type)] + 7) // 8
        location = fields["location"]
        if not isinstance(location, str):
            raise ValueError("a location must be text")
        offset = int(fields.get("offset") or 0)
        length = int(fields.get("length") or nbytes)
    except (KeyError, ValueError) as error:
        raise ModelError(
            f"the external data reference of tensor {tensor.name!r} is broken: {fields}",
            where=str(path),
            hint="save the model anew with its external data",
        ) from error
    if offset < 0 or length != nbytes:
        raise ModelError(
            f"tensor {tensor.name!r} of shape {tuple(tensor.dims)} needs {nbytes} bytes, "
            f"its external data reference says {length} bytes at offset {offset}",
            where=str(path),
            hint="save the model anew with its external data",
        )
    return location, offset, length


def _external_size(location: str, tensor: onnx.TensorProto, path: Path) -> int:
    folder = path.parent.resolve()
    outside = os.path.isabs(location) or ".." in Path(location).parts
    if _MEMORY_TAG in location:
        raise ModelError(
            f"external data {location!r} of tensor {tensor.name!r} is an address in memory",
            where=str(path),
            hint="save the model anew with its weights in a file",
        )
    try:
        target = (folder / location).resolve()
        if outside or not target.is_relative_to(folder):
            raise ModelError(
                f"external data {location!r} of tensor {tensor.name!r} lies outside the "
                "model's folder",
                where=str(path),
                hint="keep the weights file itself, not a link to it, beside the model",
            )
        if not target.is_file():
            raise ModelError(
                f"external data {location!r} of tensor {tensor.name!r} is missing",
                where=str(path),
                hint="put the weights file beside the model",
            )
        found = target.stat()
    except (OSError, ValueError, RuntimeError) as error:
        raise ModelError(
            f"external data {location!r} of tensor {tensor.name!r} cannot be read: {error}",
            where=str(path),
            hint="check the file and its permissions",
        ) from error
    # As onnx and its checker do: the other name may be any file's of this user.
    if found.st_nlink > 1:
        raise ModelError(
            f"external data {location!r} of tensor {tensor.name!r} has {found.st_nlink} hard "
            "links: it may be a file outside the model's folder under another name",
            where=str(path),
            hint=f"make a copy that has one name: cp {shlex.quote(str(target))} COPY, then "
            f"mv COPY {shlex.quote(str(target))}",
        )
    return found.st_size


def _not_text(message: Any) -> bool:
    """Whether a text field in `message` holds what is no UTF-8; protobuf gives it as bytes."""
    if isinstance(message, onnx.TensorProto):
        # Its other fields are large, and copied when they are looked at.
        return isinstance(message.name, bytes)
    for field, value in message.ListFields():
        if field.type == field.TYPE_STRING:
            values = value if _repeated(value) else (value,)
            if any(isinstance(text, bytes) for text in values):
                return True
        elif field.type == field.TYPE_MESSAGE:
            values = value if _repeated(value) else (value,)
            if any(_not_text(part) for part in values):
                return True
    return False


def _repeated(value: object) -> bool:
    return hasattr(value, "extend")
