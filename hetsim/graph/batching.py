"""Widening of a model exported for one request at a time to take several at once.

Exporters fix the batch at 1 unless configured otherwise: in the inputs, in shapes of reshapes, in
constants combined with each request. The analysis shows operator by operator along which axis
requests are stacked and that they do not interact, and widens what is fixed at one request. Sources
of the rules: the operators' definitions, https://onnx.ai/onnx/operators/ and
https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from hetsim.errors import ModelError, UnboundDimension
from hetsim.graph.graph import Graph
from hetsim.graph.work.elementwise import ARITHMETIC, TRANSCENDENTAL
from hetsim.graph.work.rule import NodeView, op_key


class MixedError(Exception):
    """Error about an op that mixes the requests of a batch, or may do so, with the reason."""


@dataclass(frozen=True, slots=True)
class BatchedNode(NodeView):
    """Node of one request, with the changes needed for several.

    Results of several requests are those of each alone, concatenated along an axis in `axes`, which
    becomes `size` times as long; other values are the same for all. `tiled` inputs, which are
    constants in `stored`, are repeated per request along an axis; integer inputs in `sizes` are
    replaced; `reshape` is the target shape of a Reshape that replaces the node.
    """

    axes: Mapping[str, int]
    size: int
    stored: Collection[str]
    tiled: dict[int, int] = field(default_factory=dict)
    sizes: dict[int, tuple[int, ...]] = field(default_factory=dict)
    reshape: list[int] = field(default_factory=list)

    def axis(self, place: int) -> int | None:
        """Return the request axis of an input; None if all requests share it, or it is absent."""
        return self.axes.get(self.node.inputs[place]) if self.has(place) else None

    def out_shape(self) -> tuple[int, ...]:
        """Shape of the first output for one request."""
        return self.output().static_shape

    def data(self, *others: int) -> int:
        """Return the request axis of the first input; raise if inputs besides `others` have one."""
        self.alone(0, *others)
        axis = self.axis(0)
        assert axis is not None
        return axis

    def along(self, axis: int) -> int:
        """Return an axis of the first input, counted from the front."""
        return axis % len(self.shape(0))

    def alone(self, *places: int) -> None:
        """Raise MixedError if inputs other than these differ by request."""
        for place in range(len(self.node.inputs)):
            if place not in places and self.axis(place) is not None:
                raise MixedError(f"its input {place} differs by request")

    def same(self, place: int, axis: int, length: int) -> None:
        """Broadcast an input shared by all requests to this length."""
        there = self.shape(place)[axis]
        if there == length > 1:
            self.repeat(place, axis)
        elif there != 1:
            raise MixedError(
                f"its input {place} has {there} entries along the axis of the requests"
            )

    def repeat(self, place: int, axis: int) -> None:
        """Repeat an input shared by all requests along one of its axes, once per request."""
        if self.node.inputs[place] not in self.stored:
            raise MixedError(
                f"its input {place} is the same for all requests, but is not a constant"
            )
        self.tiled[place] = axis

    def grown(self, shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
        """Return the shape of several requests together."""
        return (*shape[:axis], shape[axis] * self.size, *shape[axis + 1 :])


Rule = Callable[[BatchedNode], int | tuple[int, ...]]
"""Function to the request axis of every output, or to one axis for all.

It raises MixedError if the result of one request depends on others, or may do so.
"""

_MS = "com.microsoft"
_UNLIKE = "its inputs have the requests along different axes"
_OVER_ALL = "it normalises over all requests"


def _elementwise(step: BatchedNode, places: Iterable[int] | None = None) -> int:
    """Return the output axis of an op whose elements depend on input elements at the same place."""
    chosen = range(len(step.node.inputs)) if places is None else places
    taken = [place for place in chosen if step.has(place)]
    step.alone(*taken)
    found: set[tuple[int, int]] = set()
    for place in taken:
        axis = step.axis(place)
        if axis is not None:
            shape = step.shape(place)
            found.add((axis - len(shape), shape[axis]))
    if len(found) > 1:
        raise MixedError(_UNLIKE)
    [(behind, length)] = found
    out = step.out_shape()
    if out[behind] != length:
        raise MixedError("it broadcasts an axis on which each request has one entry")
    for place in taken:
        if step.axis(place) is None and len(step.shape(place)) >= -behind:
            step.same(place, behind + len(step.shape(place)), length)
    return len(out) + behind


def _linear(step: BatchedNode) -> int:
    """Return the axis of (de)quantization, whose scales along an axis must be along another one."""
    axis = step.data()
    if step.shape(1) not in ((), (1,)) and (
        step.along(step.integer("axis", 1)) == axis or len(step.shape(1)) > 1
    ):
        raise MixedError("its scales lie along the axis of the requests")
    return axis


def _images(step: BatchedNode) -> int:
    """Return the axis of layers on images, features or sequences: the first one."""
    if step.data() != 0:
        raise MixedError("its first axis is not that of the requests")
    return 0


def _normalisation(step: BatchedNode) -> int:
    if step.integer("training_mode", 0) or any(step.node.outputs[1:]):
        raise MixedError("it takes means over all requests, as in training")
    return _images(step)


def _pool(step: BatchedNode) -> int:
    if step.has_output(1):
        raise MixedError("its second output counts over all requests")
    return _images(step)


def _fused_convolution(step: BatchedNode) -> int:
    """Return the axis of a convolution with a fused sum, whose summand differs by request."""
    if step.has(3) and step.axis(3) is not None:
        if (step.axis(0), step.axis(3)) != (0, 0):
            raise MixedError("the values that it adds differ by request")
        return step.data(3)
    if step.has(3):
        step.repeat(3, 0)
    return _images(step)


def _normalised_from(step: BatchedNode, axis: int = -1) -> int:
    """Return the axis of a normalization over all axes from `axis` on."""
    data = step.data()
    if data >= step.along(step.integer("axis", axis)):
        raise MixedError(_OVER_ALL)
    return data


def _normalised_sum(step: BatchedNode) -> int:
    """Return the axis of a normalized sum over the last axis, which may also output the sum."""
    axis = _elementwise(step, [0, 1] if step.axis(4) is None else [0, 1, 4])
    if axis == len(step.shape(0)) - 1:
        raise MixedError(_OVER_ALL)
    if any(step.node.outputs[1:3]):
        raise MixedError("it also outputs means and variances")
    return axis


def _softmax(step: BatchedNode) -> int:
    if step.graph.opsets.get(step.node.domain, 1) < 13:
        return _normalised_from(step, 1)
    return _not_along(step, step.integer("axis", -1))


def _not_along(step: BatchedNode, along: int) -> int:
    axis = step.data()
    if step.along(along) == axis:
        raise MixedError("it works along the axis of the requests")
    return axis


def _cumulative(step: BatchedNode) -> int:
    along = step.constant(1)
    if along is None:
        raise MixedError("its axes are unknown")
    return _not_along(step, int(along[0]))


def _product(step: BatchedNode, left: int = 0, right: int = 1) -> int:
    """Return the axis of a stacked matrix product of left rows and right columns."""
    step.alone(left, right)
    a, b = step.shape(left), step.shape(right)
    turned = [bool(step.integer(name, 0)) for name in ("transA", "transB")]
    if any(step.integer(name, 0) for name in ("transBatchA", "transBatchB")):
        raise MixedError("it reverses the axis of the requests")
    if min(len(a), len(b)) < 2:
        raise MixedError("it takes a vector")
    found: set[int] = set()
    for place, shape, other, summed in (
        (left, a, b, -2 if turned[0] else -1),
        (right, b, a, -1 if turned[1] else -2),
    ):
        axis = step.axis(place)
        if axis is None:
            continue
        behind = axis - len(shape)
        if behind == summed:
            raise MixedError("it sums over all requests")
        if behind >= -2:
            found.add(-2 if place == left else -1)
            continue
        found.add(behind)
        if len(other) < -behind:
            continue
        across = len(other) + behind
        elsewhere = right if place == left else left
        if step.axis(elsewhere) is None:
            step.same(elsewhere, across, shape[axis])
        elif other[across] != shape[axis]:
            raise MixedError(_UNLIKE)
    if len(found) > 1:
        raise MixedError(_UNLIKE)
    [behind] = found
    return len(step.out_shape()) + behind


def _gemm(step: BatchedNode) -> int:
    axis = step.data()
    if axis != (1 if step.integer("transA", 0) else 0):
        raise MixedError("it sums over all requests")
    if step.has(2) and len(step.shape(2)) == 2:
        step.same(2, 0, step.shape(0)[axis])
    return 0


def _transpose(step: BatchedNode) -> int:
    axis = step.data()
    order = step.integers("perm") or tuple(reversed(range(len(step.shape(0)))))
    return order.index(axis)


def _reshape(step: BatchedNode) -> int:
    if math.prod(step.shape(0)[: step.data()]) != 1:
        raise MixedError("its input does not hold the requests one after another")
    out = step.out_shape()
    if not out or 0 in out:
        raise MixedError("its output has no axis for the requests")
    step.reshape[:] = step.grown(out, 0)
    return 0


def _flatten(step: BatchedNode) -> int:
    axis, first = step.data(), step.integer("axis", 1)
    if first < 0:
        first += len(step.shape(0))
    if math.prod(step.shape(0)[:axis]) == 1 and first > axis:
        return 0
    return _reshape(step)


def _axes(step: BatchedNode, rank: int) -> set[int] | None:
    """Return the axes given by attribute or input; None if none are given."""
    given = step.integers("axes") or step.constant(1)
    return None if given is None else {int(at) % rank for at in given}


def _squeeze(step: BatchedNode) -> int:
    axis = step.data()
    axes = _axes(step, len(step.shape(0)))
    if axes is None or axis in axes:
        # With several requests that axis is no longer 1.
        return _reshape(step)
    return axis - sum(at < axis for at in axes)


def _unsqueeze(step: BatchedNode) -> int:
    axis, rank = step.data(), len(step.out_shape())
    added = _axes(step, rank)
    if added is None:
        raise MixedError("its new axes are unknown")
    return [at for at in range(rank) if at not in added][axis]


def _concat(step: BatchedNode) -> int:
    places = range(len(step.node.inputs))
    found = {place: axis for place in places if (axis := step.axis(place)) is not None}
    if len(set(found.values())) > 1:
        raise MixedError(_UNLIKE)
    own, axis = next(iter(found.items()))
    if step.along(step.integer("axis", 1)) == axis:
        raise MixedError("it concatenates along the axis of the requests")
    for place in places:
        if place not in found:
            step.repeat(place, axis)
        elif step.shape(place)[axis] != step.shape(own)[axis]:
            raise MixedError("its inputs have different lengths along the axis of the requests")
    return axis


def _slice(step: BatchedNode) -> int:
    axis = step.data()
    starts = step.integers("starts")
    axes: tuple[int, ...] | None
    if starts:
        axes = step.integers("axes") or tuple(range(len(starts)))
    else:
        axes = step.constant(3) if step.has(3) else tuple(range(step.shape(1)[0]))
    if axes is None or axis in {step.along(int(at)) for at in axes}:
        raise MixedError("it slices the axis of the requests")
    return axis


def _pad(step: BatchedNode) -> int:
    axis = step.data()
    pads = step.integers("pads") or step.constant(1)
    if pads is None or step.has(3):
        raise MixedError("its axes of padding are unknown")
    if pads[axis] or pads[axis + len(step.shape(0))]:
        raise MixedError("it pads the axis of the requests")
    return axis


def _reduce(step: BatchedNode) -> int:
    axis = step.data()
    if step.has(1) and step.constant(1) is None:
        raise MixedError("its axes are unknown")
    axes = _axes(step, len(step.shape(0)))
    if not axes and step.integer("noop_with_empty_axes", 0):
        return axis
    if not axes or axis in axes:
        raise MixedError("it reduces over all requests")
    return axis if step.integer("keepdims", 1) else axis - sum(at < axis for at in axes)


def _arg(step: BatchedNode) -> int:
    along = step.along(step.integer("axis", 0))
    axis = _not_along(step, along)
    return axis if step.integer("keepdims", 1) else axis - (along < axis)


def _gather(step: BatchedNode) -> int:
    step.alone(0, 1)
    along = step.along(step.integer("axis", 0))
    data, indices = step.axis(0), step.axis(1)
    if indices is not None:
        if data is not None:
            raise MixedError("both its data and its indices differ by request")
        return along + indices
    assert data is not None
    if along == data:
        raise MixedError("it gathers along the axis of the requests")
    return data if data < along else data + len(step.shape(1)) - 1


def _expand(step: BatchedNode) -> int:
    axis = step.data()
    out = step.out_shape()
    place = len(out) + axis - len(step.shape(0))
    if out[place] != step.shape(0)[axis]:
        raise MixedError("it repeats along the axis of the requests")
    step.sizes[1] = step.grown(out, place)
    return place


def _tile(step: BatchedNode) -> int:
    axis = step.data()
    times = step.constant(1)
    if times is None or times[axis] != 1:
        raise MixedError("it repeats along the axis of the requests")
    return axis


def _resize(step: BatchedNode) -> int:
    axis = _images(step)
    if step.has(3):
        sizes = step.constant(3)
        if sizes is None or step.integers("axes"):
            raise MixedError("its output sizes are unknown")
        step.sizes[3] = step.grown(sizes, 0)
    if step.out_shape()[0] != step.shape(0)[0]:
        raise MixedError("it resizes the axis of the requests")
    return axis


def _recurrent(step: BatchedNode) -> tuple[int, ...]:
    """Return the axes of a recurrent layer: the second one of sequences and of initial states."""
    step.alone(0, 5, 6)
    if step.integer("layout", 0) or step.axis(0) != 1:
        raise MixedError("its second axis is not that of the requests")
    if step.has(4):
        raise MixedError("it has lengths of sequences")
    for place in (5, 6):
        if step.has(place) and step.axis(place) is None:
            step.repeat(place, 1)
        elif step.has(place) and step.axis(place) != 1:
            raise MixedError("its initial state differs by request")
    return (2, 1, 1)


def _attention(step: BatchedNode) -> int:
    if any(step.has(place) for place in range(3, len(step.node.inputs))):
        raise MixedError("it has masks or a past")
    return _images(step)


_EACH = (
    *ARITHMETIC, *(TRANSCENDENTAL.keys() - {"SwiGLU"}),
    "CastLike", "Dropout", "Gelu", "Identity", "Max", "Mean", "Min", "Pow", "Sum",
    f"{_MS}:BiasGelu", f"{_MS}:FastGelu", f"{_MS}:Gelu", f"{_MS}:QuickGelu",
)  # fmt: skip

_LAYERS = (
    "AveragePool", "Conv", "ConvInteger", "ConvTranspose", "DepthToSpace",
    "GlobalAveragePool", "GlobalLpPool", "GlobalMaxPool", "GroupNormalization",
    "InstanceNormalization", "LRN", "LpPool", "QLinearConv", "SpaceToDepth",
    f"{_MS}:QLinearAveragePool", f"{_MS}:QLinearGlobalAveragePool",
)  # fmt: skip

_REDUCTIONS = (
    "ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean",
    "ReduceMin", "ReduceProd", "ReduceSum", "ReduceSumSquare",
)  # fmt: skip

RULES: dict[str, Rule] = {
    **dict.fromkeys(_EACH, _elementwise),
    **dict.fromkeys(_LAYERS, _images),
    **dict.fromkeys(_REDUCTIONS, _reduce),
    **dict.fromkeys(("GRU", "LSTM", "RNN"), _recurrent),
    **dict.fromkeys(("LogSoftmax", "Softmax", "Hardmax"), _softmax),
    **dict.fromkeys(("ArgMax", "ArgMin"), _arg),
    **dict.fromkeys(("LpNormalization", "TopK"), lambda s: _not_along(s, s.integer("axis", -1))),
    **dict.fromkeys(("MatMul", "MatMulInteger", f"{_MS}:FusedMatMul"), _product),
    **dict.fromkeys(
        ("LayerNormalization", "RMSNormalization", "SimplifiedLayerNormalization"), _normalised_from
    ),
    **dict.fromkeys(
        (f"{_MS}:SkipLayerNormalization", f"{_MS}:SkipSimplifiedLayerNormalization"),
        _normalised_sum,
    ),
    **dict.fromkeys(("QuantizeLinear", "DequantizeLinear"), _linear),
    **dict.fromkeys(
        (f"{_MS}:QLinearAdd", f"{_MS}:QLinearMul"), lambda step: _elementwise(step, (0, 3))
    ),
    **dict.fromkeys((f"{_MS}:QLinearLeakyRelu", f"{_MS}:QLinearSigmoid"), BatchedNode.data),
    **dict.fromkeys(("Gemm", f"{_MS}:FusedGemm"), _gemm),
    **dict.fromkeys(("Resize", "Upsample"), _resize),
    f"{_MS}:Attention": _attention,
    "BatchNormalization": _normalisation,
    "Concat": _concat,
    "CumSum": _cumulative,
    "Expand": _expand,
    "Flatten": _flatten,
    f"{_MS}:FusedConv": _fused_convolution,
    "Gather": _gather,
    "MaxPool": _pool,
    "Pad": _pad,
    "QLinearMatMul": lambda step: _product(step, 0, 3),
    "Reshape": _reshape,
    "Slice": _slice,
    "Split": lambda step: _not_along(step, step.integer("axis", 0)),
    "Squeeze": _squeeze,
    "Tile": _tile,
    "Transpose": _transpose,
    "Unsqueeze": _unsqueeze,
}
"""Rules by operator, keyed as by ``op_key``."""


class _BatchWriter:
    """Writer of the steps' changes into a model; equal constants are added once."""

    def __init__(self, proto: onnx.ModelProto, taken: set[str], weights_dir: Path | None) -> None:
        self._graph = proto.graph
        self._folder = "" if weights_dir is None else str(weights_dir)
        self._taken = taken
        self._added: dict[tuple[object, ...], str] = {}
        self.stored = {tensor.name: tensor for tensor in proto.graph.initializer}

    def write(self, node: onnx.NodeProto, step: BatchedNode) -> None:
        if step.reshape:
            shape = self._numbers(tuple(step.reshape), step.size)
            data = node.input[0]
            node.op_type = "Reshape"
            del node.input[:], node.attribute[:]
            node.input.extend((data, shape))
        for place, sizes in step.sizes.items():
            node.input[place] = self._numbers(sizes, step.size)
        for place, axis in step.tiled.items():
            key = name, _ = node.input[place], axis
            if key not in self._added:
                array = onnx.numpy_helper.to_array(self.stored[name], self._folder)
                times = [step.size if at == axis else 1 for at in range(array.ndim)]
                self._add(key, name, step.size, np.tile(array, times))
            node.input[place] = self._added[key]

    def _numbers(self, sizes: tuple[int, ...], size: int) -> str:
        if sizes not in self._added:
            self._add(sizes, "shape", size, np.array(sizes, dtype=np.int64))
        return self._added[sizes]

    def _add(self, key: tuple[object, ...], stem: str, size: int, array: NDArray[Any]) -> None:
        name = f"{stem} of {size} requests"
        while name in self._taken:
            name += "_"
        self._taken.add(name)
        self._added[key] = name
        self._graph.initializer.append(onnx.numpy_helper.from_array(array, name))


def widen(
    proto: onnx.ModelProto,
    graph: Graph,
    inputs: Collection[str],
    size: int,
    weights_dir: Path | None,
    where: str,
) -> None:
    """Widen a model of known shapes in place for several requests; ModelError if they mix."""
    axes = dict.fromkeys(inputs, 0)
    taken = {*graph.tensors, *(tensor.name for tensor in proto.graph.initializer)}
    writer = _BatchWriter(proto, taken, weights_dir)
    for node, written in zip(graph.nodes, proto.graph.node, strict=True):
        if axes.keys().isdisjoint((*node.inputs, *node.captures)):
            continue
        step = BatchedNode(graph, node, axes, size, writer.stored)
        rule = RULES.get(op_key(node))
        try:
            if rule is None or node.custom:
                raise MixedError("hetsim has no rule for it")
            if any(name not in node.inputs for name in node.captures):
                raise MixedError("it has a body (control flow)")
            found = rule(step)
        except (MixedError, UnboundDimension) as error:
            why = error.what if isinstance(error, UnboundDimension) else str(error)
            raise ModelError(
                "the model takes one request at a time and cannot be batched: node "
                f"{node.op_type} '{node.name}': {why}",
                where=where,
                hint="export the model with an open batch dimension",
            ) from None
        writer.write(written, step)
        each = (found,) * len(node.outputs) if isinstance(found, int) else found
        axes.update(zip(node.outputs, each, strict=False))
        axes.pop("", None)
    for value in proto.graph.input:
        if value.name in axes:
            value.type.tensor_type.shape.dim[0].dim_value = size
    for value in proto.graph.output:
        value.type.tensor_type.ClearField("shape")
    del proto.graph.value_info[:]
