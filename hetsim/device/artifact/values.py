"""Inputs and outputs of a compiled subgraph as its file describes them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hetsim.graph.graph import ITEM_BITS

if TYPE_CHECKING:
    import onnx

_DIM_LIMIT = 2**63


@dataclass(frozen=True, slots=True)
class ValueSpec:
    """One input or output.

    Attributes
    ----------
    name : str
    type : str
        Element type, ``float32``; around it ``sequence(...)``, ``optional(...)``,
        ``sparse(...)`` or ``map(int64,...)`` for what is no plain tensor.
    shape : tuple of (int or str or None), or None
        Of a plain tensor, as ``Tensor.shape`` is; None for all else.
    """

    name: str
    type: str
    shape: tuple[int | str | None, ...] | None

    def record(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        shape = None if self.shape is None else list(self.shape)
        return {"name": self.name, "type": self.type, "shape": shape}

    @property
    def nbytes(self) -> int:
        """Size in bytes; 0 where the shape is not known, or the values are no numbers."""
        dims = self.shape
        if dims is None or not all(isinstance(dim, int) for dim in dims):
            return 0
        numbers = [dim for dim in dims if isinstance(dim, int)]
        return (math.prod(numbers) * ITEM_BITS.get(self.type, 0) + 7) // 8

    def __str__(self) -> str:
        if self.shape is None:
            return f"{self.name}: {self.type}"
        dims = ", ".join("?" if dim is None else str(dim) for dim in self.shape)
        return f"{self.name}: {self.type}[{dims}]"


def parse_value(record: object) -> ValueSpec:
    """Undo ``ValueSpec.record``; ValueError where it is no such record."""
    if not isinstance(record, dict) or set(record) != {"name", "type", "shape"}:
        raise ValueError("an input or output needs name, type and shape")
    name, kind, shape = record["name"], record["type"], record["shape"]
    if not (isinstance(name, str) and name and isinstance(kind, str)):
        raise ValueError("the name or type of an input or output is no text")
    if shape is None:
        return ValueSpec(name, kind, None)
    if not isinstance(shape, list) or not all(_is_dim(dim) for dim in shape):
        raise ValueError(f"the shape of '{name}' is none")
    return ValueSpec(name, kind, tuple(shape))


def describe(values: Iterable[onnx.ValueInfoProto]) -> tuple[ValueSpec, ...]:
    """Return inputs or outputs of an ONNX graph as records.

    Raises ValueError where one has no type, an unknown one, or a negative dimension.
    """
    return tuple(_described(value) for value in values)


def first_difference(found: Sequence[ValueSpec], wanted: Sequence[ValueSpec]) -> str | None:
    """Say where two lists of inputs or outputs differ first, or None where they do not."""
    for have, want in zip(found, wanted, strict=False):
        if have != want:
            return f"'{have}', and not '{want}'"
    if len(found) > len(wanted):
        return f"'{found[len(wanted)]}', which is not expected"
    if len(found) < len(wanted):
        return f"no '{wanted[len(found)]}'"
    return None


def _described(value: onnx.ValueInfoProto) -> ValueSpec:
    from hetsim.graph.reading.onnx_types import dtype_name, to_tensor

    kind = value.type
    around: list[str] = []
    while (which := kind.WhichOneof("value")) in ("sequence_type", "optional_type"):
        around.append(str(which).removesuffix("_type"))
        kind = getattr(kind, str(which)).elem_type
    if which == "map_type":
        around.append(f"map({dtype_name(kind.map_type.key_type)},")
        kind = kind.map_type.value_type
        which = kind.WhichOneof("value")
    if which not in ("tensor_type", "sparse_tensor_type"):
        raise ValueError(f"value {value.name!r} has no type that can be stored")
    tensor = getattr(kind, which)
    text = dtype_name(tensor.elem_type)
    if text == "undefined":
        raise ValueError(f"value {value.name!r} has no element type")
    if which == "sparse_tensor_type":
        text = f"sparse({text})"
    plain = which == "tensor_type" and not around
    for outer in reversed(around):
        text = f"{outer}{text})" if outer.startswith("map(") else f"{outer}({text})"
    shape = to_tensor(value.name, kind).shape if plain else None
    if not value.name or not all(_is_dim(dim) for dim in shape or ()):
        raise ValueError(f"value {value.name!r} has no name, or a negative dimension")
    return ValueSpec(value.name, text, shape)


def _is_dim(dim: object) -> bool:
    if isinstance(dim, bool):
        return False
    if isinstance(dim, int):
        return 0 <= dim < _DIM_LIMIT
    return dim is None or (isinstance(dim, str) and bool(dim))
