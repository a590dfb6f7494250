"""Graph of a model as used by all of hetsim: nodes, tensors, producers, readers."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from hetsim.errors import UnboundDimension

ITEM_BITS: Mapping[str, int] = {
    "float64": 64, "float32": 32, "float16": 16, "bfloat16": 16,
    "float8e4m3fn": 8, "float8e4m3fnuz": 8, "float8e5m2": 8, "float8e5m2fnuz": 8,
    "float8e8m0": 8, "float4e2m1": 4,
    "int64": 64, "int32": 32, "int16": 16, "int8": 8, "int4": 4, "int2": 2,
    "uint64": 64, "uint32": 32, "uint16": 16, "uint8": 8, "uint4": 4, "uint2": 2,
    "bool": 8, "complex64": 64, "complex128": 128,
}  # fmt: skip
"""Bits per element, by dtype name. Strings are absent, as their size is unknown before a run."""

_LAYOUT = frozenset({"Flatten", "Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze"})

_NUMBERS = frozenset({int})

_MEASURE = (
    "bind the inputs with --dim '*=N', or give example inputs with --input FILE.npz to measure it "
    "in a run"
)


@dataclass(frozen=True, slots=True)
class Tensor:
    """Named value of the graph.

    `dtype` is a lower-case ONNX element type (``"float32"``), or ``"string"``, ``"sequence"``,
    ``"optional"``. `shape` has for each dimension its size, symbolic name, or None; it is None if
    the rank is unknown. It is `measured` if it depends on data, and was observed in a run.
    """

    name: str
    dtype: str
    shape: tuple[int | str | None, ...] | None
    measured: bool = False

    @property
    def is_static(self) -> bool:
        """Whether all sizes of its shape are known."""
        return self.shape is not None and _NUMBERS.issuperset(map(type, self.shape))

    @property
    def static_shape(self) -> tuple[int, ...]:
        """Shape in numbers. Raises UnboundDimension if one is unknown."""
        if self.shape is not None and _NUMBERS.issuperset(map(type, self.shape)):
            return self.shape  # type: ignore[return-value]
        if self.shape is None:
            raise UnboundDimension(
                "the shape of this value is unknown, and the cost model needs it",
                where=f"value '{self.name}'",
                hint=_MEASURE,
            )
        dim = next(dim for dim in self.shape if not isinstance(dim, int))
        raise UnboundDimension(
            f"dim {dim or '?'} of shape {self.shape} is not bound, and its cost needs it",
            where=f"value '{self.name}'",
            hint=f"give --dim {dim}=N" if dim else _MEASURE,
            dims=(dim,) if dim else (),
        )

    @property
    def elements(self) -> int:
        """Number of elements. Raises UnboundDimension if the shape is not bound."""
        return math.prod(self.static_shape)

    @property
    def nbytes(self) -> int:
        """Size in bytes, sub-byte types packed. Raises UnboundDimension as `elements` does.

        Sequences, optionals and strings count as 0 bytes, as their size is known only in a run.
        """
        bits = ITEM_BITS.get(self.dtype)
        if bits is None:
            return 0
        return (self.elements * bits + 7) // 8


@dataclass(frozen=True, slots=True)
class Node:
    """Operator application.

    `id` is the position in ``Graph.nodes``; `name` is unique in the graph, generated from op type
    and position if the file has none; domain ``""`` is the ONNX standard. `inputs` and `outputs`
    are names by position, ``""`` for an absent one; `captures` are outer values that its bodies
    read besides `inputs`, edges like any input; `reads` and `writes` are all of them, unique.

    `attributes` are plain Python values (int, float, str, tuples of them), without tensors and
    graphs. `origins` are the names of its nodes in the user's file, never empty. `body` is the
    function body of a call, or of the operator by the standard; `custom`: a library has its kernel,
    `whole`: one kernel does all of `body`. `branches` has the graphs of a control-flow node by
    attribute, None if types cannot be inferred. `held` are constants in its branches, body or lists
    of numbers, named after it.
    """

    id: int
    name: str
    op_type: str
    domain: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    captures: tuple[str, ...] = ()
    attributes: Mapping[str, object] = field(default_factory=dict)
    origins: tuple[str, ...] = ()
    body: Graph | None = None
    custom: bool = False
    whole: bool = False
    branches: Mapping[str, Graph | None] = field(default_factory=dict)
    held: tuple[Tensor, ...] = ()

    reads: tuple[str, ...] = field(init=False, repr=False, compare=False)
    writes: tuple[str, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Collect its reads and writes, which are accessed many times."""
        read = dict.fromkeys((*self.inputs, *self.captures))
        read.pop("", None)
        writes = self.outputs
        if "" in writes:
            writes = tuple(name for name in writes if name)
        object.__setattr__(self, "reads", tuple(read))
        object.__setattr__(self, "writes", writes)


@dataclass(frozen=True, slots=True)
class ControlFlow:
    """Control flow observed in a run: branch by If, trips by Loop; `sure` if all requests agree."""

    branches: Mapping[str, str]
    trips: Mapping[str, float]
    sure: bool


@dataclass(frozen=True)
class Graph:
    """Directed acyclic graph of operators over named tensors.

    `nodes` are in a stable topological order, ``nodes[i].id == i``; `tensors` has every named
    value. `inputs` are provided and `outputs` received by the caller, in the file's order;
    `constants` are stored with the model. `opsets` has the version of each operator-set domain. If
    costs depend on them, `constant_values` has flattened contents of small integer and boolean
    constants (shapes, axes), `constant_numbers` those of single floating-point numbers. `seen` is
    the control flow observed in a run.
    """

    name: str
    nodes: tuple[Node, ...]
    tensors: Mapping[str, Tensor]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    constants: frozenset[str]
    opsets: Mapping[str, int]
    constant_values: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    constant_numbers: Mapping[str, float] = field(default_factory=dict)
    seen: ControlFlow | None = None

    @cached_property
    def dtypes(self) -> dict[str, str]:
        """Element type of every value."""
        return {name: tensor.dtype for name, tensor in self.tensors.items()}

    @cached_property
    def kept(self) -> dict[str, object]:
        """Cache of values computed from the graph, by name."""
        return {}

    @cached_property
    def dequantized(self) -> dict[str, tuple[str, ...]]:
        """Stored integers, scales and zero points by dequantized value. O(V + E).

        A DequantizeLinear of constants, with views and transposes of its result, is folded when a
        device compiles the graph: it takes no time in a run, and its readers read the stored
        integers.
        """
        found: dict[str, tuple[str, ...]] = {}
        for node in self.nodes:
            if node.domain not in ("", "ai.onnx", "com.microsoft") or len(node.writes) != 1:
                continue
            if node.op_type == "DequantizeLinear" and self.constants.issuperset(node.reads):
                found[node.writes[0]] = node.reads
            elif node.op_type in _LAYOUT and self.constants.issuperset(node.reads[1:]):
                behind = found.get(node.inputs[0])
                if behind is not None:
                    found[node.writes[0]] = behind
        return found

    def edges(self) -> Iterator[tuple[int, int]]:
        """Yield (producer, reader) node ids, one for each value that a node reads. O(V + E)."""
        producers = self.producers()
        for node in self.nodes:
            for name in node.reads:
                if name in producers:
                    yield producers[name], node.id

    def exchanged(
        self, nodes: Sequence[int], consumers: Mapping[str, Sequence[int]], put_out: Collection[str]
    ) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the values that `nodes` read from outside, constants included, and their outputs.

        `nodes` are in graph order; `consumers` is the result of ``consumers()``, `put_out` the
        outputs of the graph. Names are in order of first read, and of writing. O(reads).
        """
        inside = set(nodes)
        written = [name for v in nodes for name in self.nodes[v].writes]
        own = set(written)
        read = dict.fromkeys(name for v in nodes for name in self.nodes[v].reads if name not in own)
        given = (
            name
            for name in written
            if name in put_out or any(v not in inside for v in consumers.get(name, ()))
        )
        return tuple(read), tuple(given)

    def producers(self) -> Mapping[str, int]:
        """Map each value that a node writes to that node's id. O(V + E), once."""
        return self._producers

    def consumers(self) -> Mapping[str, tuple[int, ...]]:
        """Map each value that is read to the ids of its readers, ascending. O(V + E), once."""
        return self._consumers

    @cached_property
    def _producers(self) -> dict[str, int]:
        return {name: node.id for node in self.nodes for name in node.writes}

    @cached_property
    def _consumers(self) -> dict[str, tuple[int, ...]]:
        readers: dict[str, list[int]] = {}
        for node in self.nodes:
            for name in node.reads:
                readers.setdefault(name, []).append(node.id)
        return {name: tuple(ids) for name, ids in readers.items()}
