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

from hetsim.base.files import open_regular
from hetsim.base.machine import memory_bytes
from hetsim.base.room import out_of_room
from hetsim.base.units import format_bytes
from hetsim.errors import HetsimError, RequestError
from hetsim.graph.reading.arrays import plain

Array = NDArray[Any]
Inputs = Mapping[str, Any] | str | os.PathLike[str]


def arrays_of(inputs: Inputs) -> tuple[dict[str, Any], str]:
    """Return arrays by name, as kernels read them, and what they are called in reports."""
    if isinstance(inputs, Mapping):
        return {name: plain(value) for name, value in inputs.items()}, "the inputs given"
    return read_npz(Path(inputs)), os.fspath(inputs)


def read_npz(path: Path) -> dict[str, Array]:
    """Read the arrays of a ``.npz`` file. Raises RequestError where it is none."""
    where = str(path)
    try:
        with open_regular(path) as stream, zipfile.ZipFile(stream) as packed:
            entries = packed.infolist()
            total = sum(entry.file_size for entry in entries)
            if total > memory_bytes() // 2:
                raise RequestError(
                    f"its arrays take {format_bytes(total)}, more than half of the memory",
                    where=where,
                )
            arrays = {}
            for entry in entries:
                with packed.open(entry) as content:
                    name = entry.filename.removesuffix(".npy")
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


def _unread(error: OSError | MemoryError, where: str) -> HetsimError:
    said = error.strerror if isinstance(error, OSError) else None
    return out_of_room(error, where) or RequestError(f"cannot read: {said or error}", where=where)


def _array(stream: IO[bytes], nbytes: int) -> Array:
    """Read a ``.npy`` file of `nbytes`. Raises ValueError where it says it holds more, or less.

    An array is made as large as it says before any of it is read.
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
        if math.prod(shape) * dtype.itemsize != nbytes - stream.tell():
            raise ValueError("of another size than it says")
        stream.seek(0)
        return np.asarray(np.lib.format.read_array(stream, allow_pickle=False))
