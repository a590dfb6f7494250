# mypy: disable-error-code="no-untyped-call,untyped-decorator,override,misc"
"""Named tuples of arrays in machine code, by reference.

numba passes a named tuple by value: of forty arrays that is 280 numbers, loaded and stored at
every access and every call, and most of what it takes to compile is spent on them. Here a record
is the address of a table, two words a field: where an array's data are, and how many; or a
number's bits. Machine code reads from it what it needs. It knows that the table does not change,
so what it read it need not read again.

Loaded with numba alone. Fields are arrays of one dimension without gaps, or numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import ref

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.core.imputils import lower_getattr_generic
from numba.core.typing.templates import AttributeTemplate
from numba.extending import (
    NativeValue,
    infer_getattr,
    models,
    register_model,
    typeof_impl,
    unbox,
)
from numba.np.arrayobj import make_array, populate_array
from numba.np.numpy_support import from_dtype

_KINDS: dict[Any, Any] = {int: types.int64, float: types.float64}
_known: dict[Any, Any] = {}


class RecordType(types.Type):
    """A named tuple by its fields: name and type of each."""

    def __init__(self, name: str, fields: tuple[tuple[str, Any], ...]) -> None:
        self.fields = fields
        shown = ", ".join(f"{field}: {kind}" for field, kind in fields)
        super().__init__(name=f"{name}({shown})")

    @property
    def key(self) -> Any:
        return self.name


class Record:
    """A named tuple as machine code takes it, for as long as its arrays are held elsewhere.

    Raises TypeError where a field is neither a number nor an array of one dimension without gaps.
    """

    __slots__ = ("_ids", "_numbers", "_of", "_watching", "address", "kind", "table")

    def __init__(self, record: Any) -> None:
        table = np.empty((len(record), 2), dtype=np.int64)
        kinds: list[Any] = [type(record)]
        self._of = type(record)
        self._ids = tuple(map(id, record))
        self._numbers: list[tuple[int, Any]] = []
        self._watching: list[Any] = []
        for at, part in enumerate(record):
            if isinstance(part, np.ndarray):
                if part.ndim != 1 or not part.flags.c_contiguous:
                    raise TypeError(f"{record._fields[at]} of {type(record).__name__} has gaps")
                table[at, 0] = part.__array_interface__["data"][0]
                table[at, 1] = len(part)
                kinds.append(part.dtype)
                self._watching.append(ref(part, self._forget))
                continue
            self._numbers.append((at, part))
            if isinstance(part, float):
                table[at].view(np.float64)[0] = part
                kinds.append(float)
            else:
                table[at, 0] = int(part)
                kinds.append(int)
        self.table = table
        self.address = int(table.ctypes.data)
        key = tuple(kinds)
        if key not in _known:
            _known[key] = _type(record, kinds[1:])
        self.kind = _known[key]

    def is_of(self, record: Any) -> bool:
        """Whether it is of a named tuple of the very arrays, and the same numbers."""
        return (
            type(record) is self._of
            and self._ids == tuple(map(id, record))
            and all(record[at] == number for at, number in self._numbers)
        )

    def _forget(self, _: Any) -> None:
        """Be of none any more: an array is gone, and another may have its identity."""
        self._ids = ()


def by_reference(made: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that hands its named tuples to `made` as records.

    Tables are kept from one call to the next, arrays are not.
    """
    kept: dict[int, Record] = {}

    def called(*arguments: Any) -> Any:
        given = list(arguments)
        for at, one in enumerate(arguments):
            if hasattr(one, "_fields"):
                record = kept.get(at)
                if record is None or not record.is_of(one):
                    record = kept[at] = Record(one)
                given[at] = record
        return made(*given)

    called.stats = made.stats  # type: ignore[attr-defined]
    return called


def _type(record: Any, kinds: list[Any]) -> RecordType:
    fields = [
        _KINDS[kind] if kind in _KINDS else types.Array(from_dtype(kind), 1, "C") for kind in kinds
    ]
    return RecordType(type(record).__name__, tuple(zip(record._fields, fields, strict=True)))


@typeof_impl.register(Record)
def _typeof(record: Record, context: Any) -> RecordType:
    kind: RecordType = record.kind
    return kind


register_model(RecordType)(models.OpaqueModel)


@unbox(RecordType)
def _unboxed(kind: RecordType, value: Any, c: Any) -> Any:
    attribute = c.pyapi.object_getattr_string(value, "address")
    address = c.unbox(types.uintp, attribute)
    c.pyapi.decref(attribute)
    pointer = c.builder.inttoptr(address.value, cgutils.voidptr_t)
    return NativeValue(pointer, is_error=address.is_error)


@infer_getattr
class _Fields(AttributeTemplate):
    key = RecordType

    def generic_resolve(self, kind: RecordType, name: str) -> Any:
        return dict(kind.fields).get(name)


@lower_getattr_generic(RecordType)
def _field(context: Any, builder: Any, kind: RecordType, value: Any, name: str) -> Any:
    place = [field for field, _ in kind.fields].index(name)
    of = kind.fields[place][1]
    word = ir.IntType(64)
    table = builder.bitcast(value, word.as_pointer())

    def read(at: int, what: Any) -> Any:
        where = builder.gep(table, [ir.Constant(word, at)])
        found = builder.load(builder.bitcast(where, what.as_pointer()))
        found.set_metadata("invariant.load", builder.module.add_metadata([]))
        return found

    if not isinstance(of, types.Array):
        return read(2 * place, context.get_value_type(of))
    array = make_array(of)(context, builder)
    data_type = context.get_data_type(of.dtype)
    size = context.get_abi_sizeof(data_type)
    populate_array(
        array,
        data=read(2 * place, data_type.as_pointer()),
        shape=(read(2 * place + 1, word),),
        strides=(ir.Constant(word, size),),
        itemsize=ir.Constant(word, size),
        meminfo=None,
    )
    return array._getvalue()
