"""Generated transformers: layers of attention and a perceptron, of drawn sizes and habits."""

from __future__ import annotations

import math

import numpy as np
import onnx

from hetsim.calibration.design.builder import Builder

_LENGTHS = (4, 8, 16, 32, 48, 64, 64, 77, 100, 128, 128, 196, 197, 197, 256, 384)
_WIDTHS = (64, 96, 128, 192, 256, 312, 384, 512, 768, 1024)


class _Layers:
    """What one network draws once and all its layers share."""

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
        """A product with weights and a bias, as Gemm on two dims or as MatMul and Add on three."""
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
    """Return one to twelve layers of about `flops` in all."""
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
    """Return a chain of products with weights, of few rows or many: as classifiers end."""
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
