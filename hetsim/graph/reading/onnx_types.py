"""Conversion of types, attributes and arrays between ONNX, ONNX Runtime and Python."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from hetsim.graph.graph import ITEM_BITS, Tensor

OWN_DOMAINS = frozenset(
    {"", "ai.onnx", "ai.onnx.ml", "ai.onnx.training", "ai.onnx.preview.training", "com.microsoft",
     "com.microsoft.nchwc"}
)  # fmt: skip
"""Domains of operators implemented in ONNX Runtime itself."""

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
    """Return the ONNX element type of a ``Tensor.dtype``; ValueError if there is none."""
    return int(onnx.TensorProto.DataType.Value(_SHORT.get(dtype, dtype).upper()))


def bytes_of(tensor: onnx.TensorProto) -> int:
    """Return the size in bytes of a stored tensor by type and shape, as `Tensor.nbytes`."""
    elements: int = math.prod(tensor.dims)
    return (elements * ITEM_BITS.get(dtype_name(tensor.data_type), 0) + 7) // 8


def without_values(tensor: onnx.TensorProto) -> onnx.TensorProto:
    """Return a tensor of the same name, type and shape without the values that inference skips."""
    light = onnx.TensorProto(name=tensor.name, data_type=tensor.data_type, dims=tensor.dims)
    light.data_location = onnx.TensorProto.EXTERNAL
    light.external_data.add(key="location", value="absent")
    return light


def has_type(kind: onnx.TypeProto) -> bool:
    """Return whether a tensor's element type is known, or the value is not a tensor."""
    which = kind.WhichOneof("value")
    if which in ("tensor_type", "sparse_tensor_type"):
        return bool(getattr(kind, which).elem_type)
    return which is not None


def has_rank(kind: onnx.TypeProto) -> bool:
    """Return whether its rank is known; True for values other than tensors."""
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


def parse_type(text: str, dims: Sequence[int | str | None] | None) -> onnx.TypeProto:
    """Return the type that ONNX Runtime writes as ``seq(tensor(float))``; ValueError for none."""
    match = re.fullmatch(r"\s*(\w+)\((.*)\)\s*", text)
    if match is None:
        raise ValueError(f"unknown type '{text}'")
    outer, inner = match.groups()
    kind = onnx.TypeProto()
    if outer == "tensor":
        return onnx.helper.make_tensor_type_proto(element_type(inner), dims)
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


LARGE_BYTES = 65536
"""Bytes above which a list keeps its stored form: Python needs ten times that."""

_INT, _FLOAT, _STRING, _INTS, _FLOATS, _STRINGS = (
    int(onnx.AttributeProto.AttributeType.Value(name))
    for name in ("INT", "FLOAT", "STRING", "INTS", "FLOATS", "STRINGS")
)
_LISTS = frozenset({_INTS, _FLOATS, _STRINGS})


class Attributes(Mapping[str, object]):
    """Attributes of a node by name, without tensors, graphs and long lists."""

    __slots__ = ("_large", "_small")

    def __init__(self, node: onnx.NodeProto) -> None:
        self._small: dict[str, object] = {}
        self._large: dict[str, onnx.AttributeProto] = {}
        for attribute in node.attribute:
            if is_large(attribute):
                self._large[attribute.name] = attribute
                continue
            value = plain_value(attribute)
            if value is not None:
                self._small[attribute.name] = value

    def __getitem__(self, name: str) -> object:
        if name in self._small:
            return self._small[name]
        return plain_value(self._large[name])

    def large(self, name: str) -> onnx.AttributeProto | None:
        """Return the stored form of a large list attribute of this name, or None."""
        return self._large.get(name)

    def __iter__(self) -> Iterator[str]:
        yield from self._small
        yield from self._large

    def __len__(self) -> int:
        return len(self._small) + len(self._large)

    def __repr__(self) -> str:
        return f"Attributes({self._small!r}, large={sorted(self._large)!r})"


def ints_of(attributes: Mapping[str, object], name: str) -> NDArray[np.int64]:
    """Return integers of a list as an array, without a tuple for a large one; empty if absent."""
    large = attributes.large(name) if isinstance(attributes, Attributes) else None
    if large is None:
        return np.asarray(attributes.get(name, ()), np.int64)
    return np.fromiter(large.ints, np.int64, len(large.ints))


def are(attributes: Mapping[str, object], name: str, wanted: str) -> NDArray[np.bool_]:
    """Return a mask of the texts of a list that are `wanted`, large or not."""
    large = attributes.large(name) if isinstance(attributes, Attributes) else None
    sought = wanted.encode()
    texts: Any = attributes.get(name, ()) if large is None else large.strings
    return np.fromiter((text in (wanted, sought) for text in texts), np.bool_, len(texts))


def is_large(attribute: onnx.AttributeProto) -> bool:
    """Return whether it is a list of numbers or texts that is too large to copy."""
    return attribute.type in _LISTS and (
        max(len(attribute.ints), len(attribute.floats), len(attribute.strings)) * 8 > LARGE_BYTES
    )


def plain_value(attribute: onnx.AttributeProto) -> Any:
    """Return the value of an attribute; None for tensors, graphs and types."""
    kind = attribute.type
    if kind == _INT:
        return attribute.i
    if kind == _FLOAT:
        return attribute.f
    if kind == _STRING:
        return _text(attribute.s)
    if kind == _INTS:
        return tuple(attribute.ints)
    if kind == _FLOATS:
        return tuple(attribute.floats)
    if kind == _STRINGS:
        # Modes of tree nodes are few words, repeated millions of times.
        known: dict[bytes, str] = {}
        return tuple(
            known[text] if text in known else known.setdefault(text, _text(text))
            for text in attribute.strings
        )
    return None


def _text(content: bytes) -> str:
    return content.decode("utf-8", errors="replace")


MOST_DIMS = 64
"""Maximum dimensions of an array in NumPy 2."""


def plain(value: Any) -> Any:
    """Return `value` with every array in it, in lists and mappings too, as ONNX Runtime reads it.

    Arrays of other byte order, unaligned ones and subclasses are converted, strings too.
    """
    if isinstance(value, np.ndarray):
        return _plain_array(value)
    if isinstance(value, list | tuple):
        return type(value)(map(plain, value))
    if isinstance(value, dict):
        return {key: plain(entry) for key, entry in value.items()}
    return value


def _plain_array(array: NDArray[Any]) -> NDArray[Any]:
    if array.dtype.kind in "UT":
        return np.asarray(array).astype(object)
    flags = array.flags
    if type(array) is np.ndarray and array.dtype.isnative and flags.c_contiguous and flags.aligned:
        return array
    wanted = array.dtype.newbyteorder("=")
    return np.require(np.asarray(array), wanted, ["C_CONTIGUOUS", "ALIGNED"])
