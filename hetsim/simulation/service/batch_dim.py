"""Which dimension of a model is the batch, and whether the model can take the sizes asked for."""

from __future__ import annotations

from collections.abc import Mapping

import onnx

from hetsim.errors import WorkloadError, nearest
from hetsim.graph.loading import read_source
from hetsim.workload.deployment import Served

Inputs = list[onnx.ValueInfoProto]
"""Of a model, as its file has them."""


def batch_dims(
    served: Served,
    dims: Mapping[str, int],
    *,
    shaped: bool = False,
    read: dict[str, Inputs] | None = None,
) -> list[dict[str, int]]:
    """Return, for each of `served.sizes`, the dimensions of the model that make it that batch.

    Parameters
    ----------
    served : Served
    dims : mapping of str to int
        What streams bind of the model.
    shaped : bool
        Whether the shapes of all its inputs are given.
    read : dict, optional
        The inputs of models whose files were read, by model; what is read is added.

    Raises
    ------
    WorkloadError
        Where the model cannot take one of the sizes: its first dimension is fixed, or a stream
        binds it; or where it has no dimension of the name that is given.
    ModelError
        Where the file cannot be read.

    Complexity: that of reading the file, where it was not read.
    """
    alone = served.dynamic_batching is None and served.sizes == (1,)
    if shaped and alone:
        return [{}]
    if shaped:
        raise WorkloadError(
            f"cannot take batches of {', '.join(map(str, served.sizes))}: its whole shapes are "
            "given, the batch among them",
            where=served.model,
            hint="bind its other dimensions by --dim, in the place of --shape or --input",
        )
    read = {} if read is None else read
    if served.model not in read:
        read[served.model] = _inputs(served.model)
    inputs = read[served.model]
    name, size = _batch_of(served, inputs)
    if size is not None or name is None:
        if alone or served.sizes == (size,):
            return [{} for _ in served.sizes]
        if size == 1 and served.batch_dim is None:
            ones = _ones(inputs)
            return [{} if b == 1 else dict.fromkeys(ones, b) for b in served.sizes]
        if size == 1 and name is not None and name.endswith("[0]"):
            return [{} if b == 1 else {name: b} for b in served.sizes]
        has = "has no first dimension" if name is None else f"is {size} in the file"
        first = f"of input '{inputs[0].name}' " if inputs else ""
        sizes = ", ".join(map(str, served.sizes))
        raise WorkloadError(
            f"cannot take batches of {sizes}: the first dimension {first}{has}",
            where=served.model,
            hint="export the model with an open batch dimension, or leave dynamic_batching and "
            "batch_sizes out",
        )
    if name in dims:
        if alone:
            return [{}]
        raise WorkloadError(
            f"a stream binds '{name}' to {dims[name]}, and it is the batch dimension",
            where=served.model,
            hint="leave it out of dims: or --dim, or name another one by batch_dim:",
        )
    return [{name: size} for size in served.sizes]


def _ones(inputs: Inputs) -> list[str]:
    """First dimensions that are 1 in a model of one request at a time.

    Of inputs that are more than a number: what has one dimension goes with all requests alike.
    """
    return [
        f"{value.name}[0]"
        for at, value in enumerate(inputs)
        if [_size(dim) for dim in value.type.tensor_type.shape.dim[:1]] == [1]
        and (at == 0 or len(value.type.tensor_type.shape.dim) > 1)
    ]


def _inputs(source: str) -> Inputs:
    graph = read_source(source)[1].proto.graph
    stored = {tensor.name for tensor in graph.initializer}
    return [value for value in graph.input if value.name not in stored]


def _batch_of(served: Served, inputs: Inputs) -> tuple[str | None, int | None]:
    """Name of the batch dimension, and its size where that is fixed; no name: there is none."""
    if served.batch_dim is None:
        shape = inputs[0].type.tensor_type.shape.dim if inputs else ()
        if not shape:
            return None, None
        place = f"{inputs[0].name}[0]"
        return shape[0].dim_param or place, _size(shape[0])
    known: dict[str, int | None] = {}
    for value in inputs:
        for axis, dim in enumerate(value.type.tensor_type.shape.dim):
            known.setdefault(f"{value.name}[{axis}]", _size(dim))
            if dim.dim_param:
                known.setdefault(dim.dim_param, None)
    if served.batch_dim not in known:
        raise WorkloadError(
            f"no input has a dimension '{served.batch_dim}', which batch_dim: names",
            where=served.model,
            hint=nearest(served.batch_dim, known),
        )
    return served.batch_dim, known[served.batch_dim]


def _size(dim: onnx.TensorShapeProto.Dimension) -> int | None:
    return int(dim.dim_value) if dim.dim_value > 0 else None
