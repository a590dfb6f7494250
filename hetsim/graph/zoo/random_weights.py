"""Random weights for a graph that has none, each tensor by its role."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray

from hetsim.graph.graph import Tensor
from hetsim.graph.reading.external_data import refer
from hetsim.graph.reading.onnx_types import to_tensor
from hetsim.graph.reading.structure import replace

_SEED = "hetsim zoo 1"
_ALIGNMENT = 4096
_INLINE_BELOW_BYTES = 1024
_CHUNK = 1 << 18

_SPREAD = 0.1
"""Standard deviation of offsets, and of scales and variances around one."""

_RESIDUAL_GAIN = 0.35
"""Factor on the last matrix of a residual branch, without which deep sums would diverge."""

_RESHAPING = frozenset(
    {"Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose", "Identity", "Dropout"}
)
_KEEPS_SIGN = _RESHAPING | {"Concat", "MaxPool", "AveragePool", "GlobalAveragePool", "LRN"}
_RECTIFIERS = frozenset({"Relu", "Clip"})


@dataclass(frozen=True, slots=True)
class FilledTensor:
    """Random constant: uniform around `centre`, or the exponential of that for a variance."""

    name: str
    dims: tuple[int, ...]
    deviation: float
    centre: float = 0.0
    exponential: bool = False

    @property
    def elements(self) -> int:
        """Number of elements."""
        return math.prod(self.dims)


@dataclass(frozen=True, slots=True)
class FillPlan:
    """Plan of a filled model: large constants, by offset in the weights file, and parameters."""

    proto: onnx.ModelProto
    external: tuple[tuple[int, FilledTensor], ...]
    parameters: int
    inputs: tuple[Tensor, ...]


def fill(source: onnx.ModelProto, model_path: Path, weights_path: Path) -> None:
    """Write `source` with random weights seeded by name to both paths, in a few MiB of memory."""
    plan = plan_fill(source, weights_path.name)
    with weights_path.open("wb") as file:
        for offset, tensor in plan.external:
            file.write(b"\0" * (offset - file.tell()))
            for block in draw(tensor):
                file.write(block.data)
    model_path.write_bytes(plan.proto.SerializeToString(deterministic=True))


def plan_fill(source: onnx.ModelProto, weights_file: str) -> FillPlan:
    """Return the plan of the filled model, without its large weights. O(V + E).

    Fills outputs of ConstantOfShape nodes (which are removed), float initializers without data, and
    those in the role of a weight; limits, exponents and scalars are kept.
    """
    graph = source.graph
    roles = _Roles(graph)
    constants: list[onnx.TensorProto] = []
    to_fill: dict[str, tuple[int, ...]] = {}
    shapes = {
        tensor.name: onnx.numpy_helper.to_array(tensor)
        for tensor in graph.initializer
        if tensor.data_type == onnx.TensorProto.INT64 and len(tensor.dims) == 1
    }
    nodes = []
    for node in graph.node:
        if node.op_type == "ConstantOfShape" and node.input[0] in shapes:
            to_fill[node.output[0]] = tuple(int(d) for d in shapes[node.input[0]])
        else:
            nodes.append(node)
    used = {name for node in nodes for name in node.input}
    for tensor in graph.initializer:
        if tensor.name not in used:
            continue
        stored = bool(tensor.raw_data or tensor.float_data)
        if tensor.data_type == onnx.TensorProto.FLOAT and (
            not stored or (len(tensor.dims) > 0 and roles.is_weight(tensor.name))
        ):
            to_fill[tensor.name] = tuple(tensor.dims)
        else:
            constants.append(tensor)

    external: list[tuple[int, FilledTensor]] = []
    end = 0
    for name, dims in to_fill.items():
        tensor = roles.distribution(name, dims)
        proto = onnx.TensorProto(name=name, data_type=onnx.TensorProto.FLOAT, dims=dims)
        nbytes = 4 * tensor.elements
        if nbytes < _INLINE_BELOW_BYTES:
            proto.raw_data = b"".join(block.tobytes() for block in draw(tensor))
        else:
            offset = -(-end // _ALIGNMENT) * _ALIGNMENT
            external.append((offset, tensor))
            end = offset + nbytes
            refer(proto, weights_file, offset, nbytes)
        constants.append(proto)
    known = {tensor.name for tensor in graph.initializer}
    inputs = [value for value in graph.input if value.name not in known]
    model = onnx.ModelProto()
    model.CopyFrom(source)
    # Below IR 4 an initializer must be a graph input too, which a caller could override.
    model.ir_version = max(4, source.ir_version)
    replace(model.graph.node, nodes)
    replace(model.graph.initializer, constants)
    replace(model.graph.input, inputs)
    return FillPlan(
        proto=model,
        external=tuple(external),
        parameters=sum(math.prod(t.dims) for t in constants if t.data_type == t.FLOAT),
        inputs=tuple(to_tensor(value.name, value.type) for value in inputs),
    )


def draw(tensor: FilledTensor) -> Iterator[NDArray[np.float32]]:
    """Yield the random values of `tensor` in flat blocks. Each block is valid until the next."""
    seed = int.from_bytes(hashlib.sha256(f"{_SEED}\0{tensor.name}".encode()).digest()[:16])
    generator = np.random.Generator(np.random.SFC64(seed))
    buffer = np.empty(min(_CHUNK, tensor.elements), dtype="<f4")
    for start in range(0, tensor.elements, _CHUNK):
        block = buffer[: tensor.elements - start]
        generator.random(dtype=np.float32, out=block)
        block -= np.float32(0.5)
        block *= np.float32(math.sqrt(12) * tensor.deviation)
        if tensor.centre:
            block += np.float32(tensor.centre)
        if tensor.exponential:
            np.exp(block, out=block)
        yield block


@dataclass(frozen=True, slots=True)
class _Use:
    node: onnx.NodeProto
    role: str | None
    transposed: bool


class _Roles:
    """Readers and writers of each value of a graph, and the roles of constants."""

    def __init__(self, graph: onnx.GraphProto) -> None:
        self.readers: dict[str, list[tuple[onnx.NodeProto, int]]] = {}
        self.producer: dict[str, onnx.NodeProto] = {}
        self.constants = {tensor.name for tensor in graph.initializer}
        for node in graph.node:
            for position, name in enumerate(node.input):
                self.readers.setdefault(name, []).append((node, position))
            self.producer.update(dict.fromkeys(node.output, node))
            if node.op_type == "ConstantOfShape" or (
                node.op_type in _RESHAPING and node.input[0] in self.constants
            ):
                self.constants.update(node.output)

    def uses(self, name: str, transposed: bool = False) -> list[_Use]:
        """Return the readers of `name`, including those behind reshaping nodes."""
        found = []
        for node, position in self.readers.get(name, ()):
            if node.op_type in _RESHAPING and position == 0:
                found += self.uses(node.output[0], transposed != (node.op_type == "Transpose"))
            else:
                role = _ROLES.get((node.op_type, position))
                found.append(_Use(node, role, transposed))
        return found

    def is_weight(self, name: str) -> bool:
        """Return whether a constant is a learned weight rather than a number of the computation."""
        roles = {use.role for use in self.uses(name)}
        per_channel = any(node.op_type in _RESHAPING for node, _ in self.readers.get(name, ()))
        return bool(roles - {None, "factor", "term"}) or (
            per_channel and bool(roles & {"factor", "term"})
        )

    def distribution(self, name: str, dims: tuple[int, ...]) -> FilledTensor:
        """Return the distribution of constant `name`, by role: matrix, norm's part, then bias."""
        uses = {use.role: use for use in reversed(self.uses(name))}
        if matrix := uses.get("matrix"):
            deviation = self._gain(matrix.node) / math.sqrt(_fan_in(matrix, dims))
            return FilledTensor(name, dims, deviation)
        if "embedding" in uses:
            return FilledTensor(name, dims, 1 / math.sqrt(dims[-1]))
        if "variance" in uses:
            return FilledTensor(name, dims, _SPREAD, exponential=True)
        centre = 1.0 if uses.keys() & {"scale", "factor"} else 0.0
        return FilledTensor(name, dims, _SPREAD, centre)

    def _gain(self, node: onnx.NodeProto) -> float:
        """Return the gain that keeps activations in range: He et al. 2015 behind rectifiers."""
        gain = math.sqrt(2) if self._rectified(node.input[0]) else 1.0
        return gain * _RESIDUAL_GAIN if self._ends_branch(node.output[0]) else gain

    def _rectified(self, name: str) -> bool:
        node = self.producer.get(name)
        while node is not None and node.op_type in _KEEPS_SIGN:
            node = self.producer.get(node.input[0])
        return node is not None and node.op_type in _RECTIFIERS

    def _ends_branch(self, name: str) -> bool:
        """Return whether `name` is summed with another activation before any nonlinearity."""
        while len(readers := self.readers.get(name, [])) == 1:
            node = readers[0][0]
            linear = node.op_type in _RESHAPING | {"BatchNormalization", "Mul", "Add", "Sum"}
            if not linear:
                return False
            if node.op_type in {"Add", "Sum"} and not self.constants.intersection(node.input):
                return True
            name = node.output[0]
        return False


_ROLES: Mapping[tuple[str, int], str] = {
    ("Conv", 1): "matrix", ("Conv", 2): "offset",
    ("Gemm", 1): "matrix", ("Gemm", 2): "offset",
    ("MatMul", 1): "matrix", ("Gather", 0): "embedding",
    ("BatchNormalization", 1): "scale", ("BatchNormalization", 2): "offset",
    ("BatchNormalization", 3): "offset", ("BatchNormalization", 4): "variance",
    ("LayerNormalization", 1): "scale", ("LayerNormalization", 2): "offset",
    ("Mul", 0): "factor", ("Mul", 1): "factor",
    ("Add", 0): "term", ("Add", 1): "term",
}  # fmt: skip
"""Role by op type and input position; a factor or a term may also be a plain number."""


def _fan_in(use: _Use, dims: tuple[int, ...]) -> int:
    if use.node.op_type == "Conv":
        return math.prod(dims[1:])
    transposed = use.transposed != any(a.name == "transB" and a.i for a in use.node.attribute)
    return dims[-1] if transposed else dims[-2]
