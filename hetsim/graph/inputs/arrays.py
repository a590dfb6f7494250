"""Inputs of a model read from ``.npz`` and ``.npy`` files, and checked."""

from __future__ import annotations

import functools
import math
import os
import warnings
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np
import onnx
from numpy.typing import NDArray

from hetsim.core.files import no_such_file, open_regular
from hetsim.core.room import memory_bytes, out_of_room
from hetsim.core.units import format_bytes
from hetsim.errors import HetsimError, RequestError, nearest
from hetsim.graph.graph import ITEM_BITS, Graph, Tensor
from hetsim.graph.reading.onnx_types import plain


def check_arrays(graph: Graph, inputs: Mapping[str, Any], source: str) -> None:
    """Raise RequestError unless `inputs` have the names, dtypes and shapes that `graph` reads."""
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
    """Raise RequestError unless `array` fits `tensor`; its symbolic dimensions join `sizes`."""
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
            "it is a masked array, but the model reads every element",
            where=where,
            hint="fill it with .filled(value)",
        )
    if not _same_dtype(array.dtype, tensor.dtype):
        raise RequestError(
            f"its dtype is {array.dtype.name}, but the model reads {tensor.dtype}",
            where=where,
            hint=f"convert it with .astype('{tensor.dtype}')",
        )
    if array.dtype == object:
        odd = [type(entry).__name__ for entry in array.flat if not isinstance(entry, str)]
        if odd:
            raise RequestError(
                f"it has an entry of type {odd[0]}, but the model reads strings",
                where=where,
                hint="make each entry a str",
            )
    if tensor.shape is None:
        return
    if array.ndim != len(tensor.shape):
        raise RequestError(
            f"its shape {array.shape} has {array.ndim} dimensions, but the model reads "
            f"{len(tensor.shape)}: {_shown(tensor.shape)}",
            where=where,
            hint="reshape it",
        )
    for dim, size in zip(tensor.shape, array.shape, strict=True):
        if isinstance(dim, int) and dim != size:
            raise RequestError(
                f"its shape is {array.shape}, but the model reads {_shown(tensor.shape)}",
                where=where,
                hint="use that shape, or load the model with other --dim or --shape values",
            )
        if isinstance(dim, str):
            first, owner = sizes.setdefault(dim, (size, tensor.name))
            if first != size:
                raise RequestError(
                    f"dimension '{dim}' is {size} here but {first} in input '{owner}'",
                    where=where,
                    hint="give both the same size, or, where the file uses one name for two "
                    "dimensions, load the model with these inputs (--input)",
                )


def _same_dtype(dtype: np.dtype[Any], wanted: str) -> bool:
    if wanted == "string":
        return dtype.kind in "OUT"
    return _name(dtype) == wanted


@functools.lru_cache(maxsize=64)
def _name(dtype: np.dtype[Any]) -> str:
    # ml_dtypes writes float8_e4m3fn for ONNX's FLOAT8E4M3FN.
    return dtype.name.replace("_", "")


def _shown(shape: Sequence[int | str | None]) -> str:
    return "[" + ", ".join("?" if dim is None else str(dim) for dim in shape) + "]"


Array = NDArray[Any]
Inputs = Mapping[str, Any] | str | os.PathLike[str]
"""Arrays by name, or the path of a ``.npz`` file that holds them."""


def read_npz(path: Path, stated: Mapping[str, Tensor | None]) -> dict[str, Array]:
    """Return the arrays of a ``.npz`` file by name, as kernels read them.

    `stated` has the model's tensor for each array that may be in the file; None: unchecked. Names,
    number, dtypes and shapes are checked before any array is unpacked, and no more is unpacked of
    one than its header states. Raises RequestError for another kind of file, or an array that the
    model does not read.
    """
    where = str(path)
    try:
        with open_regular(path) as stream, zipfile.ZipFile(stream) as packed:
            entries = _entries(packed, stated, where)
            for name, entry in entries.items():
                with packed.open(entry) as content:
                    shape, dtype = _header(content, entry.file_size)
                # An array of that shape that uses no memory.
                own = stated[name]
                bare = np.broadcast_to(_told(np.empty((), dtype), own), shape)
                if own is not None:
                    check_array(own, bare, {}, where)
            arrays = {}
            for name, entry in entries.items():
                with packed.open(entry) as content:
                    arrays[name] = plain(_told(_array(content, entry.file_size), stated[name]))
            return arrays
    except RequestError:
        raise
    except (OSError, MemoryError) as error:
        raise _unread(error, where, path) from error
    except Exception as error:  # errors of zipfile and numpy for a broken file differ by version
        raise RequestError(
            "not a .npz file of plain arrays",
            where=where,
            hint="write it with numpy.savez, and texts as an array of dtype str",
        ) from error


def _told(array: Array, stated: Tensor | None) -> Array:
    """Return an array of bfloat16, which NumPy writes as unnamed bytes."""
    if stated is None or stated.dtype != "bfloat16" or array.dtype.str != "|V2":
        return array
    return array.view(onnx.helper.tensor_dtype_to_np_dtype(onnx.TensorProto.BFLOAT16))


def read_npy(path: Path, where: str) -> Array:
    """Read one array. Raises RequestError if the file is missing or holds no plain array."""
    try:
        with open_regular(path) as stream:
            return _array(stream, os.fstat(stream.fileno()).st_size)
    except (OSError, MemoryError) as error:
        raise _unread(error, where, path) from error
    except Exception as error:  # errors of numpy for a broken file differ by version
        raise RequestError(
            "not a .npy file of a plain array", where=where, hint="write it with numpy.save"
        ) from error


def _entries(
    packed: zipfile.ZipFile, stated: Mapping[str, Tensor | None], where: str
) -> dict[str, zipfile.ZipInfo]:
    entries: dict[str, zipfile.ZipInfo] = {}
    for entry in packed.infolist():
        name = entry.filename.removesuffix(".npy")
        if name not in stated:
            raise RequestError(
                f"the model has no input '{name}'", where=where, hint=nearest(name, stated)
            )
        if name in entries:
            raise RequestError(f"input '{name}' appears twice", where=where)
        # zipfile limits unpacking only for reads of given size.
        if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise ValueError("its compression is not one that NumPy writes")
        entries[name] = entry
    total = sum(entry.file_size for entry in entries.values())
    if total > memory_bytes() // 2:
        raise RequestError(
            f"its arrays take {format_bytes(total)}, more than half of the memory", where=where
        )
    return entries


def _unread(error: OSError | MemoryError, where: str, path: Path) -> HetsimError:
    if isinstance(error, FileNotFoundError):
        return no_such_file(RequestError, path, where)
    said = error.strerror if isinstance(error, OSError) else None
    return out_of_room(error, where) or RequestError(f"cannot read: {said or error}", where=where)


def _array(stream: IO[bytes], nbytes: int) -> Array:
    """Return the array of a ``.npy`` file of `nbytes`; raises as ``_header``."""
    _header(stream, nbytes)
    stream.seek(0)
    return np.asarray(np.lib.format.read_array(stream, allow_pickle=False))


def _header(stream: IO[bytes], nbytes: int) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Return shape and dtype of a ``.npy`` file of `nbytes`; ValueError for another size."""
    with warnings.catch_warnings():
        # Warnings about obsolete type names, and Python 2.
        warnings.simplefilter("ignore")
        version = np.lib.format.read_magic(stream)
        if version == (1, 0):
            shape, _, dtype = np.lib.format.read_array_header_1_0(stream)
        elif version == (2, 0):
            shape, _, dtype = np.lib.format.read_array_header_2_0(stream)
        else:
            raise ValueError("unknown version of the .npy format")
    if dtype.hasobject:
        raise ValueError("objects")
    if math.prod(shape) * dtype.itemsize != nbytes - stream.tell():
        raise ValueError("its size differs from the one in its header")
    return shape, dtype
