# mypy: disable-error-code="no-untyped-call,untyped-decorator,override,misc"
"""Records, see ``hetsim.base.records``, in functions that numba compiles.

numba passes a named tuple by value: of forty arrays that is 280 numbers, loaded and stored at
every access and every call, and most of what it takes to compile is spent on them. Machine code
reads from a record's table what it needs. It knows that the table does not change, so what it
read it need not read again.

Loaded with numba alone.
"""

from __future__ import annotations

from typing import Any

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

from hetsim.base.records import Record

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


def _type(key: Any) -> RecordType:
    of, *kinds = key
    fields = [
        types.float64 if kind is float else types.int64 if kind is int
        else types.Array(from_dtype(kind), 1, "C")
        for kind in kinds
    ]  # fmt: skip
    return RecordType(of.__name__, tuple(zip(of._fields, fields, strict=True)))


@typeof_impl.register(Record)
def typeof_record(record: Record, context: Any = None) -> RecordType:
    """Return numba's type of a record."""
    if record.key not in _known:
        _known[record.key] = _type(record.key)
    kind: RecordType = _known[record.key]
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
