"""Builder of generated networks, and those of one op or of attention."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper

OPSET = 18
_POOL = 1 << 16


class Builder:
    """Nodes, weights and shapes of one network.

    Weights are slices of one small random pool, scaled so that values neither grow nor vanish, as a
    CPU computes with very small numbers at another speed.
    """

    def __init__(self, name: str, rng: np.random.Generator) -> None:
        self.name = name
        self.rng = rng
        self.shapes: dict[str, tuple[int, ...]] = {}
        self._pool = rng.standard_normal(_POOL).astype(np.float32)
        self._nodes: list[onnx.NodeProto] = []
        self._stored: list[onnx.TensorProto] = []
        self._inputs: list[str] = []
        self.stored_elements = 0

    def value(self, *shape: int) -> str:
        """Add an input of floats."""
        name = f"in{len(self._inputs)}"
        self._inputs.append(name)
        self.shapes[name] = shape
        return name

    def weight(self, *shape: int, fan: int = 1, mean: float = 0.0) -> str:
        """Add a constant of floats with the given mean, and standard deviation 1 / sqrt(fan)."""
        drawn = np.resize(self._pool, math.prod(shape)).reshape(shape)
        return self.stored(drawn * np.float32(1.0 / math.sqrt(fan)) + np.float32(mean))

    def stored(self, array: NDArray[Any]) -> str:
        """Add a constant."""
        name = f"w{len(self._stored)}"
        self._stored.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
        self.shapes[name] = array.shape
        self.stored_elements += array.size
        return name

    def number(self, value: float) -> str:
        """Add a scalar constant."""
        return self.stored(np.array(value, np.float32))

    def node(self, op: str, inputs: Sequence[str], shape: Sequence[int], **attributes: Any) -> str:
        """Add a node with one output of `shape`; return the output's name."""
        return self.nodes(op, inputs, (shape,), **attributes)[0]

    def nodes(
        self, op: str, inputs: Sequence[str], shapes: Sequence[Sequence[int]], **attributes: Any
    ) -> tuple[str, ...]:
        """Add a node with several outputs; return their names."""
        name = f"{op}{len(self._nodes)}"
        made = tuple(f"{name}_{index}" for index in range(len(shapes)))
        self._nodes.append(helper.make_node(op, list(inputs), made, name=name, **attributes))
        self.shapes.update(zip(made, (tuple(shape) for shape in shapes), strict=True))
        return made

    def model(self, *outputs: str) -> onnx.ModelProto:
        """Return the network, with all unread values added to its `outputs`."""
        read = {name for node in self._nodes for name in node.input}
        loose = [name for node in self._nodes for name in node.output if name not in read]
        graph = helper.make_graph(
            self._nodes,
            self.name,
            [_typed(name, self.shapes[name]) for name in self._inputs],
            [_typed(name, self.shapes[name]) for name in dict.fromkeys((*outputs, *loose))],
            self._stored,
        )
        return helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8
        )


def _typed(name: str, shape: Sequence[int]) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, list(shape))


def _image(build: Builder, most: int = 1 << 20) -> tuple[str, tuple[int, ...]]:
    rng = build.rng
    side = int(rng.choice((7, 14, 20, 28, 40, 56, 80, 112)))
    widths = [c for c in (8, 16, 24, 32, 64, 96, 128, 192, 256, 512, 1024) if c * side**2 <= most]
    shape = (1, int(rng.choice(widths)), side, side)
    return build.value(*shape), shape


def _rows(build: Builder) -> tuple[str, tuple[int, ...]]:
    rng = build.rng
    shape = (
        int(rng.choice((1, 1, 2, 4, 12))),
        int(rng.choice((8, 16, 49, 64, 128, 196, 256, 512))),
        int(rng.choice((32, 64, 100, 128, 256, 512, 768, 1024))),
    )
    return build.value(*shape), shape


def _elementwise(build: Builder) -> str:
    x, shape = _image(build) if build.rng.random() < 0.5 else _rows(build)
    op = str(build.rng.choice((
        "Relu", "Sigmoid", "Tanh", "Erf", "Exp", "Add", "Mul", "Sub", "LeakyRelu", "HardSwish",
        "Sqrt", "Abs", "Neg", "Softplus", "Elu", "Max", "Clip", "Floor",
    )))  # fmt: skip
    if op in ("Add", "Mul", "Sub", "Max"):
        other = build.value(*shape) if build.rng.random() < 0.6 else build.weight(shape[-1])
        return build.node(op, [x, other], shape)
    if op == "Sqrt":
        x = build.node("Abs", [x], shape)
    return build.node(op, [x], shape)


def _normalization(build: Builder) -> str:
    kind = int(build.rng.integers(4))
    if kind <= 1:
        x, shape = _rows(build)
        stats = [build.weight(shape[-1], mean=1.0), build.weight(shape[-1])]
        return build.node("LayerNormalization", [x, *stats], shape, axis=-1)
    x, shape = _image(build)
    if kind == 2:
        stats = [build.weight(shape[1], mean=1.0), build.weight(shape[1])]
        return build.node("InstanceNormalization", [x, *stats], shape)
    return build.node("LRN", [x], shape, size=5)


def _softmax(build: Builder) -> str:
    x, shape = _rows(build)
    return build.node("Softmax", [x], shape, axis=int(build.rng.choice((-1, -1, -1, 1))))


def _pooling(build: Builder) -> str:
    x, shape = _image(build)
    kind = str(build.rng.choice(("MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool")))
    if kind.startswith("Global"):
        return build.node(kind, [x], (*shape[:2], 1, 1))
    window, stride = int(build.rng.choice((2, 3, 3, 5))), int(build.rng.choice((1, 2, 2)))
    pad = (window - 1) // 2
    side = (shape[2] + 2 * pad - window) // stride + 1
    return build.node(
        kind, [x], (*shape[:2], side, side),
        kernel_shape=[window] * 2, strides=[stride] * 2, pads=[pad] * 4,
    )  # fmt: skip


def _transpose(build: Builder) -> str:
    perms: tuple[tuple[int, ...], ...]
    if build.rng.random() < 0.5:
        x, shape = _image(build)
        perms = ((0, 2, 3, 1), (0, 3, 1, 2), (0, 2, 1, 3))
    else:
        x, shape = _rows(build)
        perms = ((0, 2, 1), (1, 0, 2), (2, 0, 1))
    perm = perms[int(build.rng.integers(3))]
    return build.node("Transpose", [x], [shape[axis] for axis in perm], perm=perm)


def _movement(build: Builder) -> str:
    x, shape = _image(build) if build.rng.random() < 0.6 else _rows(build)
    kind = int(build.rng.integers(5))
    axis = int(build.rng.choice((1, 1, -1)))
    size = shape[axis]

    def ends(*values: int) -> str:
        return build.stored(np.array(values, np.int64))

    def sized(new: int) -> tuple[int, ...]:
        changed = list(shape)
        changed[axis] = new
        return tuple(changed)

    if kind == 0:
        return build.node("Concat", [x, build.value(*shape)], sized(2 * size), axis=axis)
    if kind == 1:
        half = size // 2
        return build.node("Slice", [x, ends(0), ends(half), ends(axis)], sized(half))
    if kind == 2:
        sizes = (size // 2, size - size // 2)
        return build.nodes("Split", [x, ends(*sizes)], [sized(s) for s in sizes], axis=axis)[0]
    if kind == 3 and len(shape) == 4:
        wider = (*shape[:2], shape[2] + 2, shape[3] + 2)
        return build.node("Pad", [x, ends(0, 0, 1, 1, 0, 0, 1, 1)], wider)
    table = build.weight(int(build.rng.choice((1000, 5000, 20000))), shape[-1])
    picked = build.stored(build.rng.integers(0, 1000, shape[-2]).astype(np.int64))
    del x
    return build.node("Gather", [table, picked], (shape[-2], shape[-1]), axis=0)


def _reduction(build: Builder) -> str:
    x, shape = _rows(build)
    op = str(build.rng.choice(("ReduceMean", "ReduceSum", "ReduceMax")))
    axis = int(build.rng.choice((-1, -1, 1)))
    kept = [1 if i == axis % 3 else size for i, size in enumerate(shape)]
    return build.node(op, [x, build.stored(np.array([axis], np.int64))], kept)


def _resize(build: Builder) -> str:
    x, shape = _image(build, 1 << 18)
    factor = int(build.rng.choice((2, 2, 4)))
    scales = build.stored(np.array([1, 1, factor, factor], np.float32))
    mode = str(build.rng.choice(("nearest", "linear", "cubic")))
    how = {"mode": mode, "coordinate_transformation_mode": "asymmetric"}
    out = (*shape[:2], shape[2] * factor, shape[3] * factor)
    if mode == "nearest":
        how["nearest_mode"] = "floor"
    return build.node("Resize", [x, "", scales], out, **how)


def _recurrent(build: Builder) -> str:
    rng = build.rng
    op, gates = (("LSTM", 4), ("GRU", 3))[int(rng.integers(2))]
    length = int(rng.choice((4, 8, 16, 32, 64)))
    depth, hidden = (int(rng.choice((32, 64, 128, 256, 384))) for _ in range(2))
    both = int(rng.random() < 0.3)
    x = build.value(length, 1, depth)
    weights = [
        build.weight(1 + both, gates * hidden, depth, fan=depth),
        build.weight(1 + both, gates * hidden, hidden, fan=hidden),
        build.weight(1 + both, 2 * gates * hidden, fan=100),
    ]
    return build.node(
        op, [x, *weights], (length, 1 + both, 1, hidden), hidden_size=hidden,
        direction="bidirectional" if both else "forward",
    )  # fmt: skip


def _batched(build: Builder) -> str:
    rng = build.rng
    groups = int(rng.choice((1, 2, 4, 6, 8, 12, 16)))
    rows, columns = (int(rng.choice((16, 32, 49, 64, 128, 197, 256))) for _ in range(2))
    depth = int(rng.choice((16, 32, 64, 96, 128, 256)))
    a, b = build.value(1, groups, rows, depth), build.value(1, groups, depth, columns)
    return build.node("MatMul", [a, b], (1, groups, rows, columns))


KINDS: tuple[Callable[[Builder], str], ...] = (
    _elementwise, _normalization, _softmax, _pooling, _transpose, _movement, _reduction,
    _resize, _recurrent, _batched,
)  # fmt: skip


def single(
    name: str, rng: np.random.Generator, kinds: Sequence[int], count: int
) -> onnx.ModelProto:
    """Return `count` layers with separate inputs, of the kinds at `kinds`."""
    build = Builder(name, rng)
    outputs = [KINDS[int(rng.choice(list(kinds)))](build) for _ in range(count)]
    return build.model(*outputs)


_LENGTHS = (4, 8, 16, 32, 48, 64, 64, 77, 100, 128, 128, 196, 197, 197, 256, 384)
_WIDTHS = (64, 96, 128, 192, 256, 312, 384, 512, 768, 1024)


class _Layers:
    """Random choices shared by all layers of a network."""

    def __init__(self, build: Builder, batch: int, length: int, width: int) -> None:
        rng = build.rng
        self.build = build
        self.batch, self.length, self.width = batch, length, width
        size = int(rng.choice([s for s in (32, 48, 64) if width % s == 0] or [width]))
        self.heads, self.size = width // size, size
        self.flat = bool(rng.random() < 0.4)
        self.before = bool(rng.random() < 0.5)
        self.packed = bool(rng.random() < 0.3)
        self.hidden = int(width * rng.choice((2, 3, 4, 4)))
        self.act = str(rng.choice(("gelu", "gelu", "tanh", "relu", "silu")))

    def shaped(self, x: str, *shape: int) -> str:
        to = self.build.stored(np.array(shape, np.int64))
        return self.build.node("Reshape", [x, to], shape)

    def linear(self, x: str, columns: int) -> str:
        """Add a product with weights and a bias: Gemm on two dims, else MatMul and Add."""
        build = self.build
        shape = build.shapes[x]
        weight = build.weight(shape[-1], columns, fan=shape[-1])
        bias = build.weight(columns, fan=100)
        if self.flat:
            rows = math.prod(shape[:-1])
            x = self.shaped(x, rows, shape[-1])
            y = build.node("Gemm", [x, weight, bias], (rows, columns))
            return self.shaped(y, *shape[:-1], columns)
        y = build.node("MatMul", [x, weight], (*shape[:-1], columns))
        return build.node("Add", [y, bias], (*shape[:-1], columns))

    def normalized(self, x: str) -> str:
        build = self.build
        stats = [build.weight(self.width, fan=100, mean=m) for m in (1.0, 0.0)]
        return build.node("LayerNormalization", [x, *stats], build.shapes[x], axis=-1)

    def heads_of(self, x: str, turned: bool = False) -> str:
        y = self.shaped(x, self.batch, self.length, self.heads, self.size)
        perm = (0, 2, 3, 1) if turned else (0, 2, 1, 3)
        shape = [self.build.shapes[y][axis] for axis in perm]
        return self.build.node("Transpose", [y], shape, perm=perm)

    def attention(self, x: str) -> str:
        build = self.build
        batch, length, heads, size = self.batch, self.length, self.heads, self.size
        if self.packed:
            whole = self.linear(x, 3 * self.width)
            sizes = build.stored(np.full(3, self.width, np.int64))
            parts = build.nodes("Split", [whole, sizes], [(batch, length, self.width)] * 3, axis=-1)
        else:
            parts = tuple(self.linear(x, self.width) for _ in range(3))
        query, key, value = (
            self.heads_of(part, turned=index == 1) for index, part in enumerate(parts)
        )
        square = (batch, heads, length, length)
        scores = build.node("MatMul", [query, key], square)
        scale = build.number(1 / math.sqrt(size))
        scores = build.node("Mul", [scores, scale], square)
        shares = build.node("Softmax", [scores], square, axis=-1)
        mixed = build.node("MatMul", [shares, value], (batch, heads, length, size))
        mixed = build.node("Transpose", [mixed], (batch, length, heads, size), perm=(0, 2, 1, 3))
        return self.linear(self.shaped(mixed, batch, length, self.width), self.width)

    def activated(self, x: str) -> str:
        build = self.build
        shape = build.shapes[x]

        def each(op: str, *inputs: str | float) -> str:
            names = [i if isinstance(i, str) else build.number(i) for i in inputs]
            return build.node(op, names, shape)

        if self.act == "relu":
            return each("Relu", x)
        if self.act == "silu":
            return each("Mul", x, each("Sigmoid", x))
        if self.act == "gelu":
            inner = each("Add", each("Erf", each("Div", x, math.sqrt(2))), 1.0)
            return each("Mul", each("Mul", x, inner), 0.5)
        cubic = each("Mul", each("Pow", x, 3.0), 0.044715)
        inner = each("Tanh", each("Mul", each("Add", x, cubic), math.sqrt(2 / math.pi)))
        return each("Mul", each("Mul", x, 0.5), each("Add", inner, 1.0))

    def perceptron(self, x: str) -> str:
        return self.linear(self.activated(self.linear(x, self.hidden)), self.width)

    def layer(self, x: str) -> str:
        build = self.build
        for part in (self.attention, self.perceptron):
            y = part(self.normalized(x) if self.before else x)
            x = build.node("Add", [x, y], build.shapes[x])
            if not self.before:
                x = self.normalized(x)
        return x


def transformer(name: str, rng: np.random.Generator, flops: float) -> onnx.ModelProto:
    """Return one to twelve layers with about `flops` in total."""
    build = Builder(name, rng)
    batch = int(rng.choice((1, 1, 1, 2, 4)))
    length, width = int(rng.choice(_LENGTHS)), int(rng.choice(_WIDTHS))
    layers = _Layers(build, batch, length, width)
    a_layer = 2 * batch * length * width * (4 * width + 2 * layers.hidden + 2 * length)
    x = build.value(batch, length, width)
    for _ in range(max(1, min(12, int(flops / a_layer)))):
        x = layers.layer(x)
    return build.model(x)


def perceptron(name: str, rng: np.random.Generator, flops: float) -> onnx.ModelProto:
    """Return a chain of products with weights, of few or many rows, as in classifier heads."""
    build = Builder(name, rng)
    rows = int(rng.choice((1, 1, 1, 1, 2, 3, 4, 8, 16, 49, 64, 196, 256, 512)))
    sizes = (64, 100, 128, 192, 256, 384, 512, 768, 1000, 1024, 1536, 2048, 3072, 4096, 9216)
    most = int(rng.choice((3e6, 10e6, 30e6, 90e6)))
    x = build.value(rows, int(rng.choice(sizes)))
    stored, spent = 0, 0.0
    for _ in range(int(rng.choice((2, 3, 4, 6)))):
        depth = build.shapes[x][1]
        columns = int(rng.choice(sizes))
        if stored + depth * columns > most:
            columns = 64
        stored += depth * columns
        spent += 2.0 * rows * depth * columns
        turned = bool(rng.random() < 0.6)
        weight = build.weight(*((columns, depth) if turned else (depth, columns)), fan=depth)
        bias = build.weight(columns, fan=100)
        x = build.node("Gemm", [x, weight, bias], (rows, columns), transB=int(turned))
        if rng.random() < 0.7:
            x = build.node("Relu", [x], (rows, columns))
        if spent > flops:
            break
    return build.model(build.node("Softmax", [x], build.shapes[x], axis=-1))
