"""Inputs of a model from files: one ``.npz`` for all of them, or one ``.npy`` each."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hetsim.base.files import open_regular
from hetsim.errors import RequestError
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
        with open_regular(path) as stream, np.load(stream, allow_pickle=False) as stored:
            if not isinstance(stored, np.lib.npyio.NpzFile):
                raise ValueError
            return {name: plain(stored[name]) for name in stored.files}
    except OSError as error:
        raise RequestError(f"cannot read: {error.strerror or error}", where=where) from error
    except MemoryError as error:
        raise RequestError("it is larger than the memory", where=where) from error
    except Exception as error:  # what a broken file makes of zipfile and numpy differs by version
        raise RequestError(
            "not a .npz file of plain arrays", where=where, hint="write it with numpy.savez"
        ) from error


def read_npy(path: Path, where: str) -> Array:
    """Read one array. Raises RequestError where the file is missing or holds no plain array."""
    try:
        with open_regular(path) as stream:
            return np.asarray(np.lib.format.read_array(stream, allow_pickle=False))
    except OSError as error:
        raise RequestError(f"cannot read: {error.strerror or error}", where=where) from error
    except MemoryError as error:
        raise RequestError("it is larger than the memory", where=where) from error
    except Exception as error:  # what a broken file makes of numpy differs by version
        raise RequestError(
            "not a .npy file of a plain array", where=where, hint="write it with numpy.save"
        ) from error
