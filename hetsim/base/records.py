"""Named tuples of arrays as machine code takes them: by the address of a table.

Two words a field: where an array's data are, and how many; or a number's bits. Fields are arrays
of one dimension without gaps, or numbers.
"""

from __future__ import annotations

import ctypes
import struct
from operator import call, is_
from typing import Any
from weakref import ref

import numpy as np


class Record:
    """A named tuple as machine code takes it, for as long as its arrays are held elsewhere.

    `key` tells one kind of record from another: the named tuple, and the type of each field.
    Raises TypeError where a field is neither a number nor an array of one dimension without gaps.
    """

    __slots__ = ("_arrays", "_fields", "_numbers", "_of", "address", "key", "table")

    def __init__(self, record: Any) -> None:
        self._of = type(record)
        self._fields: list[int] = []
        self._arrays: list[Any] = []
        self._numbers: list[tuple[int, Any]] = []
        words: list[int] = []
        kinds: list[Any] = [self._of]
        for at, part in enumerate(record):
            if isinstance(part, np.ndarray):
                if part.ndim != 1 or not part.flags.c_contiguous:
                    raise TypeError(f"{record._fields[at]} of {type(record).__name__} has gaps")
                words += (address_of(part), len(part))
                kinds.append(part.dtype)
                self._fields.append(at)
                # A table that outlives an array is not to keep it, nor to be taken for the next.
                self._arrays.append(ref(part))
                continue
            self._numbers.append((at, part))
            if isinstance(part, float):
                words += (bits_of(part), 0)
                kinds.append(float)
            else:
                words += (int(part), 0)
                kinds.append(int)
        self.table = np.array(words, dtype=np.int64)
        self.address = address_of(self.table)
        self.key = tuple(kinds)

    def is_of(self, record: Any) -> bool:
        """Whether it is of a named tuple of the very arrays, and the same numbers."""
        return (
            type(record) is self._of
            and all(record[at] == number for at, number in self._numbers)
            and all(map(is_, map(call, self._arrays), map(record.__getitem__, self._fields)))
        )


_pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
_pointer_of.restype, _pointer_of.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
_DATA = 40
"""Where PyArrayInterface, numpy's protocol for C, has the address of the data."""


def address_of(array: Any) -> int:
    """Where an array's data are; as ``__array_interface__`` says it, in a tenth of the time."""
    interface: Any = _pointer_of(array.__array_struct__, None)
    return ctypes.c_void_p.from_address(interface + _DATA).value or 0


def bits_of(number: float) -> int:
    """The bits of a number as a whole one."""
    (bits,) = struct.unpack("=q", struct.pack("=d", number))
    return int(bits)


class Records:
    """Hands named tuples on as records; tables are kept from one call to the next, arrays not."""

    def __init__(self) -> None:
        self._kept: dict[int, Record] = {}

    def given(self, arguments: tuple[Any, ...]) -> list[Any]:
        """Return `arguments` with records in place of named tuples."""
        given = list(arguments)
        for at, one in enumerate(arguments):
            if hasattr(one, "_fields"):
                record = self._kept.get(at)
                if record is None or not record.is_of(one):
                    record = self._kept[at] = Record(one)
                given[at] = record
        return given
