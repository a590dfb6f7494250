"""Generated networks to measure: convolutional ones, and all of them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import onnx

from hetsim.cost.calibration.builder import KINDS, Builder, perceptron, single, transformer

_WIDTHS = (
    16, 24, 32, 32, 40, 48, 64, 64, 64, 72, 80, 96, 112, 128, 128, 128, 160, 192, 224, 256, 256,
    256, 320, 384, 512, 512, 768,
)  # fmt: skip
"""Channel counts of published networks, with common ones repeated."""

_SIDES = (7, 10, 13, 14, 19, 20, 26, 27, 28, 32, 40, 52, 56, 64, 80, 104, 112, 128, 160, 224)
_ACTIVATIONS = ("relu", "relu", "relu", "clip", "silu", "hardswish", "leaky", "none", "sigmoid")
_MOST_ELEMENTS = 1 << 21
_MOST_WEIGHTS = (1 << 20, 6 << 20, 6 << 20, 30 << 20)


class _Net:
    """Builder with the current value, and the random choices of blocks."""

    def __init__(self, build: Builder, budget_flops: float) -> None:
        self.build = build
        self.rng = build.rng
        self.left_flops = budget_flops
        self.act = str(self.rng.choice(_ACTIVATIONS))

    def pick(self, *values: int) -> int:
        return int(self.rng.choice(values))

    def width(self, channels: int) -> int:
        """Return a common number of channels around `channels`, sometimes an odd one."""
        if self.rng.random() < 0.12:
            return int(self.rng.integers(max(4, channels // 2), 2 * channels + 2))
        near = [w for w in _WIDTHS if channels / 2 <= w <= channels * 2]
        return self.pick(*(near or (channels,)))

    def activate(self, x: str, kind: str | None = None) -> str:
        kind = kind or self.act
        shape = self.build.shapes[x]
        node = self.build.node
        if kind == "relu":
            return node("Relu", [x], shape)
        if kind == "clip":
            bounds = [self.build.number(v) for v in (0.0, 6.0)]
            return node("Clip", [x, *bounds], shape)
        if kind == "leaky":
            return node("LeakyRelu", [x], shape, alpha=0.1)
        if kind == "sigmoid":
            return node("Sigmoid", [x], shape)
        if kind == "hardswish":
            return node("HardSwish", [x], shape)
        if kind == "silu":
            return node("Mul", [x, node("Sigmoid", [x], shape)], shape)
        return x

    def conv(
        self,
        x: str,
        columns: int,
        window: tuple[int, int] = (1, 1),
        stride: int = 1,
        groups: int = 1,
        act: str | None = None,
        dilation: int = 1,
    ) -> str:
        batch, channels, height, wide = self.build.shapes[x]
        depth = channels // groups
        pads = [(k - 1) * dilation // 2 for k in window]
        out = [
            (size + 2 * pad - dilation * (k - 1) - 1) // stride + 1
            for size, pad, k in zip((height, wide), pads, window, strict=True)
        ]
        weight = self.build.weight(columns, depth, *window, fan=depth * math.prod(window))
        inputs = [x, weight]
        if self.rng.random() < 0.9:
            inputs.append(self.build.weight(columns, fan=100))
        made = self.build.node(
            "Conv",
            inputs,
            (batch, columns, *out),
            kernel_shape=window,
            strides=[stride] * 2,
            pads=[*pads, *pads],
            group=groups,
            dilations=[dilation] * 2,
        )
        self.left_flops -= 2 * batch * columns * depth * math.prod(window) * math.prod(out)
        return self.activate(made, act)

    def pool(self, x: str, kind: str, window: int, stride: int) -> str:
        batch, channels, height, wide = self.build.shapes[x]
        pad = (window - 1) // 2
        out = [(size + 2 * pad - window) // stride + 1 for size in (height, wide)]
        return self.build.node(
            kind,
            [x],
            (batch, channels, *out),
            kernel_shape=[window] * 2,
            strides=[stride] * 2,
            pads=[pad] * 4,
        )

    def add(self, a: str, b: str) -> str:
        return self.build.node("Add", [a, b], self.build.shapes[a])

    def concat(self, *parts: str) -> str:
        batch, _, *rest = self.build.shapes[parts[0]]
        total = sum(self.build.shapes[part][1] for part in parts)
        return self.build.node("Concat", parts, (batch, total, *rest), axis=1)

    def too_large(self, channels: int, side: int, batch: int) -> bool:
        return channels * side * side * batch > _MOST_ELEMENTS


def _stride(net: _Net, x: str) -> int:
    return net.pick(1, 1, 1, 2) if net.build.shapes[x][-1] >= 8 else 1


def _plain(net: _Net, x: str) -> str:
    channels = net.build.shapes[x][1]
    k = net.pick(1, 1, 3, 3, 3, 5)
    return net.conv(x, net.width(channels), (k, k), _stride(net, x))


def _basic(net: _Net, x: str) -> str:
    channels = net.build.shapes[x][1]
    y = net.conv(x, channels, (3, 3))
    y = net.conv(y, channels, (3, 3), act="none")
    return net.activate(net.add(y, x))


def _bottleneck(net: _Net, x: str) -> str:
    channels, stride = net.build.shapes[x][1], _stride(net, x)
    inner = net.width(max(8, channels // 4))
    y = net.conv(x, inner)
    groups = net.pick(1, 1, 1, 2, 4, 8, 32)
    groups = groups if inner % groups == 0 else 1
    y = net.conv(y, inner, (3, 3), stride, groups)
    y = net.conv(y, channels, act="none")
    skip = x if stride == 1 else net.conv(x, channels, (1, 1), stride, act="none")
    return net.activate(net.add(y, skip))


def _inverted(net: _Net, x: str) -> str:
    channels, stride = net.build.shapes[x][1], _stride(net, x)
    inner = channels * net.pick(1, 2, 3, 4, 6)
    k = net.pick(3, 3, 3, 5, 7)
    y = net.conv(x, inner) if inner > channels else x
    y = net.conv(y, inner, (k, k), stride, inner)
    if net.rng.random() < 0.25:
        y = _excite(net, y)
    columns = channels if stride == 1 and net.rng.random() < 0.6 else net.width(channels)
    y = net.conv(y, columns, act="none")
    return net.add(y, x) if net.build.shapes[y] == net.build.shapes[x] else y


def _excite(net: _Net, x: str) -> str:
    batch, channels, *_ = net.build.shapes[x]
    y = net.build.node("GlobalAveragePool", [x], (batch, channels, 1, 1))
    y = net.conv(y, max(4, channels // net.pick(4, 8, 16)), act="relu")
    y = net.conv(y, channels, act="sigmoid")
    return net.build.node("Mul", [x, y], net.build.shapes[x])


def _inception(net: _Net, x: str) -> str:
    channels = net.build.shapes[x][1]
    part = max(8, net.width(channels) // 4)
    k = net.pick(3, 5)
    wide = net.pick(3, 7)
    branches = [net.conv(x, net.width(part))]
    branches.append(net.conv(net.conv(x, net.width(part)), net.width(part), (k, k)))
    if net.rng.random() < 0.4:
        y = net.conv(net.conv(x, net.width(part)), net.width(part), (1, wide))
        branches.append(net.conv(y, net.width(part), (wide, 1)))
    pooled = net.pool(x, str(net.rng.choice(("MaxPool", "AveragePool"))), 3, 1)
    branches.append(net.conv(pooled, net.width(part)))
    return net.concat(*branches)


def _dense(net: _Net, x: str) -> str:
    growth, scaled = net.pick(16, 32, 48), net.rng.random() < 0.3
    for _ in range(3):
        channels = net.build.shapes[x][1]
        y = x
        if net.rng.random() < 0.7:
            stats = [net.build.weight(channels, fan=100, mean=m) for m in (1.0, 0.0, 0.0)]
            stats.append(net.build.stored(np.ones(channels, np.float32)))
            y = net.build.node("BatchNormalization", [x, *stats], net.build.shapes[x])
            if scaled:
                # Frameworks before 2017 scale and shift in separate nodes.
                factor, shift = (net.build.weight(channels, 1, 1, fan=100, mean=m) for m in (1, 0))
                y = net.build.node("Mul", [y, factor], net.build.shapes[x])
                y = net.build.node("Add", [y, shift], net.build.shapes[x])
            y = net.activate(y, "relu")
        y = net.conv(net.conv(y, 4 * growth), growth, (3, 3), act="none")
        x = net.concat(x, y)
    return x


def _fire(net: _Net, x: str) -> str:
    channels = net.build.shapes[x][1]
    y = net.conv(x, max(8, channels // net.pick(4, 8)))
    grown = net.width(max(16, channels // 2))
    return net.concat(net.conv(y, grown), net.conv(y, grown, (3, 3)))


def _shuffle(net: _Net, x: str) -> str:
    batch, channels, height, wide = net.build.shapes[x]
    groups = net.pick(2, 3, 4, 8)
    if channels % groups or channels < 4 * groups:
        return _inverted(net, x)
    y = net.conv(x, channels, (1, 1), 1, groups)
    split = (batch, groups, channels // groups, height, wide)
    turned = (batch, channels // groups, groups, height, wide)
    to = net.build.stored(np.array(split, np.int64))
    y = net.build.node("Reshape", [y, to], split)
    y = net.build.node("Transpose", [y], turned, perm=[0, 2, 1, 3, 4])
    y = net.build.node(
        "Reshape", [y, net.build.stored(np.array((batch, channels, height, wide), np.int64))],
        (batch, channels, height, wide),
    )  # fmt: skip
    y = net.conv(y, channels, (3, 3), 1, channels, act="none")
    y = net.conv(y, channels, (1, 1), 1, groups, act="none")
    return net.activate(net.add(y, x))


def _pooled(net: _Net, x: str) -> str:
    if net.build.shapes[x][-1] < 8:
        return _plain(net, x)
    kind = str(net.rng.choice(("MaxPool", "MaxPool", "AveragePool")))
    return _plain(net, net.pool(x, kind, net.pick(2, 3), 2))


def _local(net: _Net, x: str) -> str:
    """Add a normalization over neighbouring channels, as in networks of 2012 to 2014."""
    y = net.build.node("LRN", [x], net.build.shapes[x], size=5, alpha=1e-4, beta=0.75)
    return _plain(net, y)


def _upsampled(net: _Net, x: str) -> str:
    batch, channels, height, wide = net.build.shapes[x]
    if net.too_large(channels, 2 * height, batch):
        return _plain(net, x)
    shape = (batch, channels, 2 * height, 2 * wide)
    if net.rng.random() < 0.4:
        columns = max(8, channels // 2)
        weight = net.build.weight(channels, columns, 2, 2, fan=channels)
        y = net.build.node(
            "ConvTranspose", [x, weight], (batch, columns, *shape[2:]),
            kernel_shape=[2, 2], strides=[2, 2],
        )  # fmt: skip
        net.left_flops -= 8 * batch * channels * columns * height * wide
        return _plain(net, y)
    scales = net.build.stored(np.array([1, 1, 2, 2], np.float32))
    mode = str(net.rng.choice(("nearest", "nearest", "linear")))
    how = {"mode": mode, "coordinate_transformation_mode": "asymmetric"}
    if mode == "nearest":
        how["nearest_mode"] = "floor"
    return _plain(net, net.build.node("Resize", [x, "", scales], shape, **how))


def _dilated(net: _Net, x: str) -> str:
    channels = net.build.shapes[x][1]
    return net.conv(x, net.width(channels), (3, 3), dilation=net.pick(2, 4))


_BLOCKS: tuple[tuple[float, Callable[[_Net, str], str]], ...] = (
    (3.0, _plain), (2.0, _basic), (2.5, _bottleneck), (3.0, _inverted), (1.5, _inception),
    (1.5, _dense), (1.0, _fire), (2.0, _shuffle), (1.5, _pooled), (0.8, _local),
    (0.5, _upsampled), (0.3, _dilated),
)  # fmt: skip


def convolutional(name: str, rng: np.random.Generator, flops: float) -> onnx.ModelProto:
    """Return a network of blocks of one to three kinds, with about `flops` in total."""
    build = Builder(name, rng)
    net = _Net(build, flops)
    batch = net.pick(1, 1, 1, 1, 1, 2, 4)
    weights = np.array([weight for weight, _ in _BLOCKS])
    kinds = rng.choice(
        len(_BLOCKS), size=net.pick(1, 2, 3), replace=False, p=weights / weights.sum()
    )
    if rng.random() < 0.4:
        side = net.pick(96, 128, 160, 192, 224, 224, 256)
        k = net.pick(3, 3, 5, 7, 11)
        stride = 4 if k == 11 else 2
        x = build.value(1, 3, side, side)
        x = net.conv(x, net.pick(16, 24, 32, 48, 64, 96), (k, k), stride)
        if rng.random() < 0.5:
            x = net.pool(x, "MaxPool", 3, 2)
    else:
        side = net.pick(*_SIDES)
        room = _MOST_ELEMENTS / (side * side * batch)
        fitting = [w for w in _WIDTHS if w <= room and w * side <= 8000]
        x = build.value(batch, net.pick(*(fitting or (16,))), side, side)
    most = net.pick(*_MOST_WEIGHTS)
    for _ in range(net.pick(4, 6, 8, 12, 20)):
        block = _BLOCKS[int(rng.choice(kinds))][1]
        x = block(net, x)
        full = math.prod(build.shapes[x]) > _MOST_ELEMENTS or build.stored_elements > most
        if net.left_flops < 0 or full:
            break
    if rng.random() < 0.5:
        batch, channels, *_ = build.shapes[x]
        x = build.node("GlobalAveragePool", [x], (batch, channels, 1, 1))
        x = build.node("Flatten", [x], (batch, channels))
        columns = net.pick(10, 100, 1000)
        x = build.node(
            "Gemm", [x, build.weight(columns, channels, fan=channels), build.weight(columns)],
            (batch, columns), transB=1,
        )  # fmt: skip
    return build.model(x)


VERSION = 2
"""Version of the networks: measurements of other versions are not continued."""

_FLOPS = (1e8, 2.5e9)
"""Range of FLOP of a network: from below one to about ten milliseconds on a CPU core."""

_KINDS = ("convolutional", "convolutional", "transformer", "convolutional", "single", "perceptron")


@dataclass(frozen=True, slots=True)
class Generated:
    """Generated network, built on demand."""

    index: int
    kind: str

    @property
    def name(self) -> str:
        return f"{self.kind}-{self.index}"

    def build(self) -> onnx.ModelProto:
        """Return the network, which is deterministic."""
        rng = np.random.default_rng([VERSION, self.index])
        flops = float(np.exp(rng.uniform(np.log(_FLOPS[0]), np.log(_FLOPS[1]))))
        if self.kind == "single":
            return single(self.name, rng, (self.index // len(_KINDS) % len(KINDS),), 8)
        make: Callable[..., onnx.ModelProto] = {
            "convolutional": convolutional,
            "transformer": transformer,
            "perceptron": perceptron,
        }[self.kind]
        return make(self.name, rng, flops)


def networks(count: int) -> tuple[Generated, ...]:
    """Return the first `count` networks; any prefix contains all kinds."""
    return tuple(Generated(index, _KINDS[index % len(_KINDS)]) for index in range(count))
