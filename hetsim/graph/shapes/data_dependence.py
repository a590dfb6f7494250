"""Which values have a shape that depends on data: on what is in the inputs, not on their shapes."""

from __future__ import annotations

from collections.abc import Mapping

from hetsim.graph.graph import Graph, Node
from hetsim.graph.reading.onnx_types import OWN_DOMAINS

_EVERY = None

_SHAPED_BY: Mapping[str, tuple[int, ...] | None] = {
    "Reshape": (1,), "Expand": (1,), "Tile": (1, 2), "Slice": (1, 2, 3, 4), "Pad": (1, 3),
    "Resize": (1, 2, 3), "Upsample": (1,), "ConstantOfShape": (0,), "Range": (0, 1, 2),
    "NonZero": (0,), "Compress": (1,), "Unique": (0,), "TopK": (1,), "OneHot": (1,),
    "NonMaxSuppression": _EVERY, "Squeeze": (1,), "Unsqueeze": (1,), "Split": (1,),
    "ReduceSum": (1,), "ReduceMean": (1,), "ReduceMax": (1,), "ReduceMin": (1,),
    "ReduceProd": (1,), "ReduceL1": (1,), "ReduceL2": (1,), "ReduceLogSum": (1,),
    "ReduceLogSumExp": (1,), "ReduceSumSquare": (1,), "CenterCropPad": (1,), "Col2Im": (1, 2),
    "AffineGrid": (1,), "MaxUnpool": (2,), "DFT": (1, 2), "STFT": (1, 3), "HannWindow": (0,),
    "HammingWindow": (0,), "BlackmanWindow": (0,), "MelWeightMatrix": (0, 1),
    "StringSplit": (0,), "If": _EVERY, "Loop": _EVERY, "Scan": _EVERY, "SequenceMap": _EVERY,
    "SequenceAt": _EVERY, "ConcatFromSequence": _EVERY, "SplitToSequence": _EVERY,
    "SequenceInsert": _EVERY, "SequenceErase": _EVERY, "SequenceLength": (),
    "OptionalGetElement": _EVERY, "ExpandDims": (1,), "CropAndResize": (3,),
    "BeamSearch": _EVERY, "GreedySearch": _EVERY, "Sampling": _EVERY, "Tokenizer": _EVERY,
    "WhisperBeamSearch": _EVERY, "RemovePadding": _EVERY, "RestorePadding": _EVERY,
    "TfIdfVectorizer": (),
}  # fmt: skip
"""Inputs whose contents decide about the shape of an output; None: all. Other ops of ONNX and
ONNX Runtime have shapes that follow from shapes."""

RANDOM = frozenset(
    {"RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike", "Multinomial",
     "Bernoulli"}
)  # fmt: skip


def shaped_by_data(graph: Graph) -> frozenset[str]:
    """Return the values of `graph` whose shape depends on the contents of its inputs.

    A value whose shape `graph` states in numbers does not. The others are judged by what
    their ops are defined to do; an op of a foreign domain may do anything. O(V + E).
    """
    fixed = {name for name, tensor in graph.tensors.items() if _stated(tensor.shape)}
    fixed.update(graph.inputs)
    known = set(graph.constants)
    for node in graph.nodes:
        if node.op_type in ("Shape", "Size") and node.inputs[0] in fixed:
            known.update(node.writes)
        elif node.op_type not in RANDOM and all(name in known for name in node.reads):
            known.update(node.writes)
            fixed.update(node.writes)
        if all(name in fixed for name in node.reads) and _decided(node, known):
            fixed.update(node.writes)
    return frozenset(name for node in graph.nodes for name in node.writes if name not in fixed)


def _decided(node: Node, known: set[str]) -> bool:
    """Whether the contents that the shapes of `node` depend on are known."""
    if node.body is not None and not node.custom:
        return all(_decided(inner, set(node.body.constants)) for inner in node.body.nodes)
    if node.custom or node.domain not in OWN_DOMAINS:
        return False
    ports = _SHAPED_BY.get(node.op_type, ())
    if ports is None:
        return all(name in known for name in node.reads)
    read = (node.inputs[port] for port in ports if port < len(node.inputs))
    return all(not name or name in known for name in read)


def _stated(shape: tuple[int | str | None, ...] | None) -> bool:
    return shape is not None and all(isinstance(dim, int) for dim in shape)
