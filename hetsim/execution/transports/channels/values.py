"""Values as they go over a channel: small ones within its messages, large ones in shared memory.

What a value is, is told in bytes; the first says how:

- an array within the message: its type, dims and size; its bytes are in the message's payload;
- an array in shared memory: its type and dims, a segment and an offset;
- strings: dims and text in JSON; a map: its keys and values in JSON; a sequence: how many, and
  each; an empty optional: nothing.
"""

from __future__ import annotations

import functools
import json
import math
import struct
from collections.abc import Callable, Mapping
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from hetsim.errors import ExecutionError
from hetsim.execution.transports.channels.memory import Arena, Place, Segment

INLINE_BELOW_BYTES = 1 << 15
"""Smaller arrays are copied with the message: their room would cost more than the copies."""

_NONE, _LIST, _STRINGS, _INLINE, _SHARED, _MAP = range(6)
_OF_ARRAYS = frozenset((_INLINE, _SHARED))
_ARRAY = "=BBBQQ"
"""How, type, number of dims; bytes within the message, or segment; offset. Dims follow."""

_NDIM_AT = 2
_SOME = struct.Struct("=BI")

_TYPES = tuple(
    np.dtype(kind)
    for kind in (
        "?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16",
        *(getattr(ml_dtypes, name) for name in sorted(ml_dtypes.__all__) if name not in
          ("finfo", "iinfo", "__version__")),
    )
)  # fmt: skip
_CODES = {dtype: code for code, dtype in enumerate(_TYPES)}


class Packed:
    """Values on their way into a message.

    Parameters
    ----------
    arena : Arena
        Takes the large arrays, each copied once.

    Attributes
    ----------
    told, pieces : list of bytes
        What each value is, and what goes into the payload.
    places : list of (Segment, int)
        Where in shared memory they lie.
    """

    def __init__(self, arena: Arena) -> None:
        self.told: list[bytes] = []
        self.pieces: list[bytes] = []
        self.places: list[tuple[Segment, int]] = []
        self._arena = arena

    def add(self, value: Any) -> None:
        """Add a value: an array as ``plain`` leaves it, a map of numbers or strings,
        a list of values, or None.

        Raises ExecutionError where there is no memory, or it is nothing that a model has.
        """
        self.told.append(self._told(value))

    def _told(self, value: Any) -> bytes:
        if value is None:
            return bytes((_NONE,))
        if isinstance(value, list | tuple):
            return _SOME.pack(_LIST, len(value)) + b"".join(map(self._told, value))
        if isinstance(value, dict):
            return _map(value)
        array = np.asarray(value)
        code = _CODES.get(array.dtype)
        if code is None:
            return _strings(array)
        nbytes, shape = array.nbytes, array.shape
        form = _array_form(len(shape))
        if nbytes < INLINE_BELOW_BYTES:
            self.pieces.append(array.tobytes())
            return form.pack(_INLINE, code, len(shape), nbytes, 0, *shape)
        segment, offset = self._arena.take(nbytes)
        self.places.append((segment, offset))
        room = np.frombuffer(segment.map, np.uint8, nbytes, offset).view(array.dtype)
        np.copyto(room.reshape(shape), array)
        return form.pack(_SHARED, code, len(shape), segment.number, offset, *shape)


class Unpacking:
    """Values that are read off a message, one after the other.

    Parameters
    ----------
    told : bytes
    start : int
        Where in `told` the first one begins.
    payload : memoryview
        Bytes of all arrays within the message, in order.
    segments : mapping of int to Segment
    reading : callable, optional
        Is given the memory of each array that lies in a segment, as long as which lives the array
        may be read, and its place. Absent: arrays are copies, else read-only.
    """

    def __init__(
        self,
        told: bytes,
        start: int,
        payload: memoryview,
        segments: Mapping[int, Segment],
        reading: Callable[[NDArray[np.uint8], Place], object] | None = None,
    ) -> None:
        self._told = told
        self._at = start
        self._payload = payload
        self._taken = 0
        self._segments = segments
        self._reading = reading

    def all(self) -> list[Any]:
        """Return the values to the end. Raises ExecutionError where one is not told right."""
        found = []
        try:
            last = len(self._told)
            while self._at < last:
                simple = self._told[self._at] in _OF_ARRAYS
                found.append(self._array() if simple else self._value())
        except (
            ArithmeticError,
            LookupError,
            RecursionError,
            TypeError,
            ValueError,
            struct.error,
        ) as error:
            raise ExecutionError(f"a value was not told right: {error}") from error
        return found

    def _value(self) -> Any:
        how = self._told[self._at]
        if how in _OF_ARRAYS:
            return self._array()
        if how == _NONE:
            self._at += 1
            return None
        _, count = _SOME.unpack_from(self._told, self._at)
        self._at += _SOME.size
        if how == _LIST:
            return [self._value() for _ in range(count)]
        content = json.loads(self._told[self._at : self._at + count])
        self._at += count
        if how == _MAP:
            return dict(content)
        dims, texts = content
        strings = np.empty(len(texts), object)
        strings[:] = texts
        return strings.reshape(dims)

    def _array(self) -> NDArray[Any]:
        form = _array_form(self._told[self._at + _NDIM_AT])
        how, code, _, size, offset, *dims = form.unpack_from(self._told, self._at)
        self._at += form.size
        dtype = _TYPES[code]
        found: NDArray[Any]
        if how == _INLINE:
            found = np.ndarray(dims, dtype, self._payload, self._taken)
            self._taken += size
            if found.nbytes != size:
                raise ValueError(f"{size} bytes for an array of {found.nbytes}")
        else:
            segment = self._segments[size]
            flat = np.frombuffer(segment.map, np.uint8, math.prod(dims) * dtype.itemsize, offset)
            found = flat.view(dtype).reshape(dims)
            if self._reading is not None:
                self._reading(flat, (size, offset))
        return found.copy() if self._reading is None else found


def extent(told: bytes, at: int) -> tuple[int, int, list[Place]]:
    """Return of the value that ``Packed`` told from `at` on: where the next one begins, its bytes
    in the payload, and its places. O(values within it)."""
    how = told[at]
    if how in _OF_ARRAYS:
        form = _array_form(told[at + _NDIM_AT])
        _, _, _, size, offset, *_ = form.unpack_from(told, at)
        end = at + form.size
        return (end, size, []) if how == _INLINE else (end, 0, [(size, offset)])
    if how == _NONE:
        return at + 1, 0, []
    _, count = _SOME.unpack_from(told, at)
    at += _SOME.size
    if how in (_STRINGS, _MAP):
        return at + count, 0, []
    nbytes, places = 0, []
    for _ in range(count):
        at, more, some = extent(told, at)
        nbytes += more
        places += some
    return at, nbytes, places


def _strings(array: NDArray[Any]) -> bytes:
    texts = array.ravel().tolist()
    if array.dtype.kind != "O" or not all(isinstance(text, str) for text in texts):
        raise ExecutionError(f"an array of {array.dtype} cannot be handed to another process")
    content = json.dumps([array.shape, texts]).encode()
    return _SOME.pack(_STRINGS, len(content)) + content


def _map(value: dict[Any, Any]) -> bytes:
    # Python writes a float so that it is read back to the bit.
    items = [
        [one.item() if isinstance(one, np.generic) else one for one in i] for i in value.items()
    ]
    if not all(isinstance(one, int | float | str) for item in items for one in item):
        raise ExecutionError(
            "a map of other than numbers and strings cannot be handed to a process"
        )
    content = json.dumps(items).encode()
    return _SOME.pack(_MAP, len(content)) + content


@functools.cache
def _array_form(ndim: int) -> struct.Struct:
    return struct.Struct(f"{_ARRAY}{ndim}Q")
