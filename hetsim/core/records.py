# mypy: disable-error-code="no-untyped-call,untyped-decorator,override,misc"
"""Extensions of numba for functions with inlined parts: records, and fewer steps.

A record is a named tuple of arrays, passed as the address of a table. numba passes a named tuple by
value: for forty arrays that is 280 numbers, loaded and stored at every access and every call, and
half of the compile time. Machine code reads from a record's table what it needs, and knows that the
table does not change. A field takes two words: the address and length of an array; or a number's
bits. Fields are arrays of one dimension without gaps, or numbers.

Loaded with numba alone. numba does not promise that these interfaces stay: see ``machine_code``.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from operator import call, getitem, is_, setitem
from typing import Any
from weakref import ref

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.imputils import lower_builtin, lower_getattr_generic
from numba.core.types.functions import BaseFunction
from numba.core.typing.templates import (
    AbstractTemplate,
    AttributeTemplate,
    infer_global,
    signature,
)
from numba.extending import (
    NativeValue,
    infer_getattr,
    models,
    register_model,
    typeof_impl,
    unbox,
)
from numba.np.numpy_support import from_dtype


class NumbaRecord:
    """Named tuple in the layout of machine code, valid while its arrays are held elsewhere.

    `key` identifies the kind of record: the named tuple, and the type of each field. Raises
    TypeError if a field is neither a number nor an array of one dimension without gaps.
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
                    raise TypeError(
                        f"{record._fields[at]} of {type(record).__name__} is not contiguous in "
                        "memory"
                    )
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
        """Return whether it was made of the same arrays, by identity, and equal numbers."""
        return (
            type(record) is self._of
            and all(record[at] == number for at, number in self._numbers)
            and all(map(is_, map(call, self._arrays), map(record.__getitem__, self._fields)))
        )


_pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
_pointer_of.restype, _pointer_of.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
_DATA = 40
"""Offset of the data's address in PyArrayInterface, numpy's protocol for C."""


def address_of(array: Any) -> int:
    """Return the address of an array's data, ten times faster than ``__array_interface__``."""
    interface: Any = _pointer_of(array.__array_struct__, None)
    return ctypes.c_void_p.from_address(interface + _DATA).value or 0


def bits_of(number: float) -> int:
    """Return the bits of a float as an integer."""
    (bits,) = struct.unpack("=q", struct.pack("=d", number))
    return int(bits)


class RecordConverter:
    """Converter of named tuples to records; tables are cached between calls, arrays are not."""

    def __init__(self) -> None:
        self._kept: dict[int, NumbaRecord] = {}

    def given(self, arguments: tuple[Any, ...]) -> list[Any]:
        """Return `arguments` with records in place of named tuples."""
        given = list(arguments)
        for at, one in enumerate(arguments):
            if hasattr(one, "_fields"):
                record = self._kept.get(at)
                if record is None or not record.is_of(one):
                    record = self._kept[at] = NumbaRecord(one)
                given[at] = record
        return given


_known: dict[Any, Any] = {}


class RecordType(types.Type):
    """Type of a record: name and type of each field."""

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
        else Column(from_dtype(kind))
        for kind in kinds
    ]  # fmt: skip
    return RecordType(of.__name__, tuple(zip(of._fields, fields, strict=True)))


@typeof_impl.register(NumbaRecord)
def typeof_record(record: NumbaRecord, context: Any = None) -> RecordType:
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

    if not isinstance(of, Column):
        return read(2 * place, context.get_value_type(of))
    column = cgutils.create_struct_proxy(of)(context, builder)
    column.data = read(2 * place, context.get_data_type(of.dtype).as_pointer())
    column.size = read(2 * place + 1, word)
    return column._getvalue()


class Column(types.Type):
    """Array of a record: an address and a length, instead of numba's seven numbers."""

    def __init__(self, dtype: Any) -> None:
        self.dtype = dtype
        super().__init__(name=f"Column({dtype})")


@register_model(Column)
class _ColumnModel(models.StructModel):
    def __init__(self, manager: Any, kind: Column) -> None:
        members = [("data", types.CPointer(kind.dtype)), ("size", types.intp)]
        super().__init__(manager, kind, members)


@infer_global(getitem)
class _Item(AbstractTemplate):
    def generic(self, args: Any, kws: Any) -> Any:
        if isinstance(args[0], Column) and isinstance(args[1], types.Integer):
            return signature(args[0].dtype, args[0], types.intp)
        return None


@infer_global(setitem)
class _SetItem(AbstractTemplate):
    def generic(self, args: Any, kws: Any) -> Any:
        if isinstance(args[0], Column) and isinstance(args[1], types.Integer):
            return signature(types.none, args[0], types.intp, args[0].dtype)
        return None


@infer_global(len)
class _Length(AbstractTemplate):
    def generic(self, args: Any, kws: Any) -> Any:
        if isinstance(args[0], Column):
            return signature(types.intp, *args)
        return None


def _place(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    """Address of an element; negative indices count from the end."""
    column = cgutils.create_struct_proxy(signature.args[0])(context, builder, value=args[0])
    at = args[1]
    if not isinstance(at, ir.Constant) or at.constant < 0:
        negative = builder.icmp_signed("<", at, ir.Constant(at.type, 0))
        at = builder.select(negative, builder.add(at, column.size), at)
    return builder.gep(column.data, [at])


@lower_builtin(getitem, Column, types.intp)
def _item(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    place = _place(context, builder, signature, args)
    return context.unpack_value(builder, signature.return_type, place)


@lower_builtin(setitem, Column, types.intp, types.Any)
def _set_item(context: Any, builder: Any, signature: Any, args: Any) -> None:
    place = _place(context, builder, signature, args)
    context.pack_value(builder, signature.args[2], args[2], place)


@lower_builtin(len, Column)
def _length(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    return builder.extract_value(args[0], 1)


class _Unoptimised(JITCodeLibrary):
    def _optimize_final_module(self) -> None:
        """Leave the module as it was lowered."""

    def _optimize_functions(self, module: Any) -> None:
        """Leave its functions as they were lowered, too."""
        module.data_layout = self._codegen._data_layout

    def _finalize_final_module(self) -> None:
        """Leave the module to its callers: it is never run on its own, so nothing is emitted."""
        self._finalize_dynamic_globals()
        self._finalized = True


class _Once(JITCodeLibrary):
    def _optimize_functions(self, module: Any) -> None:
        """Leave functions to the passes over the module."""
        module.data_layout = self._codegen._data_layout

    def _optimize_final_module(self) -> None:
        """Optimise once; numba optimises both before and after it removes reference counts."""
        try:
            manager, builder = self._codegen._module_pass_manager()
        except (AttributeError, TypeError):  # numba before 0.62 has other passes
            super()._optimize_final_module()
        else:
            manager.run(self._final_module, builder)


_UNUSED = {
    "WithLifting", "InlineClosureLikes", "RewriteSemanticConstants", "GenericRewrites",
    "RewriteDynamicRaises", "MakeFunctionToJitFunction", "InlineInlinables", "FindLiterallyCalls",
    "LiteralUnroll", "LiteralPropagationSubPipelinePass", "InlineOverloads", "NopythonRewrites",
    "DeadBranchPrune", "DumpParforDiagnostics",
}  # fmt: skip
"""Steps of numba for constructs that these functions do not have."""


_functions: Any = BaseFunction
_type_of_call = _functions.get_call_type


@contextmanager
def _typed_once() -> Iterator[None]:
    """Make numba type its internal functions once per combination of argument types.

    Otherwise it tries every implementation at every call, a dozen for ``getitem``.
    """
    known: dict[Any, Any] = {}

    def get_call_type(function: Any, context: Any, args: Any, kws: Any) -> Any:
        if kws:
            return _type_of_call(function, context, args, kws)
        key = function, context, tuple(args)
        if key not in known:
            known[key] = _type_of_call(function, context, args, kws)
        return known[key]

    _functions.get_call_type = get_call_type
    try:
        yield
    finally:
        _functions.get_call_type = _type_of_call


class InliningCompiler(Compiler):
    """Compiler steps of numba for a function with inlined parts."""

    def define_pipelines(self) -> Any:
        pipelines = super().define_pipelines()
        for pipeline in pipelines:
            pipeline.passes = [one for one in pipeline.passes if one[0].__name__ not in _UNUSED]
            pipeline.finalize()
        return pipelines

    def _compile_bytecode(self) -> Any:
        state = self.state
        state.library = _Once(state.targetctx.codegen(), state.func_id.func_qualname)
        state.library.enable_object_caching()
        with _typed_once():
            return super()._compile_bytecode()


class InlinedCompiler(InliningCompiler):
    """Compiler steps of numba for parts, which their callers optimise and emit.

    Otherwise LLVM would do both once for every level of calls above it.
    """

    def _compile_bytecode(self) -> Any:
        state = self.state
        state.library = _Unoptimised(state.targetctx.codegen(), state.func_id.func_qualname)
        state.flags.no_compile = True
        made = Compiler._compile_bytecode(self)
        # numba looks the code up by a function of C, of which nobody calls this one.
        entry: Any = [].append
        state.targetctx.insert_user_function(entry, made.fndesc, [made.library])
        return made._replace(entry_point=entry)
