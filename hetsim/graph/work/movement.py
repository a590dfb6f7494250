"""Rules of ops that move elements: views, copies, gather and scatter, resampling.

A view (Reshape and its kin) is the same memory under another shape: it moves nothing. A
copy reads what it writes; where only a part of an input is touched (the rows that a Gather
names, the range that a Slice takes), only that part counts. Shapes and types that are asked
for without the data (Shape, the example of CastLike) are not read.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from hetsim.graph.work.elementwise import RANDOM
from hetsim.graph.work.rule import NodeView, Rule, moved_bytes, no_bytes, no_flops

_VIEWS = ("BitCast", "Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze")

_COPIES = (
    "CenterCropPad", "Concat", "Constant", "ConstantOfShape", "DepthToSpace", "Expand", "OneHot",
    "Pad", "ReverseSequence", "SpaceToDepth", "Split", "Tile", "Transpose",
    "com.microsoft:ExpandDims", "com.microsoft:Pad",
)  # fmt: skip


def _reads_what_it_writes(view: NodeView) -> tuple[int, int, int]:
    """Of the first input as many bytes as result, but never more than there are."""
    return moved_bytes(view, {0: min(view.input(0).nbytes, view.output().nbytes)})


def _reads_no_data(view: NodeView) -> tuple[int, int, int]:
    return moved_bytes(view, {0: 0})


def _scatter_flops(view: NodeView) -> int:
    """Nothing, or one operation an update where updates are combined with what is there."""
    combined = view.text("reduction", "none") != "none"
    return view.elements(2) if combined else 0


def _is_inference(view: NodeView) -> bool:
    """Whether a Dropout passes its input through, its mask all true: unless it trains."""
    return not view.has(2) or view.constant(2) == (0,)


def _dropout_flops(view: NodeView) -> int:
    return 0 if _is_inference(view) else (RANDOM + 3) * view.elements()


def _dropout_bytes(view: NodeView) -> tuple[int, int, int]:
    return (0, 0, 0) if _is_inference(view) else moved_bytes(view)


def _resize(view: NodeView) -> int:
    """One MAC for each neighbour that an output element is made of, in the resized dims.

    Nearest takes none, linear 2, cubic 4 a dim. A dim of unchanged size is not resampled.
    """
    neighbours = {"nearest": 0, "linear": 2, "bilinear": 2, "cubic": 4}
    taps = neighbours.get(view.text("mode", "nearest"), 4)
    out = view.output().static_shape
    resized = sum(a != b for a, b in zip(view.shape(0), out, strict=True))
    return 2 * taps**resized * math.prod(out) if taps and resized else 0


def _grid_sample(view: NodeView) -> int:
    """Coordinates (3 FLOP a dim), then one MAC a neighbour."""
    mode = view.text("mode", "linear")
    dims = view.shape(1)[-1]
    taps = 0 if mode == "nearest" else 4 if mode in ("cubic", "bicubic") else 2
    neighbours = taps**dims if taps else 0
    coordinates = 3 * dims * math.prod(view.shape(1)[:-1])
    return coordinates + 2 * neighbours * view.out_elements()


def _affine_grid(view: NodeView) -> int:
    """A product of each position with its example's matrix."""
    dims = view.output().static_shape[-1]
    return 2 * (dims + 1) * view.out_elements()


def _roi_align(view: NodeView) -> int:
    """Samples of 4 neighbours (8 FLOP) and their sum.

    With ``sampling_ratio`` 0 the number of samples depends on each region's size: at most that
    of the whole map, at least one sample for each element of the result.
    """
    ratio = view.integer("sampling_ratio", 0)
    if ratio > 0:
        return 9 * ratio * ratio * view.out_elements()
    across = zip(view.shape(0)[2:], view.output().static_shape[2:], strict=True)
    return 9 * view.out_elements() * math.prod(-(-whole // part) for whole, part in across)


def _roi_align_least(view: NodeView) -> int:
    return 9 * max(1, view.integer("sampling_ratio", 0)) ** 2 * view.out_elements()


_OVERLAP = 15
"""FLOP of one box against another: corners, two areas, their common one, and the comparison."""


def _suppression(view: NodeView) -> int:
    """A sort of every class's scores, then each box against those kept before."""
    batch, classes, boxes = view.shape(1)
    limit = view.constant(2)
    kept = min(boxes, limit[0]) if limit else boxes
    sort = boxes * max(1, (boxes - 1).bit_length())
    return batch * classes * (sort + _OVERLAP * kept * boxes)


def _suppression_least(view: NodeView) -> int:
    """No score is above the threshold: each is compared with it."""
    return view.elements(1)


def _add_inputs(view: NodeView) -> int:
    return view.elements()


RULES: Mapping[str, Rule] = {
    **{op: Rule("data_movement", no_flops, no_bytes) for op in _VIEWS},
    **{op: Rule("data_movement", no_flops) for op in _COPIES},
    "Dropout": Rule("data_movement", _dropout_flops, _dropout_bytes),
    # Its first operands are floating-point, and are not what is moved.
    "com.microsoft:QLinearConcat": Rule("data_movement", no_flops, integer_input=2),
    "EyeLike": Rule("data_movement", no_flops, _reads_no_data),
    "Shape": Rule("data_movement", no_flops, _reads_no_data),
    "Size": Rule("data_movement", no_flops, _reads_no_data),
    "Slice": Rule("data_movement", no_flops, _reads_what_it_writes),
    "Trilu": Rule("data_movement", no_flops),
    "com.microsoft:Trilu": Rule("data_movement", no_flops),
    "Col2Im": Rule("data_movement", _add_inputs),
    "Compress": Rule("gather_scatter", no_flops, _reads_what_it_writes),
    "Gather": Rule("gather_scatter", no_flops, _reads_what_it_writes),
    "GatherElements": Rule("gather_scatter", no_flops, _reads_what_it_writes),
    "GatherND": Rule("gather_scatter", no_flops, _reads_what_it_writes),
    "com.microsoft:GatherND": Rule("gather_scatter", no_flops, _reads_what_it_writes),
    "MaxUnpool": Rule("gather_scatter", no_flops),
    "NonZero": Rule("gather_scatter", _add_inputs),
    "Scatter": Rule("gather_scatter", no_flops),
    "ScatterElements": Rule("gather_scatter", _scatter_flops),
    "ScatterND": Rule("gather_scatter", _scatter_flops),
    "TensorScatter": Rule("gather_scatter", no_flops),
    "AffineGrid": Rule("resize", _affine_grid),
    "GridSample": Rule("resize", _grid_sample),
    "com.microsoft:GridSample": Rule("resize", _grid_sample),
    "Resize": Rule("resize", _resize),
    "NonMaxSuppression": Rule("other", _suppression, least=_suppression_least),
    "RoiAlign": Rule("resize", _roi_align, least=_roi_align_least),
    "Upsample": Rule("resize", _resize),
}
