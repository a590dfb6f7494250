"""Generated networks of single layers side by side: what blocks have little of."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import onnx

from hetsim.calibration.design.builder import Builder


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
    """Return `count` layers that read inputs of their own, of the kinds at `kinds`."""
    build = Builder(name, rng)
    outputs = [KINDS[int(rng.choice(list(kinds)))](build) for _ in range(count)]
    return build.model(*outputs)
