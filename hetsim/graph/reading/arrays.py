"""Arrays as a kernel reads them: native, aligned, in one piece."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

MOST_DIMS = 64
"""Of an array of NumPy 2."""


def plain(value: Any) -> Any:
    """Return `value` with every array in it as ONNX Runtime takes memory to be.

    ONNX Runtime's Python interface reads the bytes of an array of the other byte order as if
    they were native. Values stay what they are: an array in the other byte order, unaligned,
    or of a subclass is converted, strings become objects, as ONNX Runtime gives them back.
    What is plain already is returned itself, not copied. Lists, tuples and mappings are
    looked into.
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
