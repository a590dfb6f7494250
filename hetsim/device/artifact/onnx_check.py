"""What the ONNX part of a file must be before ONNX Runtime gets to see it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import onnx

from hetsim.device.artifact.layout import ALIGNMENT, CONTAINER
from hetsim.graph.graph import ITEM_BITS
from hetsim.graph.reading.functions import calls, check_unfolding, key_of
from hetsim.graph.reading.onnx_types import OWN_DOMAINS, dtype_name

FOREIGN_OPS = frozenset(
    {"com.microsoft:EPContext", "com.microsoft:PythonOp", "com.microsoft:PythonOpGrad",
     "com.microsoft:ATen", "com.microsoft:ExternalOp"}
)  # fmt: skip
"""Operators of ONNX Runtime's own domains that open files, or call code from outside it."""

SPARSE_LIMIT_BYTES = 2**31
"""Most bytes of a sparse tensor once it is dense."""

_MODEL_FIELDS = frozenset({"ir_version", "opset_import", "graph", "functions"})
_GRAPH_FIELDS = frozenset(
    {"name", "node", "initializer", "sparse_initializer", "input", "output", "value_info"}
)
_TYPED_FIELDS = ("float_data", "int32_data", "int64_data", "double_data", "uint64_data")
_KEYS = ["location", "offset", "length"]

_Part = onnx.GraphProto | onnx.NodeProto | onnx.AttributeProto


def check_structure(
    proto: onnx.ModelProto, weights_bytes: int, shared_bytes: int | None = None
) -> None:
    """Raise ValueError, saying why, unless the model is one that a file may hold.

    It has no operators but those of ONNX, of ONNX Runtime and of its own functions, which do
    not call themselves and unfold to a bounded number of nodes; every tensor has as many
    bytes as its shape says; and weights lie in the section of `weights_bytes` that comes with
    it, nowhere else; or, where it has none, in a file of `shared_bytes` that several share.
    Nothing in the model is opened, run or inferred.

    Complexity: linear in the model.
    """
    for message, allowed in ((proto, _MODEL_FIELDS), (proto.graph, _GRAPH_FIELDS)):
        other = sorted(field.name for field, _ in message.ListFields() if field.name not in allowed)
        if other:
            raise ValueError(f"it holds '{other[0]}', which hetsim does not write")
    if not proto.ir_version or not proto.opset_import:
        raise ValueError("it states no version")
    _check_texts(proto)
    _check_names(proto.graph)
    _check_calls(proto)
    if shared_bytes is not None and not weights_bytes:
        _check_shared(proto.graph.initializer, shared_bytes)
    else:
        _check_weights(proto.graph.initializer, weights_bytes)
    for place, message in enumerate(_walk([proto.graph, *proto.functions])):
        if isinstance(message, onnx.GraphProto):
            for tensor in message.initializer:
                _check_tensor(tensor, external=place == 0)
            for sparse in message.sparse_initializer:
                _check_sparse(sparse)
        elif isinstance(message, onnx.AttributeProto):
            _check_attribute(message)


def nbytes_of(tensor: onnx.TensorProto) -> int:
    """Return the bytes that the shape and type of `tensor` say, sub-byte types packed.

    0 for strings. Raises ValueError for an unknown type or a negative dimension.
    """
    bits = 0 if tensor.data_type == onnx.TensorProto.STRING else _bits(tensor)
    return (_elements(tensor.dims) * bits + 7) // 8


def tensors_of_model(proto: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    """Yield every stored tensor of a model: of its graph, bodies, functions and attributes."""
    for message in _walk([proto.graph, *proto.functions]):
        if isinstance(message, onnx.GraphProto):
            yield from message.initializer
            for sparse in message.sparse_initializer:
                yield from (sparse.values, sparse.indices)
        elif isinstance(message, onnx.AttributeProto):
            yield from _attribute_tensors(message)
            for sparse in _attribute_sparse(message):
                yield from (sparse.values, sparse.indices)


def _walk(roots: Sequence[_Part | onnx.FunctionProto]) -> Iterator[_Part]:
    """Yield every graph, node and attribute in `roots`, the first root first."""
    pending: list[_Part | onnx.FunctionProto] = list(reversed(roots))
    while pending:
        message = pending.pop()
        if isinstance(message, onnx.FunctionProto):
            pending.extend(message.node)
            pending.extend(message.attribute_proto)
            continue
        yield message
        if isinstance(message, onnx.AttributeProto):
            pending.extend([message.g] if message.HasField("g") else [])
            pending.extend(message.graphs)
        elif isinstance(message, onnx.NodeProto):
            pending.extend(message.attribute)
        else:
            pending.extend(message.node)


def _attribute_tensors(attribute: onnx.AttributeProto) -> list[onnx.TensorProto]:
    return [*([attribute.t] if attribute.HasField("t") else []), *attribute.tensors]


def _attribute_sparse(attribute: onnx.AttributeProto) -> list[onnx.SparseTensorProto]:
    single = [attribute.sparse_tensor] if attribute.HasField("sparse_tensor") else []
    return [*single, *attribute.sparse_tensors]


def _check_names(graph: onnx.GraphProto) -> None:
    inputs = [value.name for value in graph.input]
    stored = [tensor.name for tensor in graph.initializer]
    stored += [sparse.values.name for sparse in graph.sparse_initializer]
    names = [*inputs, *stored]
    if not all(names):
        raise ValueError("an input or a weight has no name")
    if len(set(names)) != len(names):
        raise ValueError("two inputs or weights have one name")


def _check_texts(proto: onnx.ModelProto) -> None:
    """Refuse names that are no UTF-8, which protobuf hands out as bytes."""
    pending: list[Any] = [proto]
    while pending:
        message = pending.pop()
        if isinstance(message, onnx.TensorProto):
            # Its other fields are large, and copied when they are looked at.
            texts = [message.name, *(e.key for e in message.external_data)]
            texts += [e.value for e in message.external_data]
            if not all(isinstance(text, str) for text in texts):
                raise ValueError("a name in it is no text")
            continue
        for field, value in message.ListFields():
            values = value if hasattr(value, "extend") else (value,)
            if field.type == field.TYPE_MESSAGE:
                pending.extend(values)
            elif field.type == field.TYPE_STRING and not all(isinstance(v, str) for v in values):
                raise ValueError("a name in it is no text")


def _check_attribute(attribute: onnx.AttributeProto) -> None:
    for tensor in _attribute_tensors(attribute):
        _check_tensor(tensor, external=False)
    for sparse in _attribute_sparse(attribute):
        _check_sparse(sparse)


def _check_calls(proto: onnx.ModelProto) -> None:
    """Refuse operators from elsewhere, functions that call themselves, and unbounded unfolding."""
    functions = {key_of(function): function for function in proto.functions}
    if len(functions) != len(proto.functions):
        raise ValueError("two functions have one name")
    called = {key: calls(function.node) for key, function in functions.items()}
    main = calls(proto.graph.node)
    for domain, op, overload in dict.fromkeys(
        (*main, *(c for own in called.values() for c in own))
    ):
        if (domain, op, overload) not in functions and (
            domain not in OWN_DOMAINS or f"{domain}:{op}" in FOREIGN_OPS
        ):
            raise ValueError(f"operator {op!r} of domain {domain!r} is none of ONNX Runtime's own")
    check_unfolding(called, main)


def _check_weights(tensors: Iterable[onnx.TensorProto], weights_bytes: int) -> None:
    """Hold the references against the section: each in it, apart or the same, nothing unused."""
    regions: set[tuple[int, int]] = set()
    for tensor in tensors:
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            regions.add(_region(tensor))
    end = 0
    for offset, nbytes in sorted(regions):
        if offset != -(-end // ALIGNMENT) * ALIGNMENT:
            raise ValueError(f"weights at byte {offset} of their section, where none belong")
        end = offset + nbytes
    if end != weights_bytes:
        raise ValueError(f"weights of {end} bytes, and a section of {weights_bytes}")


def _check_shared(tensors: Iterable[onnx.TensorProto], shared_bytes: int) -> None:
    """Hold the references against a file that others refer to as well: each within it."""
    for tensor in tensors:
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            offset, nbytes = _region(tensor)
            if offset % ALIGNMENT or offset + nbytes > shared_bytes:
                raise ValueError(
                    f"weight {tensor.name!r} at byte {offset} of {shared_bytes}, where none belongs"
                )


def _region(tensor: onnx.TensorProto) -> tuple[int, int]:
    if [entry.key for entry in tensor.external_data] != _KEYS:
        raise ValueError(f"the reference of weight {tensor.name!r} is broken")
    location, offset, length = (entry.value for entry in tensor.external_data)
    if location != CONTAINER:
        raise ValueError(f"weight {tensor.name!r} is in {location!r}, outside the file")
    nbytes = nbytes_of(tensor)
    if not (_is_number(offset) and length == str(nbytes)):
        raise ValueError(
            f"weight {tensor.name!r} takes {nbytes} bytes, and its reference says {length!r} at "
            f"{offset!r}"
        )
    return int(offset), nbytes


def _is_number(text: object) -> bool:
    return isinstance(text, str) and text.isascii() and text.isdigit() and len(text) <= 19


def _check_tensor(tensor: onnx.TensorProto, *, external: bool) -> None:
    """Hold the stored bytes against type and shape; `external`: whether it may be a reference."""
    typed = [name for name in _TYPED_FIELDS if len(getattr(tensor, name))]
    held = bool(tensor.raw_data) + bool(tensor.string_data) + len(typed)
    if tensor.HasField("segment"):
        raise ValueError(f"tensor {tensor.name!r} comes in segments")
    if tensor.data_location == onnx.TensorProto.EXTERNAL or tensor.external_data:
        if not external or held or tensor.data_location != onnx.TensorProto.EXTERNAL:
            raise ValueError(f"tensor {tensor.name!r} refers to a file, which it may not")
        return
    elements = _elements(tensor.dims)
    if held > 1:
        raise ValueError(f"tensor {tensor.name!r} is stored twice")
    if tensor.data_type == onnx.TensorProto.STRING:
        fits = len(tensor.string_data) == elements
    elif typed:
        # The types below 32 bits differ in how many elements share an entry: 16 at most.
        stored = len(getattr(tensor, typed[0]))
        fits = _bits(tensor) > 0 and stored <= 2 * elements and elements <= 16 * stored
    else:
        fits = len(tensor.raw_data) == nbytes_of(tensor)
    if not fits:
        raise ValueError(f"tensor {tensor.name!r} has not the bytes that its shape says")


def _check_sparse(sparse: onnx.SparseTensorProto) -> None:
    values, indices = sparse.values, sparse.indices
    for tensor in (values, indices):
        _check_tensor(tensor, external=False)
    dense = _elements(sparse.dims)
    if max(1, _bits(values)) * dense > 8 * SPARSE_LIMIT_BYTES:
        raise ValueError(f"sparse tensor {values.name!r} is of {dense} elements")
    count, rank = _elements(values.dims), len(sparse.dims)
    if len(values.dims) != 1 or list(indices.dims) not in ([count], [count, rank]):
        raise ValueError(f"sparse tensor {values.name!r} has indices for other values")
    if indices.data_type != onnx.TensorProto.INT64:
        raise ValueError(f"sparse tensor {values.name!r} has indices of another type than int64")
    found = onnx.numpy_helper.to_array(indices)
    limit = np.array([dense] if found.ndim == 1 else list(sparse.dims), np.int64)
    if ((found < 0) | (found >= limit)).any():
        raise ValueError(f"sparse tensor {values.name!r} has an index outside its shape")


def _bits(tensor: onnx.TensorProto) -> int:
    name = dtype_name(tensor.data_type)
    if name not in ITEM_BITS:
        raise ValueError(f"tensor {tensor.name!r} is of type {name}")
    return ITEM_BITS[name]


def _elements(dims: Sequence[int]) -> int:
    if any(dim < 0 for dim in dims):
        raise ValueError("a tensor has a negative dimension")
    return math.prod(dims)
