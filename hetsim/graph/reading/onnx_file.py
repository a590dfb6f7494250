"""ONNX file on disk: located, parsed, checked, with its external weights and digest."""

from __future__ import annotations

import hashlib
import math
import os
import shlex
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from io import BufferedReader
from pathlib import Path
from typing import Any

import onnx

from hetsim.core.files import (
    kept_sha256,
    no_such_file,
    open_regular,
    read_most,
    sha256_of,
    siblings,
)
from hetsim.core.room import check_memory, out_of_room
from hetsim.errors import ModelError
from hetsim.graph.graph import ITEM_BITS
from hetsim.graph.reading.lazy_weights import read_apart, read_deferred
from hetsim.graph.reading.onnx_types import MOST_DIMS, bytes_of, dtype_name
from hetsim.graph.reading.structure import FunctionKey, key_of

INLINE_BYTES = 8192
"""Maximum bytes of external tensors read at once: shapes, axes and scales steer inference."""

_MEMORY_TAG = "_ORT_MEM_ADDR_"
"""Location by which ONNX Runtime denotes an address in memory instead of a file."""

_PROTOBUF_LIMIT_BYTES = 2**31 - 1
_DEEPEST = 31
"""Maximum nesting of bodies that protobuf reads: each is three messages of at most 100."""

Stored = onnx.TensorProto | onnx.SparseTensorProto

State = tuple[int, int, int]

_completing = threading.Lock()


@dataclass(frozen=True, slots=True)
class OnnxFile:
    """Parsed ONNX file, small tensors inline, large ones relative to `folder`.

    `apart` is the file itself if its large tensors were left in it (``read_apart``), and `state`
    that of the file: its inode, size, and time of change; `digest` is known if it was read whole.
    """

    proto: onnx.ModelProto
    folder: Path
    digest: str | None
    apart: Path | None = None
    state: State | None = None

    @property
    def sha256(self) -> str:
        """SHA-256 in hex. Raises ModelError if the file has changed since it was read."""
        if self.digest is not None:
            return self.digest
        with self._as_it_was() as file:
            return sha256_of(file)

    def complete(self, proto: onnx.ModelProto) -> None:
        """Read the tensors left in the file into `proto`, the file's model or one derived from it.

        Raises ModelError if the file has changed since.
        """
        if self.apart is not None:
            with _completing, self._as_it_was() as file:
                read_deferred(tensors_of(proto.graph), file)

    @contextmanager
    def _as_it_was(self) -> Iterator[BufferedReader]:
        assert self.apart is not None
        try:
            with open_regular(self.apart) as file:
                if _state(os.fstat(file.fileno())) != self.state:
                    raise OSError("it was changed after it was read")
                yield file
        except (OSError, MemoryError) as error:
            raise out_of_room(error, self.apart) or ModelError(
                f"cannot be read: {error}", where=str(self.apart), hint="read it again"
            ) from error


def read_onnx(path: Path, *, apart: bool = False) -> OnnxFile:
    """Return the model at `path` with large external weights on disk; with `apart` inline ones too.

    Raises ModelError if the file is missing, not ONNX or truncated, or its external data is
    missing, too short, or outside the model's folder.
    """
    if apart and (light := read_apart(path)) is not None:
        proto, held, found = light
        file = _checked(proto, None, path)
        return replace(file, folder=held.parent, apart=held, state=_state(found))
    content, found = _read(path)
    try:
        check_memory(2 * len(content))
        proto = onnx.ModelProto.FromString(content)
    except Exception as error:  # protobuf's own type has no stubs, and differs by backend
        raise out_of_room(error, path) or ModelError(
            f"not an ONNX model, or truncated: {len(content)} bytes that cannot be parsed",
            where=str(path),
            hint="give a complete .onnx file (binary protobuf) whose bodies of nodes are nested "
            f"at most {_DEEPEST} deep, the limit of ONNX Runtime",
        ) from error
    digest = _digest(content, found, proto)
    del content
    return _checked(proto, digest, path)


def _digest(content: bytes, found: os.stat_result, proto: onnx.ModelProto) -> hashlib._Hash | str:
    if refers_outside(proto):
        return hashlib.sha256(content)
    return kept_sha256(found, lambda: hashlib.sha256(content).hexdigest())


def _state(found: os.stat_result) -> State:
    return found.st_ino, found.st_size, found.st_mtime_ns


def from_memory(proto: onnx.ModelProto, name: str, folder: Path | None) -> OnnxFile:
    """Return a copy of `proto` as if it had been read from `folder`, under `name` in messages.

    Raises ModelError for an incomplete model, one above 2 GiB, or external data missing in
    `folder`; None stands for a model without any.
    """
    try:
        check_memory(4 * weight_bytes(proto, external=False))
        content = proto.SerializeToString()
    except Exception as error:  # protobuf's own type depends on its backend
        raise out_of_room(error, name) or ModelError(
            "larger than 2 GiB, the limit of an ONNX file",
            where=name,
            hint="store its weights as external data",
        ) from error
    if folder is None and refers_outside(proto):
        raise ModelError(
            "its weights are in external files, but their folder is not given",
            where=name,
            hint="give the folder of the weights, or load the weights into the model",
        )
    digest = hashlib.sha256(content)
    del content
    copy = onnx.ModelProto()
    copy.CopyFrom(proto)
    return _checked(copy, digest, (folder or Path()) / (Path(name).name or "model"))


def _checked(proto: onnx.ModelProto, digest: hashlib._Hash | str | None, path: Path) -> OnnxFile:
    """Check the content of a file with that `digest`, and attach small external data in place.

    The digest, in hex or None, is that of a file without external data.
    """
    if not proto.HasField("graph") or not proto.ir_version:
        raise ModelError(
            f"not an ONNX model: it {'has no graph' if proto.ListFields() else 'is empty'}",
            where=str(path),
            hint="give a complete .onnx file (binary protobuf)",
        )
    if said := _ill_formed(proto):
        what = ", or damaged" if said == _NO_TEXT else " that can be read"
        raise ModelError(
            f"not an ONNX model{what}: {said}",
            where=str(path),
            hint="export the model again",
        )
    if digest is None or isinstance(digest, str):
        return OnnxFile(proto, path.parent, digest)
    sizes = _attach_external(proto, path)
    for location, size in sorted(sizes.items()):
        digest.update(f"\0{location}\0{size}".encode())
    return OnnxFile(proto, path.parent, digest.hexdigest())


def tensors_of(graph: onnx.GraphProto) -> Iterator[onnx.TensorProto]:
    """Yield every stored tensor of `graph` and its bodies, attributes included."""
    for stored in _stored(graph):
        yield from _parts(stored)


def refers_outside(proto: onnx.ModelProto) -> bool:
    """Return whether any tensor of the model is still external data."""
    return any(True for _ in external_tensors(proto))


def external_tensors(proto: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    """Yield the tensors of `proto`, including bodies and functions, that are in files."""
    for stored in _all_stored(proto):
        for tensor in _parts(stored):
            if tensor.data_location == onnx.TensorProto.EXTERNAL:
                yield tensor


def weight_bytes(proto: onnx.ModelProto, *, external: bool) -> int:
    """Return the bytes of weights in `external` files, or inside `proto`. O(initializers)."""
    location = onnx.TensorProto.EXTERNAL
    stored = proto.graph.initializer
    return sum(bytes_of(one) for one in stored if (one.data_location == location) is external)


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
        for body in (*([attribute.g] if attribute.HasField("g") else ()), *attribute.graphs):
            yield from _stored(body)


def _parts(stored: Stored) -> tuple[onnx.TensorProto, ...]:
    if isinstance(stored, onnx.TensorProto):
        return (stored,)
    return stored.values, stored.indices


def _read(path: Path) -> tuple[bytes, os.stat_result]:
    """Return the content of a file, and its state before reading."""
    try:
        if os.path.isdir(path):
            raise ModelError(
                "it is a folder, not a model", where=str(path), hint=siblings(path, ".onnx")
            )
        with open_regular(path) as stream:
            # Its stated size may be less than its content.
            found = os.fstat(stream.fileno())
            if found.st_size <= _PROTOBUF_LIMIT_BYTES:
                content = read_most(stream, _PROTOBUF_LIMIT_BYTES + 1)
                if len(content) <= _PROTOBUF_LIMIT_BYTES:
                    return content, found
        raise ModelError(
            "larger than 2 GiB, the limit of an ONNX file",
            where=str(path),
            hint="save it with its weights as external data",
        )
    except FileNotFoundError as error:
        raise no_such_file(ModelError, path) from error
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise out_of_room(error, path) or ModelError(
            f"cannot be read: {reason}", where=str(path), hint="check the path and its permissions"
        ) from error


def _attach_external(proto: onnx.ModelProto, path: Path) -> dict[str, int]:
    """Check every external reference, read small and sparse ones; return size by location."""
    sizes: dict[str, int] = {}
    small: dict[str, list[tuple[onnx.TensorProto, int, int]]] = {}
    inlined = 0
    for tensor, stored in ((part, s) for s in _all_stored(proto) for part in _parts(s)):
        if tensor.data_location != onnx.TensorProto.EXTERNAL:
            continue
        location, offset, length = _reference(tensor, path)
        if location not in sizes:
            sizes[location] = _external_size(location, tensor, path)
        if offset + length > sizes[location]:
            raise ModelError(
                f"external data {location!r} has {sizes[location]} bytes, but tensor "
                f"{tensor.name!r} needs bytes {offset} to {offset + length}",
                where=str(path),
                hint="the weights file is truncated: download it again",
            )
        # ONNX Runtime looks for the parts of sparse tensors in the working directory.
        if length <= INLINE_BYTES or isinstance(stored, onnx.SparseTensorProto):
            small.setdefault(location, []).append((tensor, offset, length))
            inlined += length
        if inlined > _PROTOBUF_LIMIT_BYTES:
            raise ModelError(
                "its sparse and small constants in external files exceed 2 GiB together",
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
    anew = "save the model again with its external data"
    try:
        nbytes = (math.prod(tensor.dims) * ITEM_BITS[dtype_name(tensor.data_type)] + 7) // 8
        location = fields["location"]
        if not isinstance(location, str):
            raise ValueError("a location must be a string")
        offset = int(fields.get("offset") or 0)
        length = int(fields.get("length") or nbytes)
    except (KeyError, ValueError) as error:
        what = f"the external data reference of tensor {tensor.name!r} is broken: {fields}"
        raise ModelError(what, where=str(path), hint=anew) from error
    if offset < 0 or length != nbytes:
        raise ModelError(
            f"tensor {tensor.name!r} of shape {tuple(tensor.dims)} needs {nbytes} bytes, "
            f"its external data reference says {length} bytes at offset {offset}",
            where=str(path),
            hint=anew,
        )
    return location, offset, length


def _external_size(location: str, tensor: onnx.TensorProto, path: Path) -> int:
    def refused(what: str, hint: str) -> ModelError:
        said = f"external data {location!r} of tensor {tensor.name!r} {what}"
        return ModelError(said, where=str(path), hint=hint)

    folder = path.parent.resolve()
    if _MEMORY_TAG in location:
        raise refused("is an address in memory", "save the model again with its weights in a file")
    try:
        target = (folder / location).resolve()
        named_outside = os.path.isabs(location) or ".." in Path(location).parts
        if named_outside or not target.is_relative_to(folder):
            raise refused(
                "is outside the model's folder",
                "put the weights file itself, not a link to it, beside the model",
            )
        if not target.is_file():
            raise refused("is missing", "put the weights file beside the model")
        found = target.stat()
    except (OSError, ValueError, RuntimeError) as error:
        raise refused(f"cannot be read: {error}", "check the file and its permissions") from error
    # As onnx and its checker do: another hard link may be any file of this user.
    if found.st_nlink > 1:
        name = shlex.quote(str(target))
        raise refused(
            f"has {found.st_nlink} hard links: it may be a file outside the model's folder under "
            "another name",
            f"make a copy that has one name: cp {name} COPY, then mv COPY {name}",
        )
    return found.st_size


_NO_TEXT = "a name in it is not text"
_KINDS = frozenset(onnx.TensorProto.DataType.values()) - {onnx.TensorProto.UNDEFINED}

_TENSOR_TYPES = (onnx.TypeProto.Tensor, onnx.TypeProto.SparseTensor)

_CONTENTS = (
    "raw_data", "float_data", "int32_data", "int64_data", "double_data", "uint64_data",
    "string_data",
)  # fmt: skip
_MOST_IN_AN_ENTRY = 8
"""Elements of the smallest types packed in one entry of a typed field."""


def _ill_formed(proto: onnx.ModelProto) -> str:
    """Return what makes the model unreadable for any reader; empty if nothing. O(messages)."""
    functions: dict[FunctionKey, tuple[int, int]] = {}
    for function in proto.functions:
        key = key_of(function)
        if key in functions:
            return f"two functions are named {'::'.join(filter(None, map(str, key)))!r}"
        functions[key] = len(function.input), len(function.output)
    own = _Walk(_versions(proto.opset_import), functions)
    said = own.complaint(proto, "")
    for function in proto.functions:
        said = said or _Walk(_versions(function.opset_import), functions).complaint(function, "")
    return said


def _versions(imports: Iterable[onnx.OperatorSetIdProto]) -> dict[str, int]:
    return {"" if one.domain == "ai.onnx" else one.domain: one.version for one in imports}


@dataclass(frozen=True)
class _Walk:
    """Check of all messages under the same operator set versions, in a model with functions."""

    versions: Mapping[str, int]
    functions: Mapping[FunctionKey, tuple[int, int]]
    least: dict[tuple[str, str], int] = field(default_factory=dict)

    def complaint(self, message: Any, name: str) -> str:
        """Return what is wrong within a message; `name` is that of its value."""
        kind = type(message)
        if kind is onnx.TensorProto:
            # Its other fields are large, and copied on access.
            return _of_tensor(message)
        said = ""
        if kind is onnx.NodeProto:
            said = self._of_node(message)
        elif kind in (onnx.ValueInfoProto, onnx.AttributeProto):
            name = message.name
        elif kind is onnx.GraphProto:
            said = _of_names(message)
        elif kind is onnx.TypeProto.Map and message.key_type and message.key_type not in _KINDS:
            said = f"value {name!r} has keys of type {message.key_type}, which there is not"
        elif kind in _TENSOR_TYPES and message.elem_type and message.elem_type not in _KINDS:
            said = f"value {name!r} is of type {message.elem_type}, which there is not"
        for one, value in message.ListFields():
            if said:
                return said
            values = value if hasattr(value, "extend") else (value,)
            if one.type == one.TYPE_STRING and any(isinstance(text, bytes) for text in values):
                return _NO_TEXT
            if one.type == one.TYPE_MESSAGE and one.name != "functions":
                said = next((s for part in values if (s := self.complaint(part, name))), "")
        if (
            not said
            and kind is onnx.SparseTensorProto
            and (message.indices.data_type != onnx.TensorProto.INT64)
        ):
            return f"sparse constant {message.values.name!r} has indices that are not int64"
        return said

    def _of_node(self, node: onnx.NodeProto) -> str:
        domain = "" if node.domain == "ai.onnx" else node.domain
        most = self.functions.get((node.domain, node.op_type, node.overload))
        if most is not None and (len(node.input) > most[0] or len(node.output) > most[1]):
            return (
                f"node {node.name!r} calls function {node.op_type!r} with {len(node.input)} inputs "
                f"and {len(node.output)} outputs, and it has {most[0]} and {most[1]}"
            )
        key = domain, node.op_type
        if (*key, node.overload) in self.functions:
            return ""
        if key not in self.least:
            self.least[key] = 0
            with suppress(onnx.defs.SchemaError, TypeError):
                schema = onnx.defs.get_schema(node.op_type, self.versions.get(domain, 1), domain)
                self.least[key] = schema.min_input
        if len(node.input) >= self.least[key]:
            return ""
        return (
            f"node {node.name!r} ({node.op_type}) has {len(node.input)} inputs, and its operator "
            f"takes at least {self.least[key]}"
        )


def _of_names(graph: onnx.GraphProto) -> str:
    # ONNX Runtime takes the last, other readers the first.
    names = [tensor.name for tensor in graph.initializer]
    names += [sparse.values.name for sparse in graph.sparse_initializer]
    twice = next((name for name, many in Counter(names).items() if many > 1), None)
    return "" if twice is None else f"two constants are named {twice!r}"


def _of_tensor(tensor: onnx.TensorProto) -> str:
    if isinstance(tensor.name, bytes):
        return _NO_TEXT
    if tensor.data_type not in _KINDS:
        return f"constant {tensor.name!r} is of type {tensor.data_type}, which there is not"
    if tensor.HasField("segment"):
        return f"constant {tensor.name!r} is a segment of a tensor, which nothing puts together"
    if any(size < 0 for size in tensor.dims):
        return f"constant {tensor.name!r} has a negative size"
    if len(tensor.dims) > MOST_DIMS:
        return f"constant {tensor.name!r} has {len(tensor.dims)} dimensions, above {MOST_DIMS}"
    # Each access to raw bytes copies them.
    lengths = {name: length for name in _CONTENTS if (length := len(getattr(tensor, name)))}
    if len(lengths) > 1:
        return f"constant {tensor.name!r} is stored twice, in fields of two types"
    if tensor.data_location == onnx.TensorProto.EXTERNAL:
        return ""
    if "raw_data" in lengths:
        needed, held = bytes_of(tensor), lengths["raw_data"]
    else:
        needed, held = math.prod(tensor.dims), _MOST_IN_AN_ENTRY * sum(lengths.values())
    if held < needed:
        return f"constant {tensor.name!r} holds fewer values than its shape has"
    return ""
