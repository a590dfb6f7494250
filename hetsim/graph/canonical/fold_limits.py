"""How much what follows of constants alone would take, told before it is computed.

A file of some bytes can say constants of any size, and products of them that take days. What is
folded is stored in the model, which ends at 2 GiB: beyond, nothing is lost that could be kept.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import onnx
import onnx.checker
import onnx.inliner

from hetsim.graph.graph import ITEM_BITS
from hetsim.graph.reading.extension import NONE
from hetsim.graph.reading.onnx_types import to_tensor, without_values
from hetsim.graph.reading.structure import bodies, constant_names
from hetsim.graph.shapes.data_dependence import RANDOM
from hetsim.graph.shapes.inference import inferred

MOST_BYTES = 2**31
"""Of all results together."""

MOST_GROWN_BYTES = 2**29
"""Of what one node makes beyond what it reads: a file of some bytes says any of it, and it is held
twice as it is folded. Weights that graphs without values make of their shapes are below."""

MOST_OPERATIONS = 2e11
"""Of all together: some seconds of one core."""

_PRODUCTS = frozenset(
    {"MatMul", "MatMulInteger", "QLinearMatMul", "Gemm", "Conv", "ConvInteger", "QLinearConv",
     "ConvTranspose", "DeformConv", "Einsum", "LSTM", "GRU", "RNN", "Attention", "DFT", "STFT",
     "Det", "GridSample", "AffineGrid", "RoiAlign", "MaxRoiPool", "NonMaxSuppression"}
)  # fmt: skip
_WINDOWS = frozenset({"AveragePool", "MaxPool", "LpPool", "QLinearAveragePool"})
_GROWING = frozenset(
    {"Range", "ConstantOfShape", "Expand", "Tile", "Pad", "Resize", "Upsample", "OneHot",
     "HannWindow", "HammingWindow", "BlackmanWindow", "MelWeightMatrix", "CenterCropPad",
     "ConcatFromSequence", "Col2Im", "MaxUnpool", "ConvTranspose"}
)  # fmt: skip
"""Whose results may be of any size, by values that they read."""


def too_much(proto: onnx.ModelProto, *, unknown: bool = False) -> bool:
    """Whether what `proto` computes of constants alone takes more than can be had.

    Parameters
    ----------
    proto : onnx.ModelProto
        Its nodes in topological order.
    unknown : bool
        Whether a result of unknown size counts as too much, where values alone say the size.
        ONNX Runtime does not fold those by itself.

    Where calls of functions cannot be replaced by bodies, it counts as too much: how much there is
    is not known, and to leave a constant unfolded is never wrong.

    Operations of products are counted as the root of the product of their ends' sizes, which is
    exact for a matrix product. O(V + E), and inference over these nodes alone.
    """
    if proto.functions:
        # Calls are replaced by bodies before anything folds.
        try:
            proto = onnx.inliner.inline_local_functions(_light(proto))
        except (ValueError, RuntimeError, onnx.checker.ValidationError):
            return True
    nbytes, most_grown, operations = 0, 0, 0.0
    for part, letters in _parts(proto, proto.graph, {}):
        known = _sizes(part, letters)
        for node in part.graph.node:
            made = 0
            for name in filter(None, node.output):
                if name in known:
                    made += known[name][1]
                elif unknown and (node.op_type in _GROWING or node.domain):
                    return True
            nbytes += made
            read = sum(known[name][1] for name in node.input if name in known)
            most_grown = max(most_grown, made - read)
            operations += _operations(node, known)
        if nbytes > MOST_BYTES or most_grown > MOST_GROWN_BYTES or operations > MOST_OPERATIONS:
            return True
    return False


def _parts(
    proto: onnx.ModelProto, graph: onnx.GraphProto, outer: Mapping[str, onnx.TensorProto]
) -> Iterator[tuple[onnx.ModelProto, dict[str, int]]]:
    """Yield, by scope, the nodes that read constants alone, with these, and letters of texts.

    By name of what is text: the most bytes that one entry of it may have.
    """
    stored = {**outer, **{tensor.name: tensor for tensor in graph.initializer}}
    constant = {*stored, *constant_names(graph)}
    found: list[onnx.NodeProto] = []
    for node in graph.node:
        inner = bodies(node)
        if node.op_type == "Constant" and not node.domain:
            constant.update(node.output)
            found.append(node)
        elif (
            not inner
            and node.op_type not in RANDOM
            and any(node.input)
            and constant.issuperset(filter(None, node.input))
        ):
            constant.update(filter(None, node.output))
            found.append(node)
        for body in inner:
            yield from _parts(proto, body, stored)
    if all(node.op_type == "Constant" for node in found):
        return
    part = onnx.ModelProto(ir_version=proto.ir_version, opset_import=proto.opset_import)
    part.graph.name = "constants"
    part.graph.node.extend(found)
    read = {name for node in found for name in node.input}
    constants = [stored[name] for name in sorted(read & stored.keys())]
    part.graph.initializer.extend(map(_stripped, constants))
    yield part, _letters(found, constants)


def _letters(
    nodes: Sequence[onnx.NodeProto], constants: Iterable[onnx.TensorProto]
) -> dict[str, int]:
    """By value that may be text: the most bytes of an entry. O(text that is stored)."""
    found = {one.name: _longest(one.string_data) for one in constants if one.string_data}
    for node in nodes:
        of_node = [found[name] for name in node.input if name in found]
        stored = [_longest([*a.t.string_data, a.s, *a.strings]) for a in node.attribute]
        # Concatenation joins entries, and perhaps what is not ONNX's does; all else keeps them.
        joins = node.op_type == "StringConcat" or bool(node.domain)
        longest = (sum if joins else max)([*of_node, *stored, 0])
        if longest:
            found.update(dict.fromkeys(filter(None, node.output), longest))
    return found


def _longest(texts: Iterable[bytes]) -> int:
    return max(map(len, texts), default=0)


def _stripped(tensor: onnx.TensorProto) -> onnx.TensorProto:
    """The tensor itself where its values may say shapes, else its type and shape."""
    if tensor.data_location != onnx.TensorProto.EXTERNAL and math.prod(tensor.dims) <= _VALUES:
        return tensor
    return without_values(tensor)


_TEXT_BYTES = 32
"""Of an entry of text without its letters."""

_VALUES = 1024
"""Of a constant that says a shape, at most."""


def _light(proto: onnx.ModelProto) -> onnx.ModelProto:
    light = onnx.ModelProto(ir_version=proto.ir_version, opset_import=proto.opset_import)
    light.functions.extend(proto.functions)
    light.graph.name = proto.graph.name or "light"
    light.graph.node.extend(proto.graph.node)
    light.graph.input.extend(proto.graph.input)
    light.graph.output.extend(proto.graph.output)
    light.graph.initializer.extend(map(_stripped, proto.graph.initializer))
    return light


def _sizes(part: onnx.ModelProto, letters: Mapping[str, int]) -> dict[str, tuple[int, int]]:
    """Elements and bytes of the values of `part`, where they are known."""
    written: Collection[str] = [name for node in part.graph.node for name in node.output if name]
    kinds = inferred(part, written, NONE)
    for tensor in part.graph.initializer:
        kinds[tensor.name] = onnx.helper.make_tensor_type_proto(tensor.data_type, tensor.dims)
    found: dict[str, tuple[int, int]] = {}
    for name, kind in kinds.items():
        tensor = to_tensor(name, kind)
        if tensor.shape is None or not all(isinstance(size, int) for size in tensor.shape):
            continue
        elements = math.prod(size for size in tensor.shape if isinstance(size, int))
        if tensor.dtype in ITEM_BITS:
            found[name] = elements, (elements * ITEM_BITS[tensor.dtype] + 7) // 8
        else:
            found[name] = elements, elements * (_TEXT_BYTES + letters.get(name, 0))
    return found


def _operations(node: onnx.NodeProto, known: Mapping[str, tuple[int, int]]) -> float:
    made = max((known[name][0] for name in node.output if name in known), default=0)
    read = sorted((known[name][0] for name in node.input if name in known), reverse=True)
    if node.op_type in _WINDOWS:
        window = next((a.ints for a in node.attribute if a.name == "kernel_shape"), ())
        return float(made) * math.prod(window)
    if node.op_type in _PRODUCTS or node.domain:
        if len(read) < 2:
            # A matrix on its own, as for its determinant.
            return math.pow(max(made, *read, 1), 1.5)
        return math.sqrt(math.prod(float(max(1, size)) for size in (made, *read[:2])))
    return float(made + sum(read))
