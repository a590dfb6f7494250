"""Constant folding: its cost, constant branches, and 16-bit floats."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
import onnx.checker
import onnx.inliner

from hetsim.errors import ModelError
from hetsim.graph.graph import ITEM_BITS
from hetsim.graph.reading.extension import NONE, Custom
from hetsim.graph.reading.onnx_types import to_tensor, without_values
from hetsim.graph.reading.session import open_session
from hetsim.graph.reading.structure import bodies, constant_names, rename_values, replace
from hetsim.graph.shapes.inference import inferred, skeleton
from hetsim.graph.shapes.open_shapes import RANDOM

MOST_BYTES = 2**31
"""Maximum bytes of all results together."""

MOST_GROWN_BYTES = 2**29
"""Maximum bytes that one node adds to its inputs: a tiny file can request any size, which is held
twice during folding. Weights created from shapes in models without values are below it."""

MOST_OPERATIONS = 2e11
"""Maximum operations in total: a few seconds of one core."""

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
"""Ops whose results may have any size, depending on input values."""


def too_much(proto: onnx.ModelProto, *, unknown: bool = False) -> bool:
    """Return whether constant subexpressions of `proto` need too much memory or time. O(V + E).

    True if function calls cannot be inlined, and with `unknown` for results whose size depends on
    values. The cost of a product is estimated as the root of the product of its operands' and
    result's sizes, exact for a matrix product.
    """
    if proto.functions:
        # Calls are inlined before anything folds.
        try:
            proto = onnx.inliner.inline_local_functions(skeleton(proto))
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
    """Yield, by scope, the nodes that read only constants, and bytes of a text entry."""
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
    """Return the maximum bytes per entry of values that may be text. O(stored text)."""
    found = {one.name: _longest(one.string_data) for one in constants if one.string_data}
    for node in nodes:
        of_node = [found[name] for name in node.input if name in found]
        stored = [_longest([*a.t.string_data, a.s, *a.strings]) for a in node.attribute]
        # Only Concat, and possibly non-ONNX ops, join entries; all others keep them.
        joins = node.op_type == "StringConcat" or bool(node.domain)
        longest = (sum if joins else max)([*of_node, *stored, 0])
        if longest:
            found.update(dict.fromkeys(filter(None, node.output), longest))
    return found


def _longest(texts: Iterable[bytes]) -> int:
    return max(map(len, texts), default=0)


def _stripped(tensor: onnx.TensorProto) -> onnx.TensorProto:
    """Return the tensor itself if its values may be shapes, else its type and shape."""
    if tensor.data_location != onnx.TensorProto.EXTERNAL and math.prod(tensor.dims) <= _VALUES:
        return tensor
    return without_values(tensor)


_TEXT_BYTES = 32
"""Bytes of a text entry without its letters."""

_VALUES = 1024
"""Maximum elements of a constant that may be a shape."""


def _sizes(part: onnx.ModelProto, letters: Mapping[str, int]) -> dict[str, tuple[int, int]]:
    """Return elements and bytes of the values of `part` with known sizes."""
    written: Collection[str] = [name for node in part.graph.node for name in node.output if name]
    kinds = inferred(part, written, NONE)
    for tensor in part.graph.initializer:
        kinds[tensor.name] = onnx.helper.make_tensor_type_proto(tensor.data_type, tensor.dims)
    found: dict[str, tuple[int, int]] = {}
    for name, kind in kinds.items():
        tensor = to_tensor(name, kind)
        if not tensor.is_static:
            continue
        elements = tensor.elements
        if tensor.dtype in ITEM_BITS:
            found[name] = elements, tensor.nbytes
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
            # A single matrix, e.g. for its determinant.
            return math.pow(max(made, *read, 1), 1.5)
        return math.sqrt(math.prod(float(max(1, size)) for size in (made, *read[:2])))
    return float(made + sum(read))


_MOST_NODES = 1000
"""Maximum number of nodes to evaluate a condition."""


def fold_branches(proto: onnx.ModelProto, where: str, libraries: Sequence[str] = ()) -> bool:
    """Replace each If of constant condition by its branch, in place; return if any. O(V + E)."""
    folded = False
    while found := _decided(proto, where, libraries):
        folded = True
        taken = {value for node in proto.graph.node for value in (*node.input, *node.output)}
        taken.update(value.name for value in proto.graph.input)
        taken |= constant_names(proto.graph).keys()
        nodes: list[onnx.NodeProto] = []
        for node in proto.graph.node:
            if node.name in found:
                nodes.extend(_branch(proto.graph, node, found[node.name], taken))
            else:
                nodes.append(node)
        replace(proto.graph.node, nodes)
    return folded


def _decided(proto: onnx.ModelProto, where: str, libraries: Sequence[str]) -> dict[str, bool]:
    """Return the value of each constant If condition, by node name."""
    graph = proto.graph
    choices = [node for node in graph.node if node.op_type == "If" and not node.domain]
    if not choices:
        return {}
    stored = {
        tensor.name: tensor
        for tensor in graph.initializer
        if tensor.data_location != onnx.TensorProto.EXTERNAL
    }
    producers = {name: node for node in graph.node for name in node.output if name}
    behind: dict[str, list[str]] = {}
    for node in choices:
        names = _ancestors(node.input[0], producers, stored)
        if names is not None:
            behind[node.input[0]] = names
    if not behind:
        return {}
    needed = {name for names in behind.values() for name in names}
    small = onnx.ModelProto(ir_version=proto.ir_version, opset_import=proto.opset_import)
    small.functions.extend(proto.functions)
    small.graph.name = "conditions"
    small.graph.node.extend(n for n in graph.node if needed.intersection(n.output))
    read = {name for node in small.graph.node for name in node.input} | behind.keys()
    small.graph.initializer.extend(t for name, t in stored.items() if name in read)
    for condition in behind:
        value = onnx.helper.make_tensor_value_info(condition, onnx.TensorProto.BOOL, None)
        small.graph.output.append(value)
    if too_much(small, unknown=True):
        return {}
    session = open_session(small, None, "none", where, libraries=libraries)
    values = dict(zip(behind, session.run(list(behind), {}), strict=True))
    return {
        node.name: bool(np.asarray(values[node.input[0]]).reshape(-1)[0])
        for node in choices
        if node.input[0] in values
    }


def _ancestors(
    name: str, producers: Mapping[str, onnx.NodeProto], stored: Mapping[str, onnx.TensorProto]
) -> list[str] | None:
    """Return all values that `name` depends on; None if one of them is not constant."""
    found: dict[str, None] = {}
    pending = [name]
    while pending:
        value = pending.pop()
        if value in found or not value:
            continue
        node = producers.get(value)
        if node is None:
            if value not in stored:
                return None
            continue
        if node.op_type in RANDOM or bodies(node) or len(found) > _MOST_NODES:
            return None
        found.update(dict.fromkeys(name for name in node.output if name))
        pending.extend(node.input)
    return list(found)


def _branch(
    graph: onnx.GraphProto, node: onnx.NodeProto, condition: bool, taken: set[str]
) -> list[onnx.NodeProto]:
    """Return the nodes that replace `node`; constants of the branch are added to `graph`."""
    attribute = "then_branch" if condition else "else_branch"
    body = onnx.GraphProto()
    body.CopyFrom(next(a.g for a in node.attribute if a.name == attribute))
    prefix = f"{node.name}/{attribute}/"
    inner = constant_names(body).keys() | {n for x in body.node for n in x.output if n}
    renamed: dict[str, str] = {}
    for value, output in zip(body.output, node.output, strict=True):
        if output and value.name in inner and value.name not in renamed:
            renamed[value.name] = output
    for name in sorted(inner - renamed.keys()):
        fresh = name
        while fresh in taken:
            fresh = f"{prefix}{fresh}" if fresh == name else f"{fresh}_"
        taken.add(fresh)
        renamed[name] = fresh
    rename_values(body, renamed)
    for tensor in body.initializer:
        graph.initializer.append(tensor)
    for sparse in body.sparse_initializer:
        graph.sparse_initializer.append(sparse)
    for position, own in enumerate(body.node):
        own.name = prefix + (own.name or f"{own.op_type}_{position}")
    nodes = list(body.node)
    for value, output in zip(body.output, node.output, strict=True):
        if output and value.name != output:
            name = f"{prefix}{output}"
            nodes.append(onnx.helper.make_node("Identity", [value.name], [output], name=name))
    return nodes


_KEPT = frozenset({"DequantizeLinear"})
"""Ops whose constant inputs are kept, as devices store the integers."""


def fold_constants(
    proto: onnx.ModelProto, weights_dir: Path | None, where: str, custom: Custom
) -> None:
    """Replace affordable constant subexpressions by their results, in place."""
    graph = proto.graph
    constant = set(constant_names(graph))
    folded: list[onnx.NodeProto] = []
    kept: list[onnx.NodeProto] = []
    for node in graph.node:
        alone = not node.domain and node.op_type not in RANDOM | _KEPT
        given = [name for name in node.input if name]
        if alone and given and constant.issuperset(given) and not bodies(node):
            constant.update(node.output)
            folded.append(node)
        else:
            kept.append(node)
    made = {name for node in folded for name in node.output if name}
    if not folded or any(value.name in made for value in graph.output):
        return
    read = {name for node in kept for name in node.input}
    part = onnx.ModelProto(ir_version=proto.ir_version, opset_import=proto.opset_import)
    part.graph.name = "constants"
    part.graph.node.extend(folded)
    wanted = {name for node in folded for name in node.input}
    part.graph.initializer.extend(t for t in graph.initializer if t.name in wanted)
    if any(bodies(node) for node in kept):
        read |= made
    names = sorted(made & read)
    for name in names:
        part.graph.output.add(name=name)
    if too_much(part, unknown=True):
        return
    try:
        session = open_session(part, weights_dir, "none", where, libraries=custom.libraries)
        values = session.run(names, {})
        tensors = [
            onnx.numpy_helper.from_array(value, name)
            for name, value in zip(names, values, strict=True)
        ]
    except (ModelError, RuntimeError, TypeError, AttributeError):
        return
    replace(graph.node, kept)
    graph.initializer.extend(tensors)
