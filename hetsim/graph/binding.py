"""Symbolic dimensions bound to numbers, by name or by the whole shape of an input."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence

import onnx

from hetsim.errors import UsageError, nearest


def bind(
    graph: onnx.GraphProto,
    dims: Mapping[str, int],
    shapes: Mapping[str, Sequence[int]],
    where: str,
) -> None:
    """Replace the symbolic dims of `graph` in place, in the inputs and wherever they recur.

    Parameters
    ----------
    dims : mapping
        Size by name of a symbolic dimension of an input.
    shapes : mapping
        Whole shape by input name; it binds the symbolic dims that the file has there.

    Raises
    ------
    UsageError
        Where a name does not exist, a size is not a positive integer, a shape has another
        rank or a fixed dimension of another size, or two sizes are given for one name.
    """
    for kind in _types(graph):
        _open_negative(kind)
    inputs = {value.name: value for value in graph.input}
    known = {
        dim.dim_param: None
        for value in graph.input
        for dim in value.type.tensor_type.shape.dim
        if dim.dim_param
    }
    bound: dict[str, int] = {}
    for name, size in dims.items():
        if name not in known:
            hint = nearest(name, known) if known else "all dimensions of its inputs are fixed"
            raise UsageError(f"no input has a dimension named {name!r}", where=where, hint=hint)
        bound[name] = _positive(size, f"dimension {name!r}", where)
    for name, shape in shapes.items():
        if name not in inputs:
            raise UsageError(
                f"there is no input named {name!r}", where=where, hint=nearest(name, inputs)
            )
        if isinstance(shape, str) or not isinstance(shape, Iterable):
            raise UsageError(
                f"{shape!r} is no shape for input {name!r}",
                where=where,
                hint="give a list of sizes",
            )
        sizes = [_positive(size, f"a size in the shape of input {name!r}", where) for size in shape]
        _bind_shape(inputs[name], sizes, bound, where)
    for kind in _types(graph):
        _substitute(kind, bound)


def bindable(graph: onnx.GraphProto) -> frozenset[str]:
    """Return the names of symbolic dims that inputs of `graph` still have."""
    return frozenset(
        dim.dim_param
        for value in graph.input
        for dim in value.type.tensor_type.shape.dim
        if dim.dim_param
    )


def _bind_shape(
    value: onnx.ValueInfoProto, sizes: Sequence[int], bound: dict[str, int], where: str
) -> None:
    place = f"{where}: input {value.name!r}"
    if value.type.WhichOneof("value") != "tensor_type":
        raise UsageError(
            "it is no tensor and has no shape", where=place, hint="leave its shape away"
        )
    shape = value.type.tensor_type.shape
    if not value.type.tensor_type.HasField("shape"):
        for size in sizes:
            shape.dim.add(dim_value=size)
        shape.SetInParent()
        return
    stored = tuple(
        dim.dim_value if dim.HasField("dim_value") else dim.dim_param or "?" for dim in shape.dim
    )
    if len(stored) != len(sizes):
        raise UsageError(
            f"shape {tuple(sizes)} has {len(sizes)} dimensions, the model's {stored} has "
            f"{len(stored)}",
            where=place,
            hint=f"give {len(stored)} numbers",
        )
    for dim, size, old in zip(shape.dim, sizes, stored, strict=True):
        fixed = bound.get(old) if isinstance(old, str) else old
        if fixed is not None and fixed != size:
            named = f"dimension {old!r} is bound to {fixed}" if isinstance(old, str) else ""
            raise UsageError(
                f"shape {tuple(sizes)} contradicts the model's {stored}"
                + (f": {named}" if named else ""),
                where=place,
                hint="give one size for each dimension name"
                if named
                else "only symbolic dimensions can be bound",
            )
        if dim.dim_param:
            bound[dim.dim_param] = size
        dim.dim_value = size


def _positive(size: object, what: str, where: str) -> int:
    try:
        if isinstance(size, bool):
            raise TypeError
        number = operator.index(size)  # type: ignore[arg-type]
    except TypeError:
        number = 0
    if number <= 0:
        raise UsageError(
            f"{what} cannot be {size!r}", where=where, hint="give a whole number of 1 or more"
        )
    return number


def _types(graph: onnx.GraphProto) -> Iterator[onnx.TypeProto]:
    """Every declared type, in the bodies of control-flow nodes as well."""
    for values in (graph.input, graph.output, graph.value_info):
        for value in values:
            yield value.type
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from _types(attribute.g)
            for body in attribute.graphs:
                yield from _types(body)


def _substitute(kind: onnx.TypeProto, bound: Mapping[str, int]) -> None:
    which = kind.WhichOneof("value")
    if which in ("sequence_type", "optional_type"):
        _substitute(getattr(kind, which).elem_type, bound)
    elif which == "tensor_type" and kind.tensor_type.HasField("shape"):
        for dim in kind.tensor_type.shape.dim:
            if dim.dim_param in bound:
                dim.dim_value = bound[dim.dim_param]


def _open_negative(kind: onnx.TypeProto) -> None:
    """Some exporters write -1 for a dimension that is open."""
    for dim in kind.tensor_type.shape.dim:
        if dim.dim_value < 0:
            dim.ClearField("dim_value")
