"""Inputs that get their value once and for all: constants from then on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from hetsim.errors import RequestError, UsageError, nearest
from hetsim.graph.reading.onnx_types import dtype_name
from hetsim.graph.reading.structure import replace

Array = NDArray[Any]


def freeze(
    graph: onnx.GraphProto,
    values: Mapping[str, object],
    dims: Mapping[str, int],
    shapes: Mapping[str, Sequence[int]],
    where: str,
) -> dict[str, Array]:
    """Make the inputs `values` of `graph` initializers in place, and return their arrays.

    A single number for an input that is no scalar fills its shape; `dims` and `shapes`, as
    they are asked for, say how large it is, and what they leave open is 1.

    Raises
    ------
    UsageError
        Where there is no such input, or it cannot take the value.
    """
    inputs = {value.name: value for value in graph.input}
    frozen: dict[str, Array] = {}
    for name, given in values.items():
        if name not in inputs:
            raise UsageError(
                f"there is no input named {name!r} to freeze",
                where=where,
                hint=nearest(name, inputs) if inputs else "the model has no inputs",
            )
        place = f"{where}: input {name!r}"
        kind = inputs[name].type
        if kind.WhichOneof("value") != "tensor_type":
            raise UsageError(
                "it is no tensor and cannot be frozen", where=place, hint="give it with the run"
            )
        array = _array(kind.tensor_type.elem_type, given, place)
        frozen[name] = _fitted(kind.tensor_type, array, dims, shapes.get(name), place)
    for name, array in frozen.items():
        tensor = onnx.numpy_helper.from_array(array, name)
        tensor.data_type = inputs[name].type.tensor_type.elem_type
        graph.initializer.append(tensor)
    if frozen:
        replace(graph.input, [value for value in graph.input if value.name not in frozen])
    return frozen


def without_frozen(
    arrays: Mapping[str, Any], frozen: Mapping[str, Array], where: str
) -> dict[str, Any]:
    """Leave out of `arrays` what is frozen.

    Raises RequestError where it has not the value that it is frozen to.
    """
    for name in sorted(frozen.keys() & arrays.keys()):
        if not np.array_equal(np.asarray(arrays[name]), frozen[name]):
            raise RequestError(
                f"input '{name}' is frozen, and another value is given",
                where=where,
                hint="leave it out of the inputs, or do not freeze it",
            )
    return {name: value for name, value in arrays.items() if name not in frozen}


def _array(element_type: int, given: object, where: str) -> Array:
    if element_type == onnx.TensorProto.STRING:
        texts = np.asarray(given)
        if texts.dtype.kind not in "UTO":
            raise UsageError(f"{given!r} is no text", where=where, hint="freeze it to a string")
        return texts.astype(object)
    wanted = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(element_type))
    try:
        found = np.asarray(given)
        if found.dtype.kind not in "biufcV":
            raise ValueError
        with np.errstate(all="ignore"):
            array = found.astype(wanted)
        if wanted.kind in "biu" and not np.array_equal(array, found):
            raise ValueError
    except (TypeError, ValueError, OverflowError):
        raise UsageError(
            f"{given!r} is no value of {dtype_name(element_type)}, which it reads",
            where=where,
            hint="freeze it to a value of that type",
        ) from None
    return array


def _fitted(
    tensor: onnx.TypeProto.Tensor,
    array: Array,
    dims: Mapping[str, int],
    shape: Sequence[int] | None,
    where: str,
) -> Array:
    if shape is not None:
        sizes: list[int | None] = list(shape)
    elif tensor.HasField("shape"):
        sizes = [
            dim.dim_value
            if dim.HasField("dim_value") and dim.dim_value >= 0
            else dims.get(dim.dim_param, dims.get("*"))
            for dim in tensor.shape.dim
        ]
    else:
        return array
    if array.ndim == 0:
        return np.full([1 if size is None else size for size in sizes], array, array.dtype)
    if len(sizes) != array.ndim or any(
        size is not None and size != found for size, found in zip(sizes, array.shape, strict=True)
    ):
        shown = ", ".join("?" if size is None else str(size) for size in sizes)
        raise UsageError(
            f"a value of shape {array.shape} is given for its shape [{shown}]",
            where=where,
            hint="give an array of that shape, or one number that fills it",
        )
    return array
