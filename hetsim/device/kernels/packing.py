"""Tensors of element types that numpy lacks, to and from the bytes that ONNX Runtime holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hetsim.errors import ExecutionError


@dataclass(frozen=True, slots=True)
class ForeignType:
    """An element type known to ONNX Runtime but not to numpy itself."""

    onnx: int
    name: str
    bits: int


FOREIGN_TYPES: Mapping[str, ForeignType] = {
    "tensor(bfloat16)": ForeignType(16, "bfloat16", 16),
    "tensor(float8e4m3fn)": ForeignType(17, "float8_e4m3fn", 8),
    "tensor(float8e4m3fnuz)": ForeignType(18, "float8_e4m3fnuz", 8),
    "tensor(float8e5m2)": ForeignType(19, "float8_e5m2", 8),
    "tensor(float8e5m2fnuz)": ForeignType(20, "float8_e5m2fnuz", 8),
    "tensor(uint4)": ForeignType(21, "uint4", 4),
    "tensor(int4)": ForeignType(22, "int4", 4),
    "tensor(float4e2m1)": ForeignType(23, "float4_e2m1fn", 4),
    "tensor(float8e8m0)": ForeignType(24, "float8_e8m0fnu", 8),
    "tensor(uint2)": ForeignType(25, "uint2", 2),
    "tensor(int2)": ForeignType(26, "int2", 2),
}
"""By the name that ONNX Runtime gives the type of an input or output."""


def dtype_of(kind: ForeignType) -> np.dtype[np.generic]:
    """Return the numpy dtype of `kind`."""
    import ml_dtypes

    dtype: np.dtype[np.generic] = np.dtype(getattr(ml_dtypes, kind.name))
    return dtype


def to_bytes(array: NDArray[np.generic], kind: ForeignType) -> NDArray[np.uint8]:
    """Return the elements of `array` in C order as ONNX packs them."""
    wanted = dtype_of(kind)
    if array.dtype != wanted:
        raise ExecutionError(f"an array of {array.dtype} was given where {wanted} is due")
    flat = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    if kind.bits >= 8:
        return flat
    per_byte = 8 // kind.bits
    padded = np.zeros(-(-flat.size // per_byte) * per_byte, np.uint8)
    padded[: flat.size] = flat & ((1 << kind.bits) - 1)
    packed = np.zeros(padded.size // per_byte, np.uint8)
    for place in range(per_byte):
        packed |= padded[place::per_byte] << (place * kind.bits)
    return packed


def from_bytes(
    data: NDArray[np.uint8], shape: Sequence[int], kind: ForeignType
) -> NDArray[np.generic]:
    """Undo ``to_bytes`` for an array of `shape`. O(elements)."""
    dtype = dtype_of(kind)
    if kind.bits >= 8:
        return data.view(dtype).reshape(shape)
    per_byte = 8 // kind.bits
    count = int(np.prod(shape, dtype=np.int64))
    flat = np.empty(data.size * per_byte, np.uint8)
    for place in range(per_byte):
        flat[place::per_byte] = (data >> (place * kind.bits)) & ((1 << kind.bits) - 1)
    flat = flat[:count]
    if kind.name.startswith("int"):
        # ml_dtypes keeps a signed element sign-extended in its byte.
        sign = np.uint8(1 << (kind.bits - 1))
        flat = (flat ^ sign) - sign
    return flat.view(dtype).reshape(shape)
