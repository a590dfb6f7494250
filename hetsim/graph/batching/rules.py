"""What each operator does to requests that follow each other along an axis of its inputs.

A rule takes a step and returns that axis of every output. It raises MixedError where what one
request gives depends on others, or where that cannot be shown. Sources: the operators'
definitions, https://onnx.ai/onnx/operators/ and
https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from hetsim.graph.batching.step import MixedError, Step

Rule = Callable[[Step], int | tuple[int, ...]]
"""One axis where it is that of every output."""

_MS = "com.microsoft"


def _data(step: Step) -> int:
    """The axis of the first input, where no other differs by request."""
    step.alone(0)
    axis = step.axis(0)
    assert axis is not None
    return axis


def _elementwise(step: Step, places: Iterable[int] | None = None) -> int:
    """Entries of the output are of those of the inputs that stand at the same place."""
    chosen = range(len(step.node.inputs)) if places is None else places
    taken = [place for place in chosen if step.has(place)]
    step.alone(*taken)
    back: set[int] = set()
    lengths: set[int] = set()
    for place in taken:
        axis = step.axis(place)
        if axis is not None:
            shape = step.shape(place)
            back.add(axis - len(shape))
            lengths.add(shape[axis])
    if len(back) > 1 or len(lengths) > 1:
        raise MixedError("requests follow along unlike axes of its inputs")
    [behind], [length] = back, lengths
    out = step.out_shape()
    if out[behind] != length:
        raise MixedError("what requests have one entry of is broadcast there")
    for place in taken:
        if step.axis(place) is None and len(step.shape(place)) >= -behind:
            step.same(place, behind + len(step.shape(place)), length)
    return len(out) + behind


def _quantized_pair(step: Step) -> int:
    return _elementwise(step, (0, 3))


def _linear(step: Step) -> int:
    """To and from quantised values: scales along an axis are of another one."""
    axis = _data(step)
    if step.shape(1) not in ((), (1,)):
        along = step.attribute("axis", 1)
        if along % len(step.shape(0)) == axis or len(step.shape(1)) > 1:
            raise MixedError("its scales go along the axis of the requests")
    return axis


def _images(step: Step) -> int:
    """Layers of images, features or sequences, which stand along the first axis."""
    axis = _data(step)
    if axis != 0:
        raise MixedError("requests do not follow along its first axis")
    return 0


def _normalisation(step: Step) -> int:
    if step.attribute("training_mode", 0) or any(step.node.outputs[1:]):
        raise MixedError("it takes means over all requests, as in training")
    return _images(step)


def _pool(step: Step) -> int:
    if len(step.node.outputs) > 1 and step.node.outputs[1]:
        raise MixedError("its second output counts through all requests")
    return _images(step)


def _fused_convolution(step: Step) -> int:
    """A sum that is fused into it comes with each request."""
    if step.has(3) and step.axis(3) is not None:
        if (step.axis(0), step.axis(3)) != (0, 0):
            raise MixedError("what it adds is of other requests")
        step.alone(0, 3)
        return 0
    if step.has(3):
        step.repeat(3, 0)
    return _images(step)


def _normalised_from(step: Step) -> int:
    """Normalised over all axes from one on."""
    axis = _data(step)
    if axis >= step.attribute("axis", -1) % len(step.shape(0)):
        raise MixedError("it normalises over all requests")
    return axis


def _normalised_sum(step: Step) -> int:
    """The sum of inputs, normalised over the last axis; the sum may be an output, too."""
    places = [0, 1]
    if step.has(4) and step.axis(4) is not None:
        places.append(4)
    axis = _elementwise(step, places)
    if axis == len(step.shape(0)) - 1:
        raise MixedError("it normalises over all requests")
    if any(step.node.outputs[1:3]):
        raise MixedError("it gives means and variances, too")
    return axis


def _softmax(step: Step) -> int:
    if step.opset() < 13:
        old = step.attribute("axis", 1)
        axis = _data(step)
        if axis >= old % len(step.shape(0)):
            raise MixedError("it normalises over all requests")
        return axis
    return _not_along(step, step.attribute("axis", -1))


def _not_along(step: Step, along: int) -> int:
    axis = _data(step)
    if along % len(step.shape(0)) == axis:
        raise MixedError("it works along the axis of the requests")
    return axis


def _cumulative(step: Step) -> int:
    along = step.numbers(1)
    if along is None:
        raise MixedError("nothing says along which axis it adds")
    return _not_along(step, along[0])


def _product(step: Step, left: int = 0, right: int = 1) -> int:
    """A matrix product of stacks: rows of the left with columns of the right."""
    step.alone(left, right)
    a, b = step.shape(left), step.shape(right)
    turned = [bool(step.attribute(name, 0)) for name in ("transA", "transB")]
    if any(step.attribute(name, 0) for name in ("transBatchA", "transBatchB")):
        raise MixedError("it turns stacks round")
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
            raise MixedError("it adds up over all requests")
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
            raise MixedError("requests follow along unlike axes of its inputs")
    if len(found) > 1:
        raise MixedError("requests follow along unlike axes of its inputs")
    [behind] = found
    return len(step.out_shape()) + behind


def _quantized_product(step: Step) -> int:
    return _product(step, 0, 3)


def _gemm(step: Step) -> int:
    axis = _data(step)
    if axis != (1 if step.attribute("transA", 0) else 0):
        raise MixedError("it adds up over all requests")
    if step.has(2) and len(step.shape(2)) == 2:
        step.same(2, 0, step.shape(0)[axis])
    return 0


def _transpose(step: Step) -> int:
    axis = _data(step)
    rank = len(step.shape(0))
    order = step.integers("perm") or tuple(reversed(range(rank)))
    return order.index(axis)


def _reshape(step: Step) -> int:
    axis = _data(step)
    step.outermost(axis)
    out = step.out_shape()
    if not out or 0 in out:
        raise MixedError("what it gives has no axis for requests")
    step.edits.reshape = step.grown(out, 0)
    return 0


def _flatten(step: Step) -> int:
    axis = _data(step)
    step.outermost(axis)
    if step.attribute("axis", 1) % (len(step.shape(0)) + 1) > axis:
        return 0
    return _reshape(step)


def _squeeze(step: Step) -> int:
    axis = _data(step)
    shape = step.shape(0)
    given = step.integers("axes") or step.numbers(1)
    axes = (
        {at for at, n in enumerate(shape) if n == 1}
        if given is None
        else {int(at) % len(shape) for at in given}
    )
    if given is None or axis in axes:
        # Of several requests that axis is no longer 1.
        return _reshape(step)
    return axis - sum(at < axis for at in axes)


def _unsqueeze(step: Step) -> int:
    axis = _data(step)
    given = step.integers("axes") or step.numbers(1)
    if given is None:
        raise MixedError("nothing says which axes it adds")
    rank = len(step.out_shape())
    added = {int(at) % rank for at in given}
    return [at for at in range(rank) if at not in added][axis]


def _concat(step: Step) -> int:
    axes = {step.axis(place) for place in range(len(step.node.inputs))} - {None}
    if len(axes) > 1:
        raise MixedError("requests follow along unlike axes of its inputs")
    [axis] = axes
    assert axis is not None
    rank = len(step.shape(0))
    if step.attribute("axis", 1) % rank == axis:
        raise MixedError("it joins along the axis of the requests")
    own = next(at for at in range(len(step.node.inputs)) if step.axis(at) is not None)
    length = step.shape(own)[axis]
    for place in range(len(step.node.inputs)):
        if step.axis(place) is None:
            step.repeat(place, axis)
        elif step.shape(place)[axis] != length:
            raise MixedError("requests are of unlike lengths in its inputs")
    return axis


def _split(step: Step) -> int:
    return _not_along(step, step.attribute("axis", 0))


def _slice(step: Step) -> int:
    axis = _data(step)
    rank = len(step.shape(0))
    starts = step.integers("starts")
    axes: tuple[int, ...] | None
    if starts:
        axes = step.integers("axes") or tuple(range(len(starts)))
    else:
        axes = step.numbers(3) if step.has(3) else tuple(range(step.shape(1)[0]))
    if axes is None or axis in {int(at) % rank for at in axes}:
        raise MixedError("it takes a part of the axis of the requests")
    return axis


def _pad(step: Step) -> int:
    axis = _data(step)
    rank = len(step.shape(0))
    pads = step.integers("pads") or step.numbers(1)
    if pads is None or step.has(3):
        raise MixedError("nothing says along which axes it adds entries")
    if pads[axis] or pads[axis + rank]:
        raise MixedError("it adds entries to the axis of the requests")
    return axis


def _reduce(step: Step) -> int:
    axis = _data(step)
    rank = len(step.shape(0))
    given = step.integers("axes") or step.numbers(1)
    if step.has(1) and step.numbers(1) is None:
        raise MixedError("nothing says over which axes it goes")
    if not given:
        if step.attribute("noop_with_empty_axes", 0):
            return axis
        raise MixedError("it goes over all requests")
    axes = {int(at) % rank for at in given}
    if axis in axes:
        raise MixedError("it goes over all requests")
    if step.attribute("keepdims", 1):
        return axis
    return axis - sum(at < axis for at in axes)


def _arg(step: Step) -> int:
    along = step.attribute("axis", 0) % len(step.shape(0))
    axis = _not_along(step, along)
    return axis if step.attribute("keepdims", 1) else axis - (along < axis)


def _top(step: Step) -> int:
    return _not_along(step, step.attribute("axis", -1))


def _gather(step: Step) -> int:
    step.alone(0, 1)
    rank = len(step.shape(0))
    along = step.attribute("axis", 0) % rank
    data, indices = step.axis(0), step.axis(1)
    if data is not None and indices is not None:
        raise MixedError("what it picks from and what it picks differ by request")
    if indices is not None:
        return along + indices
    assert data is not None
    if along == data:
        raise MixedError("it picks from the axis of the requests")
    return data if data < along else data + len(step.shape(1)) - 1


def _expand(step: Step) -> int:
    axis = _data(step)
    out = step.out_shape()
    place = len(out) + axis - len(step.shape(0))
    if out[place] != step.shape(0)[axis]:
        raise MixedError("it repeats along the axis of the requests")
    step.edits.sizes[1] = step.grown(out, place)
    return place


def _tile(step: Step) -> int:
    axis = _data(step)
    times = step.numbers(1)
    if times is None or times[axis] != 1:
        raise MixedError("it repeats along the axis of the requests")
    return axis


def _resize(step: Step) -> int:
    axis = _images(step)
    if step.has(3):
        sizes = step.numbers(3)
        if sizes is None or step.integers("axes"):
            raise MixedError("nothing says which sizes it gives")
        step.edits.sizes[3] = step.grown(sizes, 0)
    if step.out_shape()[0] != step.shape(0)[0]:
        raise MixedError("it scales the axis of the requests")
    return axis


def _recurrent(step: Step) -> tuple[int, ...]:
    """Requests are the second axis of what comes, and what it begins with."""
    step.alone(0, 5, 6)
    if step.attribute("layout", 0) or step.axis(0) != 1:
        raise MixedError("requests do not follow along its second axis")
    if step.has(4):
        raise MixedError("it has lengths of sequences")
    for place in (5, 6):
        if step.has(place) and step.axis(place) is None:
            step.repeat(place, 1)
        elif step.has(place) and step.axis(place) != 1:
            raise MixedError("what it begins with is of other requests")
    return (2, 1, 1)


def _attention(step: Step) -> int:
    if any(step.has(place) for place in range(3, len(step.node.inputs))):
        raise MixedError("it has masks or a past")
    return _images(step)


_EACH = (
    "Abs", "Acos", "Acosh", "Add", "And", "Asin", "Asinh", "Atan", "Atanh", "BitShift",
    "BitwiseAnd", "BitwiseNot", "BitwiseOr", "BitwiseXor", "Cast", "CastLike", "Ceil", "Celu",
    "Clip", "Cos", "Cosh", "Div", "Dropout", "Elu", "Equal", "Erf", "Exp", "Floor", "Gelu",
    "Greater", "GreaterOrEqual", "HardSigmoid", "HardSwish", "Identity", "IsInf", "IsNaN",
    "LeakyRelu", "Less", "LessOrEqual", "Log", "Max", "Mean", "Min", "Mish", "Mod", "Mul", "Neg",
    "Not", "Or", "PRelu", "Pow", "Reciprocal", "Relu", "Round", "Selu", "Shrink", "Sigmoid", "Sign",
    "Sin", "Sinh", "Softplus", "Softsign", "Sqrt", "Sub", "Sum", "Swish", "Tan", "Tanh",
    "ThresholdedRelu", "Where", "Xor",
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
    **dict.fromkeys(("MatMul", "MatMulInteger", f"{_MS}:FusedMatMul"), _product),
    **dict.fromkeys(("QLinearMatMul",), _quantized_product),
    **dict.fromkeys(
        ("LayerNormalization", "RMSNormalization", "SimplifiedLayerNormalization"), _normalised_from
    ),
    **dict.fromkeys(
        (f"{_MS}:SkipLayerNormalization", f"{_MS}:SkipSimplifiedLayerNormalization"),
        _normalised_sum,
    ),
    **dict.fromkeys(("QuantizeLinear", "DequantizeLinear"), _linear),
    **dict.fromkeys((f"{_MS}:QLinearAdd", f"{_MS}:QLinearMul"), _quantized_pair),
    **dict.fromkeys((f"{_MS}:QLinearLeakyRelu", f"{_MS}:QLinearSigmoid"), _data),
    f"{_MS}:Attention": _attention,
    "BatchNormalization": _normalisation,
    "Concat": _concat,
    "CumSum": _cumulative,
    "Expand": _expand,
    "Flatten": _flatten,
    f"{_MS}:FusedConv": _fused_convolution,
    "Gather": _gather,
    "Gemm": _gemm,
    f"{_MS}:FusedGemm": _gemm,
    "LpNormalization": _top,
    "MaxPool": _pool,
    "Pad": _pad,
    "Reshape": _reshape,
    "Resize": _resize,
    "Slice": _slice,
    "Split": _split,
    "Squeeze": _squeeze,
    "Tile": _tile,
    "TopK": _top,
    "Transpose": _transpose,
    "Unsqueeze": _unsqueeze,
    "Upsample": _resize,
}
"""By operator, with its domain where that is not ONNX's own."""
