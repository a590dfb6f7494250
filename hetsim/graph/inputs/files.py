"""Inputs of a model from files: one ``.npz`` for all of them, or one ``.npy`` each."""

from __future__ import annotations

import math
import os
import warnings
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from hetsim.core.files import open_regular
from hetsim.core.machine import memory_bytes
from hetsim.core.room import out_of_room
from hetsim.core.units import format_bytes
from hetsim.errors import HetsimError, RequestError, nearest
from hetsim.graph.graph import Tensor
from hetsim.graph.inputs.check import check_array
from hetsim.graph.reading.arrays import plain

Array = NDArray[Any]
Inputs = Mapping[str, Any] | str | os.PathLike[str]
"""Arrays by name, or the path of a ``.npz`` file that holds them."""


def read_npz(path: Path, stated: Mapping[str, Tensor | None]) -> dict[str, Array]:
    """Arrays of a ``.npz`` file, by name, as kernels read them.

    Names, number, dtypes and shapes are checked before any array is unpacked, and no more is
    unpacked of one than its header states.

    Parameters
    ----------
    stated : mapping of str to Tensor or None
        What the model states of each array that may be in the file; None: nothing.

    Raises
    ------
    RequestError
        Where it is no such file, or an array is not one that the model reads.
    """
    where = str(path)
    try:
        with open_regular(path) as stream, zipfile.ZipFile(stream) as packed:
            entries = _entries(packed, stated, where)
            for name, entry in entries.items():
                with packed.open(entry) as content:
                    _check_header(content, entry.file_size, stated[name], where)
            arrays = {}
            for name, entry in entries.items():
                with packed.open(entry) as content:
                    arrays[name] = plain(_array(content, entry.file_size))
            return arrays
    except RequestError:
        raise
    except (OSError, MemoryError) as error:
        raise _unread(error, where) from error
    except Exception as error:  # what a broken file makes of zipfile and numpy differs by version
        raise RequestError(
            "not a .npz file of plain arrays", where=where, hint="write it with numpy.savez"
        ) from error


def read_npy(path: Path, where: str) -> Array:
    """Read one array. Raises RequestError where the file is missing or holds no plain array."""
    try:
        with open_regular(path) as stream:
            return _array(stream, os.fstat(stream.fileno()).st_size)
    except (OSError, MemoryError) as error:
        raise _unread(error, where) from error
    except Exception as error:  # what a broken file makes of numpy differs by version
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
            raise RequestError(f"input '{name}' is in it twice", where=where)
        # zipfile limits what it unpacks at a time with these alone.
        if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise ValueError("packed in a way that NumPy does not use")
        entries[name] = entry
    total = sum(entry.file_size for entry in entries.values())
    if total > memory_bytes() // 2:
        raise RequestError(
            f"its arrays take {format_bytes(total)}, more than half of the memory", where=where
        )
    return entries


def _check_header(content: IO[bytes], nbytes: int, stated: Tensor | None, where: str) -> None:
    shape, dtype = _header(content, nbytes)
    if stated is not None:
        # An array of that shape without memory of its own.
        check_array(stated, np.broadcast_to(np.empty((), dtype), shape), {}, where)


def _unread(error: OSError | MemoryError, where: str) -> HetsimError:
    said = error.strerror if isinstance(error, OSError) else None
    return out_of_room(error, where) or RequestError(f"cannot read: {said or error}", where=where)


def _array(stream: IO[bytes], nbytes: int) -> Array:
    """Read a ``.npy`` file of `nbytes`; raises as ``_header``."""
    _header(stream, nbytes)
    stream.seek(0)
    return np.asarray(np.lib.format.read_array(stream, allow_pickle=False))


def _header(stream: IO[bytes], nbytes: int) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Shape and dtype of a ``.npy`` file of `nbytes`.

    Raises ValueError where it holds objects, or states more or less than it has: NumPy makes an
    array as large as it states before it reads any of it.
    """
    with warnings.catch_warnings():
        # Of names of types that are no longer used, and of Python 2.
        warnings.simplefilter("ignore")
        version = np.lib.format.read_magic(stream)
        if version == (1, 0):
            shape, _, dtype = np.lib.format.read_array_header_1_0(stream)
        elif version == (2, 0):
            shape, _, dtype = np.lib.format.read_array_header_2_0(stream)
        else:
            raise ValueError("no version of plain arrays")
    if dtype.hasobject:
        raise ValueError("objects")
    if math.prod(shape) * dtype.itemsize != nbytes - stream.tell():
        raise ValueError("of another size than it says")
    return shape, dtype
