"""Whether inputs that a caller gives are those that a model reads."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hetsim.errors import RequestError, nearest
from hetsim.graph.graph import ITEM_BITS, Graph, Tensor

if TYPE_CHECKING:
    from hetsim.graph.model import Model


def check_inputs(model: Model, inputs: Mapping[str, Any]) -> None:
    """Raise RequestError unless `inputs` has what `model` reads; see `check_arrays`."""
    check_arrays(model.graph, inputs, model.source)


def check_arrays(graph: Graph, inputs: Mapping[str, Any], source: str) -> None:
    """Raise RequestError unless `inputs` has what `graph` reads: names, dtypes and shapes.

    A symbolic dimension takes any size, but one size for all inputs that share its name.
    The byte order of an array is free. Of values that are no tensors only the presence is
    checked.
    """
    for name in inputs:
        if name not in graph.inputs:
            raise RequestError(
                f"the model has no input '{name}'",
                where=source,
                hint=nearest(name, graph.inputs),
            )
    missing = [name for name in graph.inputs if name not in inputs]
    if missing:
        raise RequestError(
            f"no value for input '{missing[0]}'",
            where=source,
            hint="give all of: " + ", ".join(graph.inputs),
        )
    sizes: dict[str, tuple[int, str]] = {}
    for name in graph.inputs:
        tensor = graph.tensors[name]
        check_array(tensor, inputs[name], sizes, source)


def check_array(
    tensor: Tensor, array: object, sizes: dict[str, tuple[int, str]], source: str
) -> None:
    """Raise RequestError unless `array` is of the dtype and shape of `tensor`; see `check_arrays`.

    `sizes` has the size of each symbolic dimension that is known, and whose it is; those of
    `array` are added.
    """
    if tensor.dtype not in ITEM_BITS and tensor.dtype != "string":
        return
    where = f"{source}: input '{tensor.name}'"
    if not isinstance(array, np.ndarray):
        raise RequestError(
            f"a {type(array).__name__} is no NumPy array",
            where=where,
            hint=f"give a numpy array of {tensor.dtype}",
        )
    if isinstance(array, np.ma.MaskedArray):
        raise RequestError(
            "it is a masked array, and the model reads every element",
            where=where,
            hint="fill it with .filled(value)",
        )
    if not _same_dtype(array.dtype, tensor.dtype):
        raise RequestError(
            f"its dtype is {array.dtype.name}, and the model reads {tensor.dtype}",
            where=where,
            hint=f"convert it with .astype('{tensor.dtype}')",
        )
    if array.dtype == object:
        odd = [type(entry).__name__ for entry in array.flat if not isinstance(entry, str)]
        if odd:
            raise RequestError(
                f"it holds a {odd[0]}, and the model reads strings",
                where=where,
                hint="make each entry a str",
            )
    if tensor.shape is None:
        return
    if array.ndim != len(tensor.shape):
        raise RequestError(
            f"its shape {array.shape} has {array.ndim} dimensions, and the model reads "
            f"{len(tensor.shape)}: {_shown(tensor.shape)}",
            where=where,
            hint="reshape it",
        )
    for dim, size in zip(tensor.shape, array.shape, strict=True):
        if isinstance(dim, int) and dim != size:
            raise RequestError(
                f"its shape is {array.shape}, and the model reads {_shown(tensor.shape)}",
                where=where,
                hint="give that shape, or load the model with other --dim or --shape values",
            )
        if isinstance(dim, str):
            first, owner = sizes.setdefault(dim, (size, tensor.name))
            if first != size:
                raise RequestError(
                    f"dimension '{dim}' is {size} here and {first} in input '{owner}'",
                    where=where,
                    hint="give both the same size, or, where the file calls two dimensions so, "
                    "load the model with these inputs (--input)",
                )


def _same_dtype(dtype: np.dtype[Any], wanted: str) -> bool:
    if wanted == "string":
        return dtype.kind in "OUT"
    return _name(dtype) == wanted


@functools.lru_cache(maxsize=64)
def _name(dtype: np.dtype[Any]) -> str:
    # ml_dtypes writes float8_e4m3fn where ONNX writes FLOAT8E4M3FN.
    return dtype.name.replace("_", "")


def _shown(shape: Sequence[int | str | None]) -> str:
    return "[" + ", ".join("?" if dim is None else str(dim) for dim in shape) + "]"
