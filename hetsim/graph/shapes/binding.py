"""Inputs bound: open dimensions to numbers, and whole inputs to constants."""

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
from hetsim.graph.reading.structure import replace

ALL = "*"
"""Key of the size that every dimension gets which nothing else binds."""

_MOST = 2**63 - 1
"""What ONNX holds of a dimension."""

_PLACE = re.compile(r"(.+)\[(\d+)\]")
_SAYS_NOTHING = frozenset({"none", "null", "nan", "unk", "unknown"})

Place = tuple[str, int]
Dim = onnx.TensorShapeProto.Dimension


@dataclass(slots=True)
class Binding:
    """What was changed in a graph, so that it can be taken back."""

    _dims: list[tuple[Dim, str]] = field(default_factory=list)
    _shapes: list[onnx.TypeProto.Tensor] = field(default_factory=list)

    def set(self, dim: Dim, size: int) -> None:
        """Bind one dimension."""
        self._dims.append((dim, dim.dim_param))
        dim.dim_value = size

    def clear(self, dim: Dim) -> None:
        """Forget the name of one dimension."""
        self._dims.append((dim, dim.dim_param))
        dim.ClearField("dim_param")

    def add_shape(self, tensor: onnx.TypeProto.Tensor, sizes: Sequence[int]) -> None:
        """Give a shape to a tensor that has none."""
        self._shapes.append(tensor)
        for size in sizes:
            tensor.shape.dim.add(dim_value=size)
        tensor.shape.SetInParent()

    def __bool__(self) -> bool:
        """Whether anything was bound."""
        return bool(self._dims or self._shapes)

    def undo(self) -> None:
        """Open again what was bound."""
        for dim, name in reversed(self._dims):
            dim.ClearField("dim_value")
            if name:
                dim.dim_param = name
        for tensor in self._shapes:
            tensor.ClearField("shape")


@dataclass(slots=True)
class _Sizes:
    """What is asked for: sizes by name, and by place."""

    names: dict[str, int] = field(default_factory=dict)
    places: dict[Place, int] = field(default_factory=dict)


def bind(
    graph: onnx.GraphProto,
    dims: Mapping[str, int],
    shapes: Mapping[str, Sequence[int]],
    where: str,
    given: Mapping[str, Sequence[int]] | None = None,
) -> Binding:
    """Replace the open dims of `graph` in place, in the inputs and wherever they recur.

    Parameters
    ----------
    dims : mapping
        Size by name of a symbolic dimension of an input, by place (``x[2]``), or ``*``: of
        every one that nothing else binds. It may be 0, but for ``*``: a cache is empty at first.
    shapes : mapping
        Whole shape by input name; it binds the symbolic dims that the file has there.
    given : mapping, optional
        Shapes of arrays by input name. Where they have two sizes for one name, it stands for
        two dimensions: arrays are facts.

    Raises
    ------
    UsageError
        Where a name does not exist, a size is no whole number of 0 or more, a shape has another
        rank or a fixed dimension of another size, or two sizes are given for one name.
    RequestError
        Where an array of `given` does not fit its input.
    """
    for kind in _types(graph):
        _open_nameless(kind)
    inputs = {value.name: value for value in graph.input}
    binding, sizes = Binding(), _Sizes()
    every: int | None = None
    for name, size in dims.items():
        # Of all that is open some is never empty: a picture's height.
        number = _size(size, f"dimension {name!r}", where, least=1 if name == ALL else 0)
        if name == ALL:
            every = number
        else:
            _ask(inputs, sizes, name, number, where)
    for name, shape in shapes.items():
        _ask_shape(binding, inputs, sizes, name, shape, where)
    if given:
        _take_given(binding, inputs, sizes, given, where)
    if every is not None:
        for place, dim in _open_places(graph):
            if dim.dim_param:
                sizes.names.setdefault(dim.dim_param, every)
            else:
                sizes.places.setdefault(place, every)
    _apply(binding, graph, sizes)
    return binding


@dataclass(frozen=True, slots=True)
class Several:
    """Requests at once that a model of one request at a time is asked to take.

    Attributes
    ----------
    names : tuple of str
        Inputs whose first dimension is 1 in the file, and their number is to be.
    size : int
    others : dict of str to int
        What else is bound.
    """

    names: tuple[str, ...]
    size: int
    others: dict[str, int]


def several(graph: onnx.GraphProto, dims: Mapping[str, int], where: str) -> Several | None:
    """Take those of `dims` that bind a first dimension which is 1 in the file to more.

    Raises UsageError where they are unlike, or no whole numbers of 1 or more.
    """
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
            f"the requests of one batch are bound to unlike numbers: {told}",
            where=where,
            hint="give one size",
        )
    if not sizes:
        return None
    [size] = set(sizes.values())
    others = {key: number for key, number in dims.items() if key not in sizes}
    return Several(tuple(ones[key] for key in sizes), size, others)


def bindable(graph: onnx.GraphProto) -> frozenset[str]:
    """Return the names of symbolic dims that inputs of `graph` still have."""
    return frozenset(dim.dim_param for _, dim in _open_places(graph) if dim.dim_param)


def _ask(
    inputs: Mapping[str, onnx.ValueInfoProto], sizes: _Sizes, name: str, size: int, where: str
) -> None:
    """Take down the size of one dimension, by name or place."""
    known: dict[str, None] = {}
    for value in inputs.values():
        for axis, dim in enumerate(value.type.tensor_type.shape.dim):
            place = f"{value.name}[{axis}]"
            if dim.dim_param:
                known.setdefault(dim.dim_param)
            if not dim.HasField("dim_value") and (not dim.dim_param or place == name):
                known.setdefault(place)
    match = _PLACE.fullmatch(name)
    if name not in known:
        hint = nearest(name, known) if known else "all dimensions of its inputs are fixed"
        raise UsageError(f"no input has a dimension named {name!r}", where=where, hint=hint)
    if match is not None and match[1] in inputs and not _has_param(inputs, name):
        sizes.places[match[1], int(match[2])] = size
    else:
        sizes.names[name] = size


def _has_param(inputs: Mapping[str, onnx.ValueInfoProto], name: str) -> bool:
    return any(
        dim.dim_param == name
        for value in inputs.values()
        for dim in value.type.tensor_type.shape.dim
    )


def _ask_shape(
    binding: Binding,
    inputs: Mapping[str, onnx.ValueInfoProto],
    sizes: _Sizes,
    name: str,
    shape: Sequence[int],
    where: str,
) -> None:
    """Take down the whole shape of one input."""
    if name not in inputs:
        raise UsageError(
            f"there is no input named {name!r}", where=where, hint=nearest(name, inputs)
        )
    if isinstance(shape, str) or not isinstance(shape, Iterable):
        raise UsageError(
            f"{shape!r} is no shape for input {name!r}", where=where, hint="give a list of sizes"
        )
    wanted = [_size(size, f"a size in the shape of input {name!r}", where) for size in shape]
    place = f"{where}: input {name!r}"
    if inputs[name].type.WhichOneof("value") != "tensor_type":
        raise UsageError(
            "it is no tensor and has no shape", where=place, hint="leave its shape away"
        )
    tensor = inputs[name].type.tensor_type
    _check_fixed(tensor, wanted, place, UsageError, "shape")
    for axis, dim, size, bound in _open_axes(binding, sizes, tensor, name, wanted):
        if bound != size:
            raise UsageError(
                f"shape {tuple(wanted)} contradicts the model's {_stored(tensor)}: dimension "
                f"{dim.dim_param or f'{name}[{axis}]'!r} is bound to {bound}",
                where=place,
                hint="give one size for each dimension name"
                + (
                    f", or where the file calls two dimensions {dim.dim_param!r}, bind each by "
                    f"its place: --dim '{name}[{axis}]={size}'"
                    if dim.dim_param
                    else ""
                ),
            )
        if dim.dim_param and (name, axis) not in sizes.places:
            sizes.names[dim.dim_param] = size
        else:
            sizes.places[name, axis] = size


def _take_given(
    binding: Binding,
    inputs: Mapping[str, onnx.ValueInfoProto],
    sizes: _Sizes,
    given: Mapping[str, Sequence[int]],
    where: str,
) -> None:
    """Take down the shapes of arrays; what was asked for otherwise must agree with them."""
    for name, value in inputs.items():
        if name not in given or value.type.WhichOneof("value") != "tensor_type":
            continue
        place, tensor, shape = f"{where}: input {name!r}", value.type.tensor_type, given[name]
        _check_fixed(tensor, shape, place, RequestError, "an array of shape")
        for axis, dim, size, bound in _open_axes(binding, sizes, tensor, name, shape):
            if bound != size:
                raise UsageError(
                    f"dimension {dim.dim_param or f'{name}[{axis}]'!r} is bound to {bound}, and "
                    f"the array given has {size} there",
                    where=place,
                    hint="leave the dimension away: arrays bind it",
                )
            sizes.places[name, axis] = size


def _open_axes(
    binding: Binding,
    sizes: _Sizes,
    tensor: onnx.TypeProto.Tensor,
    name: str,
    shape: Sequence[int],
) -> Iterator[tuple[int, Dim, int, int]]:
    """Yield the open axes of input `name`: axis, its dim, its size in `shape`, and the one bound.

    The last is that of `shape` where nothing else binds it. An input of unknown rank gets
    `shape` as it is, and has none.
    """
    if not tensor.HasField("shape"):
        binding.add_shape(tensor, shape)
        return
    for axis, (dim, size) in enumerate(zip(tensor.shape.dim, shape, strict=True)):
        if not dim.HasField("dim_value"):
            bound = sizes.places.get((name, axis), sizes.names.get(dim.dim_param, size))
            yield axis, dim, size, bound


def _stored(tensor: onnx.TypeProto.Tensor) -> tuple[int | str, ...]:
    """The shape that the model states, names and ``?`` where it is open."""
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
    """Raise `error` where the model states another rank or fixed size than `shape`."""
    if not tensor.HasField("shape"):
        return
    stored = _stored(tensor)
    if len(stored) != len(shape):
        raise error(
            f"{what} {tuple(shape)} has {len(shape)} dimensions, the model's {stored} has "
            f"{len(stored)}",
            where=where,
            hint=f"give {len(stored)} numbers"
            if stored
            else "it is a single number: leave its shape away",
        )
    if any(isinstance(old, int) and old != size for old, size in zip(stored, shape, strict=True)):
        raise error(
            f"{what} {tuple(shape)} contradicts the model's {stored}",
            where=where,
            hint="only open dimensions can be bound",
        )


def _apply(binding: Binding, graph: onnx.GraphProto, sizes: _Sizes) -> None:
    """Write what was asked for into the types of `graph`."""
    split: dict[str, set[int]] = {}
    open_names: set[str] = set()
    for place, dim in _open_places(graph):
        size = sizes.places.get(place)
        if dim.dim_param and size is not None:
            split.setdefault(dim.dim_param, set()).add(size)
        elif dim.dim_param:
            open_names.add(dim.dim_param)
    names = dict(sizes.names)
    for name, found in split.items():
        # Bound by place alone, and to one size everywhere: the name stands for that size.
        if name not in names and name not in open_names and len(found) == 1:
            names[name] = next(iter(found))
    torn = {name for name, found in split.items() if found != {names.get(name)}}
    for place, dim in _open_places(graph):
        size = sizes.places.get(place, names.get(dim.dim_param) if dim.dim_param else None)
        if size is not None:
            binding.set(dim, size)
    agreed = {name: size for name, size in names.items() if name not in torn}
    for value in graph.input:
        if value.type.WhichOneof("value") != "tensor_type":
            _substitute(binding, value.type, agreed, torn)
    for kind in _types(graph, inputs=False):
        _substitute(binding, kind, agreed, torn)


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
            hint=f"give a whole number of {least} or more, and below 2**63",
        )
    return number


def _types(graph: onnx.GraphProto, *, inputs: bool = True) -> Iterator[onnx.TypeProto]:
    """Every declared type, in the bodies of control-flow nodes as well."""
    for values in (graph.input if inputs else (), graph.output, graph.value_info):
        for value in values:
            yield value.type
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from _types(attribute.g)
            for body in attribute.graphs:
                yield from _types(body)


def _substitute(
    binding: Binding, kind: onnx.TypeProto, bound: Mapping[str, int], torn: set[str]
) -> None:
    which = kind.WhichOneof("value")
    if which in ("sequence_type", "optional_type"):
        _substitute(binding, getattr(kind, which).elem_type, bound, torn)
    elif which == "tensor_type" and kind.tensor_type.HasField("shape"):
        for dim in kind.tensor_type.shape.dim:
            if dim.dim_param in bound:
                binding.set(dim, bound[dim.dim_param])
            elif dim.dim_param in torn:
                # Which of its sizes is meant here is not known.
                binding.clear(dim)


def _open_nameless(kind: onnx.TypeProto) -> None:
    """Some exporters write -1 for an open dimension, or the same ``?`` for all of them."""
    which = kind.WhichOneof("value")
    if which in ("sequence_type", "optional_type"):
        _open_nameless(getattr(kind, which).elem_type)
    elif which == "tensor_type":
        for dim in kind.tensor_type.shape.dim:
            if dim.dim_value < 0:
                dim.ClearField("dim_value")
            name = dim.dim_param
            if name and (name.lower() in _SAYS_NOTHING or not any(c.isalpha() for c in name)):
                dim.ClearField("dim_param")


Array = NDArray[Any]


def freeze(
    graph: onnx.GraphProto,
    values: Mapping[str, object],
    dims: Mapping[str, int],
    shapes: Mapping[str, Sequence[int]],
    where: str,
) -> dict[str, Array]:
    """Make the inputs `values` of `graph` initializers in place, and return their arrays.

    A single number for an input that is no scalar fills its shape; `dims` and `shapes`, as
    they are asked for, say how large it is, and what they leave open is 1.

    Raises
    ------
    UsageError
        Where there is no such input, or it cannot take the value.
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
                "it is no tensor and cannot be frozen", where=place, hint="give it with the run"
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
    """Leave out of `arrays` what is frozen.

    Raises RequestError where it has not the value that it is frozen to.
    """
    for name in sorted(frozen.keys() & arrays.keys()):
        if not np.array_equal(np.asarray(arrays[name]), frozen[name]):
            raise RequestError(
                f"input '{name}' is frozen, and another value is given",
                where=where,
                hint="leave it out of the inputs, or do not freeze it",
            )
    return {name: value for name, value in arrays.items() if name not in frozen}


def _array(element_type: int, given: object, where: str) -> Array:
    if element_type == onnx.TensorProto.STRING:
        texts = np.asarray(given)
        if texts.dtype.kind not in "UTO":
            raise UsageError(f"{given!r} is no text", where=where, hint="freeze it to a string")
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
            f"{given!r} is no value of {dtype_name(element_type)}, which it reads",
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
            f"a value of shape {array.shape} is given for its shape [{shown}]",
            where=where,
            hint="give an array of that shape, or one number that fills it",
        )
    return array
