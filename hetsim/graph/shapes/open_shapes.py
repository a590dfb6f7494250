"""Open shapes: from unbound dimensions, or dependent on data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from shlex import quote

from hetsim.errors import UnboundDimension
from hetsim.graph.graph import ITEM_BITS, Graph, Node
from hetsim.graph.reading.onnx_types import OWN_DOMAINS

MOST_SHAPES = 4
"""Number of inputs with open shapes above which only dimensions are reported."""


def open_dims(graph: Graph) -> tuple[str, ...]:
    """Return the open dims of the inputs of `graph`: their names, or positions as ``x[2]``."""
    found: dict[str, None] = {}
    for name in graph.inputs:
        for axis, dim in enumerate(graph.tensors[name].shape or ()):
            if not isinstance(dim, int):
                found.setdefault(dim or f"{name}[{axis}]")
    return tuple(found)


def open_ranks(graph: Graph) -> tuple[str, ...]:
    """Return the inputs of `graph` that are tensors of unknown rank."""
    tensors = (graph.tensors[name] for name in graph.inputs)
    return tuple(
        t.name for t in tensors if t.shape is None and (t.dtype in ITEM_BITS or t.dtype == "string")
    )


def binding_flags(graph: Graph) -> str:
    """Return options that bind all open dims of the inputs, by shape or dimension; else empty."""
    shapes = [
        f"--shape {quote(name + '=' + ','.join(_shown(graph.tensors[name].shape or ())))}"
        for name in graph.inputs
        if any(not isinstance(dim, int) for dim in graph.tensors[name].shape or ())
    ]
    dims = [f"--dim {quote(f'{dim}=N')}" for dim in open_dims(graph)]
    ranks = [f"--shape {name}=N,N,..." for name in open_ranks(graph)]
    ways = [shapes, dims] if 0 < len(shapes) <= MOST_SHAPES else [dims]
    return " or ".join(" ".join([*way, *ranks]) for way in ways)


def _example(graph: Graph) -> str:
    """Return the shape of one image, if that is the only open input; else empty."""
    of = {name: graph.tensors[name].shape or () for name in graph.inputs}
    open_ = [name for name, shape in of.items() if not all(isinstance(dim, int) for dim in shape)]
    if len(open_) != 1 or len(of[open_[0]]) != 4 or 3 not in of[open_[0]]:
        return ""
    sizes = ["1", *("224" if dim == "N" else dim for dim in _shown(of[open_[0]][1:]))]
    return f"; e.g. --shape {quote(open_[0] + '=' + ','.join(sizes))}"


def _shown(shape: Iterable[int | str | None]) -> list[str]:
    return [str(dim) if isinstance(dim, int) else "N" for dim in shape]


def unbound(graph: Graph, source: str, unmeasured: str | None) -> UnboundDimension:
    """Return the error that lists a model's open shapes and the options that bind them.

    `unmeasured` is the reason why no run could measure the rest.
    """
    dims, ranks = open_dims(graph), open_ranks(graph)
    if dims or ranks:
        parts = []
        if dims:
            few = "a dimension of its inputs is" if len(dims) == 1 else "dimensions are"
            parts.append(f"{few} not bound: {', '.join(dims)}")
        if ranks:
            parts.append(f"the shape of {', '.join(ranks)} is unknown")
        return UnboundDimension(
            ", and ".join(parts),
            where=source,
            hint=f"bind the sizes that the model is used with: {binding_flags(graph)}, or --input "
            f"FILE.npz{_example(graph)}",
            dims=tuple(dims),
        )
    shown = ", ".join(
        f"{name} {graph.tensors[name].dtype} {list(graph.tensors[name].shape or ())}"
        for name in graph.inputs[:8]
    )
    more = ", ..." if len(graph.inputs) > 8 else ""
    return UnboundDimension(
        "some of its shapes depend on data or on ops that inference does not know, and "
        + (unmeasured or "no run measured them"),
        where=source,
        hint=f"give inputs that it accepts: --input FILE.npz with {shown}{more}"
        if graph.inputs
        else "fix the model: it does not run",
    )


_SHAPED_BY: Mapping[str, tuple[int, ...] | None] = {
    "Reshape": (1,), "Expand": (1,), "Tile": (1, 2), "Slice": (1, 2, 3, 4), "Pad": (1, 3),
    "Resize": (1, 2, 3), "Upsample": (1,), "ConstantOfShape": (0,), "Range": (0, 1, 2),
    "NonZero": (0,), "Compress": (1,), "Unique": (0,), "TopK": (1,), "OneHot": (1,),
    "NonMaxSuppression": None, "Squeeze": (1,), "Unsqueeze": (1,), "Split": (1,),
    "ReduceSum": (1,), "ReduceMean": (1,), "ReduceMax": (1,), "ReduceMin": (1,),
    "ReduceProd": (1,), "ReduceL1": (1,), "ReduceL2": (1,), "ReduceLogSum": (1,),
    "ReduceLogSumExp": (1,), "ReduceSumSquare": (1,), "CenterCropPad": (1,), "Col2Im": (1, 2),
    "AffineGrid": (1,), "MaxUnpool": (2,), "DFT": (1, 2), "STFT": (1, 3), "HannWindow": (0,),
    "HammingWindow": (0,), "BlackmanWindow": (0,), "MelWeightMatrix": (0, 1),
    "StringSplit": (0,), "If": None, "Loop": None, "Scan": None, "SequenceMap": None,
    "SequenceAt": None, "ConcatFromSequence": None, "SplitToSequence": None,
    "SequenceInsert": None, "SequenceErase": None, "SequenceLength": (),
    "OptionalGetElement": None, "ExpandDims": (1,), "CropAndResize": (3,),
    "BeamSearch": None, "GreedySearch": None, "Sampling": None, "Tokenizer": None,
    "WhisperBeamSearch": None, "RemovePadding": None, "RestorePadding": None,
    "TfIdfVectorizer": (),
}  # fmt: skip
"""Inputs whose contents determine an output shape; None: all. Other ops of ONNX and ONNX Runtime
have shapes that follow from shapes."""

RANDOM = frozenset(
    {"RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike", "Multinomial",
     "Bernoulli"}
)  # fmt: skip


def shaped_by_data(graph: Graph) -> frozenset[str]:
    """Return the values whose shape depends on contents of inputs. O(V + E)."""
    fixed = {name for name, tensor in graph.tensors.items() if tensor.is_static}
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
    """Return whether the contents that the shapes of `node` depend on are known."""
    if node.body is not None and not node.custom:
        return all(_decided(inner, set(node.body.constants)) for inner in node.body.nodes)
    if node.custom or node.domain not in OWN_DOMAINS:
        return False
    ports = _SHAPED_BY.get(node.op_type, ())
    if ports is None:
        return all(name in known for name in node.reads)
    read = (node.inputs[port] for port in ports if port < len(node.inputs))
    return all(not name or name in known for name in read)
