"""Binding of inputs: open dimensions to sizes, whole inputs to constants.

Dimensions are bound by name, by position, by whole shapes, or all at once. One without a name, or
with a meaningless one (``?``), is a dimension of its own, named by its position: ``input[2]``.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from hetsim.core import checks
from hetsim.errors import HetsimError, RequestError, UsageError, nearest
from hetsim.graph.reading.onnx_types import dtype_name
from hetsim.graph.reading.structure import bodies, replace

ALL = "*"
"""Key of the size for all dimensions that nothing else binds."""

_MOST = 2**63 - 1
"""Maximum size of a dimension in ONNX."""

_PLACE = re.compile(r"(.+)\[(\d+)\]")
_SAYS_NOTHING = frozenset({"none", "null", "nan", "unk", "unknown"})

Array = NDArray[Any]
Place = tuple[str, int]
Dim = onnx.TensorShapeProto.Dimension
Undo = list[tuple[onnx.TypeProto, bytes]]
"""Changed types, and their original content."""


def undo(bound: Undo) -> None:
    """Restore all bound dimensions."""
    for kind, content in bound:
        kind.ParseFromString(content)


def bind(
    graph: onnx.GraphProto,
    dims: Mapping[str, int],
    shapes: Mapping[str, Sequence[int]],
    where: str,
    given: Mapping[str, Sequence[int]] | None = None,
) -> Undo:
    """Bind the open dims of `graph` in place, in the inputs and wherever they recur.

    `dims` has sizes by name of a symbolic dimension of an input, by position (``x[2]``), or ``*``:
    for all that nothing else binds. A size may be 0, except for ``*``: a cache is empty at first.
    `shapes` has whole shapes by input name; they bind the symbolic dims that the file has there.
    `given` has shapes of arrays: if they have two sizes for one name, it stands for two dimensions,
    as arrays are facts.

    Raises UsageError for an unknown name, a size that is no integer >= 0, a shape of another rank
    or with another size than a fixed dimension, or two sizes for one name; RequestError if an array
    of `given` does not fit its input.
    """
    for kind in _types(graph):
        _open_nameless(kind)
    before = [(kind, kind.SerializeToString()) for kind in _types(graph)]
    asked = _RequestedSizes({value.name: value for value in graph.input}, where)
    every: int | None = None
    for name, size in dims.items():
        # Some open dimension is never empty: a picture's height.
        number = _size(size, f"dimension {name!r}", where, least=1 if name == ALL else 0)
        if name == ALL:
            every = number
        else:
            asked.dimension(name, number)
    for name, shape in shapes.items():
        asked.shape(name, shape)
    asked.arrays(given or {})
    if every is not None:
        for place, dim in _open_places(graph):
            if dim.dim_param:
                asked.names.setdefault(dim.dim_param, every)
            else:
                asked.places.setdefault(place, every)
    _apply(graph, asked)
    return [(kind, was) for kind, was in before if kind.SerializeToString() != was]


@dataclass(frozen=True, slots=True)
class RequestBatch:
    """Batch of requests: `size` for the first dimension, now 1, of `names`; and other dims."""

    names: tuple[str, ...]
    size: int
    others: dict[str, int]


def batching_dims(
    graph: onnx.GraphProto, dims: Mapping[str, int], where: str
) -> RequestBatch | None:
    """Return those of `dims` that bind a first dimension of 1 to more; UsageError if unequal."""
    ones = {
        f"{value.name}[0]": value.name
        for value in graph.input
        if [dim.dim_value for dim in value.type.tensor_type.shape.dim[:1]] == [1]
    }
    sizes = {
        key: _size(size, f"dimension {key!r}", where, least=1)
        for key, size in dims.items()
        if key in ones
    }
    if len(set(sizes.values())) > 1:
        told = ", ".join(f"{key!r} to {size}" for key, size in sizes.items())
        raise UsageError(
            f"the requests of one batch are bound to different sizes: {told}",
            where=where,
            hint="give one size",
        )
    if not sizes:
        return None
    [size] = set(sizes.values())
    others = {key: number for key, number in dims.items() if key not in sizes}
    return RequestBatch(tuple(ones[key] for key in sizes), size, others)


def bindable(graph: onnx.GraphProto) -> frozenset[str]:
    """Return the names of symbolic dims that inputs of `graph` still have."""
    return frozenset(dim.dim_param for _, dim in _open_places(graph) if dim.dim_param)


@dataclass(frozen=True, slots=True)
class _RequestedSizes:
    """Requested sizes of the inputs, by name of a dimension, and by position."""

    inputs: Mapping[str, onnx.ValueInfoProto]
    where: str
    names: dict[str, int] = field(default_factory=dict)
    places: dict[Place, int] = field(default_factory=dict)

    def dimension(self, name: str, size: int) -> None:
        """Record the size of one dimension, by name or position."""
        known: dict[str, None] = {}
        params: set[str] = set()
        for value in self.inputs.values():
            for axis, dim in enumerate(value.type.tensor_type.shape.dim):
                place = f"{value.name}[{axis}]"
                if dim.dim_param:
                    params.add(dim.dim_param)
                    known.setdefault(dim.dim_param)
                if not dim.HasField("dim_value") and (not dim.dim_param or place == name):
                    known.setdefault(place)
        match = _PLACE.fullmatch(name)
        if name not in known:
            hint = nearest(name, known) if known else "all dimensions of its inputs are fixed"
            raise UsageError(
                f"no input has a dimension named {name!r}", where=self.where, hint=hint
            )
        if match is not None and match[1] in self.inputs and name not in params:
            self.places[match[1], int(match[2])] = size
        else:
            self.names[name] = size

    def shape(self, name: str, shape: Sequence[int]) -> None:
        """Record the whole shape of one input."""
        if name not in self.inputs:
            raise UsageError(
                f"there is no input named {name!r}",
                where=self.where,
                hint=nearest(name, self.inputs),
            )
        if isinstance(shape, str) or not isinstance(shape, Iterable):
            raise UsageError(
                f"{shape!r} is not a shape for input {name!r}",
                where=self.where,
                hint="give a list of sizes",
            )
        what = f"a size in the shape of input {name!r}"
        wanted = [_size(size, what, self.where) for size in shape]
        place = f"{self.where}: input {name!r}"
        if self.inputs[name].type.WhichOneof("value") != "tensor_type":
            raise UsageError(
                "it is not a tensor and has no shape", where=place, hint="omit its shape"
            )
        tensor = self.inputs[name].type.tensor_type
        _check_fixed(tensor, wanted, place, UsageError, "shape")
        for axis, dim, size, bound in self._open_axes(tensor, name, wanted):
            if bound != size:
                hint = "give one size for each dimension name"
                if dim.dim_param:
                    hint += f", or where the file uses {dim.dim_param!r} for two dimensions, bind "
                    hint += f"each by its position: --dim '{name}[{axis}]={size}'"
                raise UsageError(
                    f"shape {tuple(wanted)} contradicts the model's {_stored(tensor)}: dimension "
                    f"{dim.dim_param or f'{name}[{axis}]'!r} is bound to {bound}",
                    where=place,
                    hint=hint,
                )
            if dim.dim_param and (name, axis) not in self.places:
                self.names[dim.dim_param] = size
            else:
                self.places[name, axis] = size

    def arrays(self, given: Mapping[str, Sequence[int]]) -> None:
        """Record the shapes of arrays; other requested sizes must agree with them."""
        for name, value in self.inputs.items():
            if name not in given or value.type.WhichOneof("value") != "tensor_type":
                continue
            place, tensor = f"{self.where}: input {name!r}", value.type.tensor_type
            _check_fixed(tensor, given[name], place, RequestError, "an array of shape")
            for axis, dim, size, bound in self._open_axes(tensor, name, given[name]):
                if bound != size:
                    raise UsageError(
                        f"dimension {dim.dim_param or f'{name}[{axis}]'!r} is bound to {bound}, "
                        f"and the array given has {size} there",
                        where=place,
                        hint="omit the dimension: arrays bind it",
                    )
                self.places[name, axis] = size

    def _open_axes(
        self, tensor: onnx.TypeProto.Tensor, name: str, shape: Sequence[int]
    ) -> Iterator[tuple[int, Dim, int, int]]:
        """Yield the open axes of input `name`: axis, dim, its size in `shape`, the one bound."""
        if not tensor.HasField("shape"):
            for size in shape:
                tensor.shape.dim.add(dim_value=size)
            tensor.shape.SetInParent()
            return
        for axis, (dim, size) in enumerate(zip(tensor.shape.dim, shape, strict=True)):
            if not dim.HasField("dim_value"):
                bound = self.places.get((name, axis), self.names.get(dim.dim_param, size))
                yield axis, dim, size, bound


def _stored(tensor: onnx.TypeProto.Tensor) -> tuple[int | str, ...]:
    """Return the stated shape, with names and ``?`` where it is open."""
    return tuple(
        dim.dim_value if dim.HasField("dim_value") else dim.dim_param or "?"
        for dim in tensor.shape.dim
    )


def _check_fixed(
    tensor: onnx.TypeProto.Tensor,
    shape: Sequence[int],
    where: str,
    error: type[HetsimError],
    what: str,
) -> None:
    """Raise `error` if the model states another rank or fixed size than `shape`."""
    if not tensor.HasField("shape"):
        return
    stored = _stored(tensor)
    if len(stored) != len(shape):
        raise error(
            f"{what} {tuple(shape)} has {len(shape)} dimensions, but the model's {stored} has "
            f"{len(stored)}",
            where=where,
            hint=f"give {len(stored)} numbers" if stored else "it is a scalar: omit its shape",
        )
    if any(isinstance(old, int) and old != size for old, size in zip(stored, shape, strict=True)):
        raise error(
            f"{what} {tuple(shape)} contradicts the model's {stored}",
            where=where,
            hint="only open dimensions can be bound",
        )


def _apply(graph: onnx.GraphProto, asked: _RequestedSizes) -> None:
    """Write the requested sizes into the types of `graph`."""
    split: dict[str, set[int]] = {}
    open_names: set[str] = set()
    for place, dim in _open_places(graph):
        size = asked.places.get(place)
        if dim.dim_param and size is not None:
            split.setdefault(dim.dim_param, set()).add(size)
        elif dim.dim_param:
            open_names.add(dim.dim_param)
    names = dict(asked.names)
    for name, found in split.items():
        # Bound only by position, and to one size everywhere: the name stands for that size.
        if name not in names and name not in open_names and len(found) == 1:
            names[name] = next(iter(found))
    torn = {name for name, found in split.items() if found != {names.get(name)}}
    for place, dim in _open_places(graph):
        size = asked.places.get(place, names.get(dim.dim_param) if dim.dim_param else None)
        if size is not None:
            dim.dim_value = size
    for value in graph.input:
        if value.type.WhichOneof("value") != "tensor_type":
            _substitute(value.type, names, torn)
    for kind in _types(graph, inputs=False):
        _substitute(kind, names, torn)


def _open_places(graph: onnx.GraphProto) -> Iterator[tuple[Place, Dim]]:
    for value in graph.input:
        if value.type.WhichOneof("value") == "tensor_type":
            for axis, dim in enumerate(value.type.tensor_type.shape.dim):
                if not dim.HasField("dim_value"):
                    yield (value.name, axis), dim


def _size(size: object, what: str, where: str, least: int = 0) -> int:
    try:
        if isinstance(size, bool):
            raise TypeError
        number = operator.index(size)  # type: ignore[arg-type]
    except TypeError:
        number = -1
    if not least <= number <= _MOST:
        raise UsageError(
            f"{what} cannot be {checks.shown(size)}",
            where=where,
            hint=f"use a whole number of {least} or more, and below 2**63",
        )
    return number


def _types(graph: onnx.GraphProto, *, inputs: bool = True) -> Iterator[onnx.TypeProto]:
    """Yield every declared type, including bodies of control-flow nodes."""
    for values in (graph.input if inputs else (), graph.output, graph.value_info):
        for value in values:
            yield value.type
    for node in graph.node:
        for body in bodies(node):
            yield from _types(body)


def _substitute(kind: onnx.TypeProto, bound: Mapping[str, int], torn: set[str]) -> None:
    for tensor in _tensors(kind):
        for dim in tensor.shape.dim:
            if dim.dim_param in torn:
                # It is unknown which of its sizes is meant here.
                dim.ClearField("dim_param")
            elif dim.dim_param in bound:
                dim.dim_value = bound[dim.dim_param]


def _open_nameless(kind: onnx.TypeProto) -> None:
    """Open dimensions that exporters write as -1, or all as the same ``?``."""
    for tensor in _tensors(kind):
        for dim in tensor.shape.dim:
            if dim.dim_value < 0:
                dim.ClearField("dim_value")
            name = dim.dim_param
            if name and (name.lower() in _SAYS_NOTHING or not any(c.isalpha() for c in name)):
                dim.ClearField("dim_param")


def _tensors(kind: onnx.TypeProto) -> Iterator[onnx.TypeProto.Tensor]:
    """Yield the tensor of a type, or that of a sequence's or optional's elements."""
    while (which := kind.WhichOneof("value")) in ("sequence_type", "optional_type"):
        kind = getattr(kind, which).elem_type
    if which == "tensor_type":
        yield kind.tensor_type


def freeze(
    graph: onnx.GraphProto,
    values: Mapping[str, object],
    dims: Mapping[str, int],
    shapes: Mapping[str, Sequence[int]],
    where: str,
) -> dict[str, Array]:
    """Make the inputs `values` of `graph` initializers in place, and return their arrays.

    A single number for a non-scalar input fills its shape, with requested `dims` and `shapes`, and
    1 for open dimensions. Raises UsageError for an unknown input, or one that cannot take the
    value.
    """
    inputs = {value.name: value for value in graph.input}
    frozen: dict[str, Array] = {}
    for name, given in values.items():
        if name not in inputs:
            raise UsageError(
                f"there is no input named {name!r} to freeze",
                where=where,
                hint=nearest(name, inputs) if inputs else "the model has no inputs",
            )
        place = f"{where}: input {name!r}"
        kind = inputs[name].type
        if kind.WhichOneof("value") != "tensor_type":
            raise UsageError(
                "it is not a tensor and cannot be frozen", where=place, hint="give it with each run"
            )
        array = _array(kind.tensor_type.elem_type, given, place)
        frozen[name] = _fitted(kind.tensor_type, array, dims, shapes.get(name), place)
    for name, array in frozen.items():
        tensor = onnx.numpy_helper.from_array(array, name)
        tensor.data_type = inputs[name].type.tensor_type.elem_type
        graph.initializer.append(tensor)
    if frozen:
        replace(graph.input, [value for value in graph.input if value.name not in frozen])
    return frozen


def without_frozen(
    arrays: Mapping[str, Any], frozen: Mapping[str, Array], where: str
) -> dict[str, Any]:
    """Return `arrays` without frozen inputs; RequestError if one has another value."""
    for name in sorted(frozen.keys() & arrays.keys()):
        if not np.array_equal(np.asarray(arrays[name]), frozen[name]):
            raise RequestError(
                f"input '{name}' is frozen to another value",
                where=where,
                hint="remove it from the inputs, or do not freeze it",
            )
    return {name: value for name, value in arrays.items() if name not in frozen}


def _array(element_type: int, given: object, where: str) -> Array:
    if element_type == onnx.TensorProto.STRING:
        texts = np.asarray(given)
        if texts.dtype.kind not in "UTO":
            raise UsageError(f"{given!r} is not text", where=where, hint="freeze it to a string")
        return texts.astype(object)
    wanted = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(element_type))
    try:
        found = np.asarray(given)
        if found.dtype.kind not in "biufcV":
            raise ValueError
        with np.errstate(all="ignore"):
            array = found.astype(wanted)
        if wanted.kind in "biu" and not np.array_equal(array, found):
            raise ValueError
    except (TypeError, ValueError, OverflowError):
        raise UsageError(
            f"{given!r} is not a value of type {dtype_name(element_type)}, which the input reads",
            where=where,
            hint="freeze it to a value of that type",
        ) from None
    return array


def _fitted(
    tensor: onnx.TypeProto.Tensor,
    array: Array,
    dims: Mapping[str, int],
    shape: Sequence[int] | None,
    where: str,
) -> Array:
    if shape is not None:
        sizes: list[int | None] = list(shape)
    elif tensor.HasField("shape"):
        sizes = [
            dim.dim_value
            if dim.HasField("dim_value") and dim.dim_value >= 0
            else dims.get(dim.dim_param, dims.get("*"))
            for dim in tensor.shape.dim
        ]
    else:
        return array
    if array.ndim == 0:
        return np.full([1 if size is None else size for size in sizes], array, array.dtype)
    if len(sizes) != array.ndim or any(
        size is not None and size != found for size, found in zip(sizes, array.shape, strict=True)
    ):
        shown = ", ".join("?" if size is None else str(size) for size in sizes)
        raise UsageError(
            f"a value of shape {array.shape} does not fit its shape [{shown}]",
            where=where,
            hint="give an array of that shape, or one number that fills it",
        )
    return array
