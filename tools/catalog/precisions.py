"""What rows say of precision, in one word each."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

ITEM_BYTES: Mapping[str, int] = MappingProxyType(
    {
        "float32": 4,
        "tf32": 4,
        "float": 4,
        "float16": 2,
        "bfloat16": 2,
        "w8a16": 2,
        "int8": 1,
    }
)
"""Bytes of an activation. ``float`` is what the runtime likes best of float32 and float16."""

WEIGHT_BYTES: Mapping[str, int] = MappingProxyType({**ITEM_BYTES, "w8a16": 1})

_EXACT = {
    "w8a8": "int8",
    "w8a16": "w8a16",
    "int8": "int8",
    "uint8": "int8",
    "fp16": "float16",
    "fp32": "float32",
    "tf32": "tf32",
}
_PREFIXES = {
    "float (fp16 on npu)": "float16",
    "float16": "float16",
    "float32": "float32",
    "bfloat16": "bfloat16",
    "fp16 storage": "float",
    "int8 (some 4-bit": "int8",
    "int8 (nvidia code": "int8",
}


def precision_of(told: str) -> str | None:
    """Return the precision that a row's words mean; None where they leave it open or mix two."""
    words = told.lower()
    if words in _EXACT:
        return _EXACT[words]
    return next((mean for start, mean in _PREFIXES.items() if words.startswith(start)), None)
