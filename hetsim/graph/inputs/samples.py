"""Random inputs that a model accepts."""

from __future__ import annotations

import math
import string
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from hetsim.core.room import memory_bytes
from hetsim.core.units import format_bytes
from hetsim.errors import RequestError, UsageError
from hetsim.graph.graph import ITEM_BITS, Graph, Node, Tensor
from hetsim.graph.model import Model
from hetsim.graph.reading.onnx_types import MOST_DIMS, element_type, to_tensor
from hetsim.graph.shapes.open_shapes import open_dims, open_ranks, unbound

_MOVERS = frozenset(
    {"Cast", "Reshape", "Unsqueeze", "Squeeze", "Identity", "Flatten", "Transpose", "Expand",
     "Slice", "Split", "Concat", "Tile", "Dropout"}
)  # fmt: skip
"""Ops that pass on the elements of their first input (Concat: of all), possibly rearranged."""

_WIDEST_BYTES = 32
"""Upper bound on the bytes of an element during sampling: a word of five letters."""

_DEFAULT_HIGH = 2
_ENTRIES = 2
_ALPHABET = np.array(list(string.ascii_lowercase))


def random_inputs(model: Model, seed: int = 0) -> dict[str, Any]:
    """Return an array for every input of `model`, determined by the seed.

    Floats are standard normal, bools fair, strings short words. Integers stay in the range in which
    every consumer accepts them as an index, traced through ops that only move elements; they equal
    the constant that the model compares them with, if any (a sampling rate); else 8-bit integers
    take their whole range and wider ones are 0 or 1.

    Raises
    ------
    UnboundDimension
        If the shape of an input is unknown; names all open dimensions.
    RequestError
        If an input has a type that NumPy lacks, or is a sequence of tensors of unknown rank.
    """
    if seed < 0:
        raise UsageError(f"the seed is {seed}", hint="use a whole number of 0 or more")
    if open_dims(model.graph) or open_ranks(model.graph):
        raise unbound(model.graph, model.source, model.unmeasured)
    kinds = {value.name: value.type for value in model.proto.graph.input}
    try:
        return draw_inputs(model.graph, kinds, seed)
    except RequestError as error:
        where = f"{model.source}: {error.where}" if error.where else model.source
        raise RequestError(error.what, where=where, hint=error.hint) from error


def draw_inputs(
    graph: Graph,
    kinds: Mapping[str, onnx.TypeProto],
    seed: int = 0,
    *,
    most: float = math.inf,
) -> dict[str, Any]:
    """Return random inputs of `graph`; RequestError above `most` elements in total."""
    tensors = [graph.tensors[name] for name in graph.inputs]
    shaped = [tensor for tensor in tensors if tensor.shape is not None]
    for tensor in shaped:
        _check_shape(tensor)
    wanted = sum(tensor.elements for tensor in shaped)
    if wanted > most:
        raise RequestError(
            f"random inputs would have {wanted} elements, too many to generate",
            hint="give inputs with --input FILE.npz",
        )
    nbytes = sum(tensor.elements * ITEM_BITS.get(tensor.dtype, 64) // 8 for tensor in shaped)
    if nbytes > memory_bytes() // 2:
        raise RequestError(
            f"random inputs take {format_bytes(nbytes)}, more than half of the memory",
            hint="bind its dims to smaller sizes",
        )
    readers = readers_of(graph)
    arrays: dict[str, Any] = {}
    for position, name in enumerate(graph.inputs):
        generator = np.random.default_rng([seed, position])
        bound = index_bound(graph, readers, name)
        tensor = graph.tensors[name]
        asked = compared_with(graph, readers, name) if bound is None else ()
        if asked and tensor.dtype in ("int64", "int32"):
            arrays[name] = np.full(tensor.static_shape, asked[0], tensor.dtype)
            continue
        if tensor.dtype in ("sequence", "optional") and name in kinds:
            arrays[name] = _draw_nested(name, kinds[name], bound, generator)
        else:
            arrays[name] = _draw(tensor, bound, generator)
    return arrays


def _check_shape(tensor: Tensor) -> None:
    """Raise RequestError if NumPy has no array of that shape, even if it would be empty."""
    shape = tensor.static_shape
    if len(shape) > MOST_DIMS:
        what = f"it has {len(shape)} dimensions, and NumPy arrays have at most {MOST_DIMS}"
    elif math.prod(max(size, 1) for size in shape) * _WIDEST_BYTES >= 2**63:
        what = f"no array can have the shape {list(shape)}: its size exceeds 64 bits"
    else:
        return
    raise RequestError(
        what, where=f"input '{tensor.name}'", hint="bind its dims to smaller sizes, or reshape it"
    )


def _draw(tensor: Tensor, bound: int | None, generator: np.random.Generator) -> NDArray[Any]:
    if tensor.dtype == "string":
        shape = tensor.static_shape
        letters = generator.choice(_ALPHABET, size=(*shape, 5))
        words: NDArray[Any] = np.empty(shape, dtype=object)
        for place in np.ndindex(shape):
            words[place] = "".join(letters[place])
        return words
    if tensor.dtype not in ITEM_BITS:
        raise RequestError(
            f"random values cannot be generated for type {tensor.dtype}",
            where=f"input '{tensor.name}'",
            hint="give inputs with --input FILE.npz",
        )
    shape = tensor.static_shape
    if tensor.dtype == "bool":
        return generator.integers(0, 2, shape).astype(np.bool_)
    dtype = _numpy_dtype(tensor)
    if dtype.kind == "c":
        parts = generator.standard_normal((2, *shape))
        drawn: NDArray[Any] = (parts[0] + 1j * parts[1]).astype(dtype)
        return drawn
    if not tensor.dtype.startswith(("int", "uint")):
        return generator.standard_normal(shape).astype(dtype)
    bits = ITEM_BITS[tensor.dtype]
    low, high = 0, _DEFAULT_HIGH
    if bound is not None:
        signed = tensor.dtype.startswith("int")
        high = max(1, min(bound, 2 ** (bits - signed)))
    elif bits == 8:
        low, high = (-128, 128) if tensor.dtype == "int8" else (0, 256)
    return generator.integers(low, high, shape).astype(dtype)


def _draw_nested(
    name: str, kind: onnx.TypeProto, bound: int | None, generator: np.random.Generator
) -> Any:
    """Return a random value that may not be a plain tensor."""
    which = kind.WhichOneof("value")
    if which == "sequence_type":
        inner = kind.sequence_type.elem_type
        return [_draw_nested(name, inner, bound, generator) for _ in range(_ENTRIES)]
    if which == "optional_type":
        return _draw_nested(name, kind.optional_type.elem_type, bound, generator)
    tensor = to_tensor(name, kind)
    if tensor.shape is None:
        raise RequestError(
            "random values cannot be generated for a sequence or optional of tensors of unknown "
            "rank",
            where=f"input '{name}'",
            hint="give inputs with --input FILE.npz",
        )
    shape = tuple(dim if isinstance(dim, int) else 1 for dim in tensor.shape)
    return _draw(replace(tensor, shape=shape), bound, generator)


def _numpy_dtype(tensor: Tensor) -> np.dtype[Any]:
    try:
        return np.dtype(tensor.dtype)
    except TypeError:
        return np.dtype(onnx.helper.tensor_dtype_to_np_dtype(element_type(tensor.dtype)))


def readers_of(graph: Graph) -> dict[str, list[tuple[Node, int]]]:
    """Map each value that is read at an input to its readers and their ports. O(V + E)."""
    readers: dict[str, list[tuple[Node, int]]] = {}
    for node in graph.nodes:
        for position, name in enumerate(node.inputs):
            if name:
                readers.setdefault(name, []).append((node, position))
    return readers


def index_bound(
    graph: Graph, readers: Mapping[str, Sequence[tuple[Node, int]]], name: str
) -> int | None:
    """Return the smallest number of entries that `name` indexes, or None."""
    bounds: list[int] = []
    seen = {name}
    pending = [name]
    while pending:
        for node, position in readers.get(pending.pop(), ()):
            bounds.extend(_indexed(graph, node, position))
            if node.op_type in _MOVERS and (position == 0 or node.op_type == "Concat"):
                fresh = [output for output in node.writes if output not in seen]
                seen.update(fresh)
                pending.extend(fresh)
    return min(bounds, default=None)


def compared_with(
    graph: Graph, readers: Mapping[str, Sequence[tuple[Node, int]]], name: str
) -> tuple[int, ...]:
    """Return the constants that input `name` is compared with for equality."""
    found: list[int] = []
    for node, position in readers.get(name, ()):
        if node.op_type == "Equal":
            found.extend(graph.constant_values.get(node.inputs[1 - position], ()))
    return tuple(found)


def _indexed(graph: Graph, node: Node, position: int) -> Iterator[int]:
    """Yield the number of entries of `node` for an index read at input `position`."""
    data = _shape(graph, node, 0)
    if node.op_type in ("Gather", "GatherElements", "ScatterElements", "Scatter"):
        axis = node.attributes.get("axis", 0)
        if position == 1 and data is not None and isinstance(axis, int):
            yield from _numbers(data[axis])
    elif node.op_type in ("GatherND", "ScatterND"):
        if position == 1 and data is not None:
            # One bound for all: the index tuples are sampled element by element.
            skipped = node.attributes.get("batch_dims", 0)
            depth = _shape(graph, node, 1)
            last = depth[-1] if depth else None
            if isinstance(skipped, int) and isinstance(last, int):
                for dim in data[skipped : skipped + last]:
                    yield from _numbers(dim)
    elif node.op_type == "OneHot":
        if position == 0:
            yield from graph.constant_values.get(node.inputs[1], ())
    elif node.op_type == "EmbedLayerNormalization" and position in (0, 1):
        table = _shape(graph, node, 2 if position == 0 else 4)
        if table:
            yield from _numbers(table[0])


def _shape(graph: Graph, node: Node, position: int) -> tuple[int | str | None, ...] | None:
    name = node.inputs[position] if position < len(node.inputs) else ""
    return graph.tensors[name].shape if name else None


def _numbers(dim: int | str | None) -> Iterator[int]:
    if isinstance(dim, int):
        yield dim
