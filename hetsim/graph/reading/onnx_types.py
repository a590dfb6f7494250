"""Types and shapes between ONNX's protobuf, ONNX Runtime's text, and ``Tensor``."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Sequence

import onnx

from hetsim.graph.graph import ITEM_BITS, Tensor

OWN_DOMAINS = frozenset(
    {"", "ai.onnx", "ai.onnx.ml", "ai.onnx.training", "ai.onnx.preview.training", "com.microsoft",
     "com.microsoft.nchwc"}
)  # fmt: skip
"""Domains whose operators come with ONNX Runtime itself."""

_LONG = {"float": "float32", "double": "float64"}
_SHORT = {long: short for short, long in _LONG.items()}


@functools.cache
def dtype_name(element_type: int) -> str:
    """Return ``Tensor.dtype`` of an ONNX element type.

    >>> dtype_name(onnx.TensorProto.FLOAT)
    'float32'
    """
    name = str(onnx.TensorProto.DataType.Name(element_type)).lower()
    return _LONG.get(name, name)


def element_type(dtype: str) -> int:
    """Return the ONNX element type of a ``Tensor.dtype``; ValueError where there is none."""
    return int(onnx.TensorProto.DataType.Value(_SHORT.get(dtype, dtype).upper()))


def bytes_of(tensor: onnx.TensorProto) -> int:
    """Return the bytes of a stored tensor by its type and shape, as `Tensor.nbytes` counts them.

    None of its values is looked at: raw bytes would be copied.
    """
    elements: int = math.prod(tensor.dims)
    return (elements * ITEM_BITS.get(dtype_name(tensor.data_type), 0) + 7) // 8


def without_values(tensor: onnx.TensorProto) -> onnx.TensorProto:
    """Return a tensor of the same name, type and shape, whose values inference does not look at."""
    light = onnx.TensorProto(name=tensor.name, data_type=tensor.data_type, dims=tensor.dims)
    light.data_location = onnx.TensorProto.EXTERNAL
    light.external_data.add(key="location", value="absent")
    return light


def has_type(kind: onnx.TypeProto) -> bool:
    """Whether it says anything: a tensor's element type, or that it is none."""
    which = kind.WhichOneof("value")
    if which in ("tensor_type", "sparse_tensor_type"):
        return bool(getattr(kind, which).elem_type)
    return which is not None


def has_rank(kind: onnx.TypeProto) -> bool:
    """Whether its rank is known; true of values that are not tensors, which have none."""
    if kind.WhichOneof("value") != "tensor_type":
        return has_type(kind)
    tensor = kind.tensor_type
    return bool(tensor.elem_type) and tensor.HasField("shape")


def to_tensor(name: str, kind: onnx.TypeProto) -> Tensor:
    """Return the record of value `name` of type `kind`."""
    which = kind.WhichOneof("value")
    if which != "tensor_type":
        return Tensor(name, str(which).removesuffix("_type"), None)
    tensor = kind.tensor_type
    dims: tuple[int | str | None, ...] | None = None
    if tensor.HasField("shape"):
        dims = tuple(
            dim.dim_value if dim.HasField("dim_value") else dim.dim_param or None
            for dim in tensor.shape.dim
        )
    return Tensor(name, dtype_name(tensor.elem_type), dims)


def tensor_type(dtype: int, dims: Sequence[int | str | None] | None) -> onnx.TypeProto:
    """Return the type of a dense tensor; None for an unknown dimension or rank."""
    kind = onnx.TypeProto()
    kind.tensor_type.elem_type = dtype
    if dims is not None:
        kind.tensor_type.shape.SetInParent()
        for size in dims:
            dim = kind.tensor_type.shape.dim.add()
            if isinstance(size, str):
                dim.dim_param = size
            elif size is not None:
                dim.dim_value = size
    return kind


def parse_type(text: str, dims: Sequence[int | str | None] | None) -> onnx.TypeProto:
    """Return the type that ONNX Runtime writes as `text`, e.g. ``seq(tensor(float))``.

    `dims` belongs to a plain tensor. Raises ValueError where the text is of no known form.
    """
    match = re.fullmatch(r"\s*(\w+)\((.*)\)\s*", text)
    if match is None:
        raise ValueError(f"unknown type '{text}'")
    outer, inner = match.groups()
    kind = onnx.TypeProto()
    if outer == "tensor":
        return tensor_type(element_type(inner), dims)
    if outer == "sparse_tensor":
        kind.sparse_tensor_type.elem_type = element_type(inner)
    elif outer == "seq":
        kind.sequence_type.elem_type.CopyFrom(parse_type(inner, None))
    elif outer == "optional":
        kind.optional_type.elem_type.CopyFrom(parse_type(inner, None))
    elif outer == "map":
        key, _, value = inner.partition(",")
        kind.map_type.key_type = element_type(key.strip())
        held = value if "(" in value else f"tensor({value.strip()})"
        kind.map_type.value_type.CopyFrom(parse_type(held, None))
    else:
        raise ValueError(f"unknown type '{text}'")
    return kind
