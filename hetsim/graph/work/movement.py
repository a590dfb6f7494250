"""Rules of ops that move elements: views, copies, gather and scatter, resampling, sequences."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping

from hetsim.graph.graph import Graph
from hetsim.graph.work.elementwise import RANDOM
from hetsim.graph.work.rule import NodeView, Product, Rule, moved_bytes, no_bytes, op_key, per_input

# A sequence has no size before a run: only plain tensors of it count.
_VIEWS = (
    "BitCast", "Flatten", "Identity", "Optional", "OptionalGetElement", "OptionalHasElement",
    "Reshape", "SequenceEmpty", "SequenceErase", "SequenceLength", "Squeeze", "Unsqueeze",
)  # fmt: skip

_COPIES = (
    "CenterCropPad", "ConcatFromSequence", "Constant", "ConstantOfShape", "Expand", "OneHot",
    "Pad", "ReverseSequence", "SequenceAt", "SequenceConstruct", "SequenceInsert", "Split",
    "SplitToSequence", "Tile", "Trilu", "com.microsoft:ExpandDims", "com.microsoft:Pad",
    "com.microsoft:Trilu",
)  # fmt: skip


def reads_what_it_writes(view: NodeView) -> tuple[int, int, int]:
    """Return the bytes of a rule that reads as much of the first input as the result has."""
    return moved_bytes(view, {0: min(view.input(0).nbytes, view.output().nbytes)})


def _is_inference(view: NodeView) -> bool:
    """Return whether a Dropout passes its input through, as outside training."""
    return not view.has(2) or view.constant(2) == (0,)


def _resize(view: NodeView) -> int:
    """Return one MAC per neighbour of an output: nearest 0, linear 2, cubic 4 per resized dim."""
    neighbours = {"nearest": 0, "linear": 2, "bilinear": 2, "cubic": 4}
    taps = neighbours.get(view.text("mode", "nearest"), 4)
    out = view.output().static_shape
    resized = sum(a != b for a, b in zip(view.shape(0), out, strict=True))
    return 2 * taps**resized * math.prod(out) if taps and resized else 0


def _grid_sample(view: NodeView) -> int:
    """Return the FLOP of coordinates (3 per dim), then one MAC per neighbour."""
    mode = view.text("mode", "linear")
    dims = view.shape(1)[-1]
    taps = 0 if mode == "nearest" else 4 if mode in ("cubic", "bicubic") else 2
    neighbours = taps**dims if taps else 0
    coordinates = 3 * dims * math.prod(view.shape(1)[:-1])
    return coordinates + 2 * neighbours * view.out_elements()


def _roi_align(view: NodeView) -> int:
    """Return the FLOP of samples of 4 neighbours (8) and their sum, at most if adaptive."""
    ratio = view.integer("sampling_ratio", 0)
    if ratio > 0:
        return 9 * ratio * ratio * view.out_elements()
    across = zip(view.shape(0)[2:], view.output().static_shape[2:], strict=True)
    return 9 * view.out_elements() * math.prod(-(-whole // part) for whole, part in across)


_OVERLAP = 15
"""FLOP of comparing two boxes: corners, two areas, their intersection, and the comparison."""


def _suppression(view: NodeView) -> int:
    """Return the FLOP of a sort of each class's scores, then each box against those kept."""
    batch, classes, boxes = view.shape(1)
    limit = view.constant(2)
    kept = min(boxes, limit[0]) if limit else boxes
    sort = boxes * max(1, (boxes - 1).bit_length())
    return batch * classes * (sort + _OVERLAP * kept * boxes)


def _search_flops(view: NodeView) -> int:
    """Return the FLOP of looking up every n-gram of every length and skip in the pool."""
    lengths = view.integer("max_gram_length", 1) - view.integer("min_gram_length", 1) + 1
    skips = view.integer("max_skip_count", 0) + 1
    return lengths * skips * view.elements()


def _resize_window(view: NodeView) -> Product:
    """Return the product of the elements around each result along each dim."""
    taps = {"linear": 2, "bilinear": 2, "cubic": 4}.get(view.text("mode"), 1)
    window, ones = (taps, taps), (1, 1)
    return Product("resize", 1, 1, 1, 1, window, ones, ones, view.elements())


_VIEW = Rule("data_movement", bytes=no_bytes)
_COPY = Rule("data_movement")
_ORDER = Rule("data_movement", form="transpose")
_ASKED = Rule("data_movement", bytes=lambda view: moved_bytes(view, {0: 0}))
_PICKED = Rule("gather_scatter", bytes=reads_what_it_writes)
# One operation per update if updates are combined with existing values, else none.
_SCATTER = Rule(
    "gather_scatter",
    lambda view: view.elements(2) if view.text("reduction", "none") != "none" else 0,
)
_SAMPLED = Rule("resize", _grid_sample)
_RESIZE = Rule("resize", _resize, product=_resize_window)

RULES: Mapping[str, Rule] = {
    **dict.fromkeys(_VIEWS, _VIEW),
    **dict.fromkeys(_COPIES, _COPY),
    **dict.fromkeys(("DepthToSpace", "SpaceToDepth", "Transpose"), _ORDER),
    **dict.fromkeys(("EyeLike", "Shape", "Size"), _ASKED),
    **dict.fromkeys(
        ("Compress", "Gather", "GatherElements", "GatherND", "com.microsoft:GatherND"), _PICKED
    ),
    **dict.fromkeys(("MaxUnpool", "Scatter", "TensorScatter"), Rule("gather_scatter")),
    **dict.fromkeys(("ScatterElements", "ScatterND"), _SCATTER),
    **dict.fromkeys(("GridSample", "com.microsoft:GridSample"), _SAMPLED),
    **dict.fromkeys(("Resize", "Upsample"), _RESIZE),
    "Concat": Rule("data_movement", form="concat"),
    "Dropout": Rule(
        "data_movement",
        lambda view: 0 if _is_inference(view) else (RANDOM + 3) * view.elements(),
        lambda view: (0, 0, 0) if _is_inference(view) else moved_bytes(view),
    ),
    # Its first operands are floating-point, and are not what is moved.
    "com.microsoft:QLinearConcat": Rule("data_movement", integer_input=2, form="concat"),
    "Slice": Rule("data_movement", bytes=reads_what_it_writes),
    "Col2Im": per_input("data_movement", 1),
    "NonZero": per_input("gather_scatter", 1),
    # A product of each position with its example's matrix.
    "AffineGrid": Rule(
        "resize", lambda view: 2 * (view.output().static_shape[-1] + 1) * view.out_elements()
    ),
    "NonMaxSuppression": Rule("other", _suppression, least=lambda view: view.elements(1)),
    "RoiAlign": Rule(
        "resize",
        _roi_align,
        least=lambda view: 9 * max(1, view.integer("sampling_ratio", 0)) ** 2 * view.out_elements(),
    ),
    "TfIdfVectorizer": Rule("other", _search_flops),
}

_ALWAYS = frozenset({"Identity"})
"""Op types that move and compute nothing."""

_OF_CONSTANTS = frozenset(
    {"Cast", "Flatten", "Reshape", "Shape", "Size", "Squeeze", "Transpose", "Unsqueeze"}
)
"""Op types that are housekeeping if all their inputs are constant."""


def housekeeping_nodes(graph: Graph, ops: Collection[str] = ()) -> frozenset[int]:
    """Return identities, reshapes of constants, and nodes of the op types `ops`. O(V + E)."""
    found: set[int] = set()
    constant = set(graph.constants)
    for node in graph.nodes:
        op = op_key(node)
        of_constants = op in _ALWAYS | _OF_CONSTANTS and constant.issuperset(node.reads)
        if op in _ALWAYS or op in ops or of_constants:
            found.add(node.id)
        if of_constants:
            constant.update(node.writes)
    return frozenset(found)
