"""Arithmetic in another precision: values rounded at every node's inputs and outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import onnx
from onnx import TypeProto, defs, helper, shape_inference

from hetsim.core.room import out_of_room
from hetsim.errors import ModelError, UsageError, nearest
from hetsim.graph.graph import ITEM_BITS
from hetsim.graph.reading.onnx_types import dtype_name, element_type, to_tensor
from hetsim.graph.reading.structure import all_names, bodies
from hetsim.hardware.spec import FLOATS
from hetsim.hardware.variants import PRECISIONS


def is_wider(target: str, source: str) -> bool:
    """Whether float type `target` represents every value of `source`, but not the reverse.

    >>> is_wider("float32", "bfloat16"), is_wider("float16", "float32")
    (True, False)
    """
    return "float" in target and ITEM_BITS[target] > ITEM_BITS[source]


def widened_outputs(
    node: onnx.NodeProto,
    wider: Mapping[str, str],
    dtypes: Mapping[str, str],
    opsets: Mapping[str, int],
) -> tuple[int, ...] | None:
    """Return the positions of the outputs that become wider with the inputs.

    `wider`: element types and their replacements; `dtypes`: of each value; `opsets`: version by
    domain. None if no input becomes wider, or ONNX cannot tell: an op without a schema, one with
    bodies, one that produces a sequence, or one not defined for the wider type.
    """
    becomes = {source: to for source, to in wider.items() if is_wider(to, source)}
    if not any(dtypes.get(name) in becomes for name in node.input if name):
        return None
    if any(attribute.HasField("g") or attribute.graphs for attribute in node.attribute):
        return None
    known: dict[str, TypeProto] = {}
    for name in node.input:
        dtype = dtypes.get(name, "")
        if dtype in ITEM_BITS:
            kind = element_type(becomes.get(dtype, dtype))
            known[name] = helper.make_tensor_type_proto(kind, None)
    try:
        schema = defs.get_schema(node.op_type, opsets.get(node.domain, 0), node.domain)
        found = shape_inference.infer_node_outputs(schema, node, known)
    except Exception as error:  # onnx raises different types for each, without a common base
        if (short := out_of_room(error)) is not None:
            raise short from error
        return None
    if any(kind.WhichOneof("value") != "tensor_type" for kind in found.values()):
        return None
    targets: list[int] = []
    for port, name in enumerate(node.output):
        dtype = dtypes.get(name, "")
        if name and dtype in becomes:
            if name not in found:
                return None
            if found[name].tensor_type.elem_type == element_type(becomes[dtype]):
                targets.append(port)
    return tuple(targets)


Rounding = Mapping[str, str]
"""Element types computed in another one, e.g. ``{"float32": "float16"}``."""

_INT8_LARGEST = 127.0

_ROUND_SINCE = 11
_BFLOAT16_SINCE = 13

_SIZES = {"Range": (0, 1, 2), "Resize": (1, 2), "Upsample": (1,)}
"""Inputs that determine an output's size, by op: devices do not compute with them."""

_LAST_BIT_IS_ONE = {"float32": 1.5 * 2**23, "float64": 1.5 * 2**52}
"""Number near which representable values are the integers: adding it rounds to even."""


def check_rounding(rounding: Rounding, where: str) -> None:
    """Raise UsageError for types between which values cannot be rounded."""
    for source, target in rounding.items():
        if source not in FLOATS or target not in PRECISIONS:
            raise UsageError(
                f"{source} cannot be computed in {target}",
                where=where,
                hint=nearest(source, FLOATS)
                if source not in FLOATS
                else nearest(target, PRECISIONS),
            )


def rounded(
    proto: onnx.ModelProto, roundings: Sequence[Rounding], dtypes: Mapping[str, str]
) -> onnx.ModelProto:
    """Return the model with every node's float inputs and outputs rounded as on its device.

    A node computes in the types of the graph, between rounded values: the minimum effect of
    arithmetic in that precision. If the device's type is the wider one, the node computes in it and
    its outputs are rounded to the type of the graph, unless ONNX cannot infer types. Rounding is
    idempotent, so a model cut in parts gives the bits of the whole. Bodies of control flow are
    rounded node by node; model-local functions at their inputs and outputs.

    `roundings`: by node of the graph; empty for no change. `dtypes`: of each value. Raises
    ModelError if a value in a body has a type that cannot be inferred, or the operator set of the
    graph has no bfloat16. O(V + E).
    """
    from hetsim.graph.shapes.inference import with_types

    made = onnx.ModelProto()
    made.CopyFrom(proto)
    if any(bodies(node) for node, r in zip(proto.graph.node, roundings, strict=True) if r):
        made = with_types(made)
    opsets = {entry.domain: entry.version for entry in made.opset_import}
    writer = _RoundingWriter(all_names(made.graph), opsets)
    writer.rewrite(made.graph, list(roundings), dict(dtypes))
    return made


class _RoundingWriter:
    """Writer of roundings between the nodes of a graph and of its inner graphs."""

    def __init__(self, taken: set[str], opsets: Mapping[str, int]) -> None:
        self._taken = taken
        self._opsets = opsets
        self._version = opsets.get("", opsets.get("ai.onnx", 0))

    def rewrite(
        self, graph: onnx.GraphProto, roundings: Sequence[Rounding], dtypes: dict[str, str]
    ) -> None:
        nodes = list(graph.node)
        aliases: dict[tuple[str, str], str] = {}
        written: list[onnx.NodeProto] = []
        for node, rounding in zip(nodes, roundings, strict=True):
            if not rounding:
                written.append(node)
                continue
            for body in bodies(node):
                inner = {**dtypes, **_types(body)}
                self.rewrite(body, [rounding] * len(body.node), inner)
            widened = widened_outputs(node, rounding, dtypes, self._opsets)
            after: list[onnx.NodeProto] = []
            for port, name in enumerate(node.input):
                if not name or port in _SIZES.get(node.op_type, ()):
                    continue
                target = rounding.get(_dtype(name, dtypes, node))
                wide = target is not None and is_wider(target, dtypes[name])
                if target is None or (wide and widened is None):
                    continue
                alias = aliases.get((name, target))
                if alias is None:
                    alias = aliases[name, target] = self._fresh(f"{name}.{target}")
                    if wide:
                        written += self._from_short(name, alias, target)
                    else:
                        written += self._rounding(name, alias, dtypes[name], target)
                node.input[port] = alias
            for port, name in enumerate(node.output):
                target = rounding.get(_dtype(name, dtypes, node)) if name else None
                wide = target is not None and is_wider(target, dtypes[name])
                if target is None or (wide and port not in (widened or ())):
                    continue
                exact = self._fresh(f"{name}.exact")
                if wide:
                    after.append(_cast(exact, name, dtypes[name]))
                else:
                    after += self._rounding(exact, name, dtypes[name], target)
                node.output[port] = exact
            written.append(node)
            written += after
        kept = [type(node)() for node in written]
        for copy, node in zip(kept, written, strict=True):
            copy.CopyFrom(node)
        del graph.node[:]
        graph.node.extend(kept)

    def _rounding(self, source: str, result: str, dtype: str, target: str) -> list[onnx.NodeProto]:
        """Return nodes that compute `result` from `source`, both of `dtype`, via `target`."""
        if dtype not in _LAST_BIT_IS_ONE:  # few kernels take short types
            wide, whole = self._fresh(f"{result}.wide"), self._fresh(f"{result}.whole")
            steps = self._rounding(wide, whole, "float32", target)
            return [*self._from_short(source, wide, "float32"), *steps, _cast(whole, result, dtype)]
        if target == "bfloat16" and self._version < _BFLOAT16_SINCE:
            raise ModelError(
                f"operator set {self._version} cannot round values to bfloat16",
                hint=f"export the model with operator set {_BFLOAT16_SINCE} or newer, or run in "
                "the precision of the graph",
            )
        if target != "int8":
            narrow = self._fresh(f"{result}.cast")
            return [_cast(source, narrow, target), _cast(narrow, result, dtype)]
        names = {
            part: self._fresh(f"{result}.{part}")
            for part in ("abs", "max", "floor", "top", "limit", "step", "ratio", "whole")
        }

        # An all-zero tensor has no scale: any will do.
        return [
            _constant(names["limit"], _INT8_LARGEST, dtype),
            _constant(names["floor"], 1e-30, dtype),
            helper.make_node("Abs", [source], [names["abs"]]),
            helper.make_node("ReduceMax", [names["abs"]], [names["max"]], keepdims=0),
            helper.make_node("Max", [names["max"], names["floor"]], [names["top"]]),
            helper.make_node("Div", [names["top"], names["limit"]], [names["step"]]),
            helper.make_node("Div", [source, names["step"]], [names["ratio"]]),
            *self._to_whole(names["ratio"], names["whole"], dtype),
            helper.make_node("Mul", [names["whole"], names["step"]], [result]),
        ]

    def _from_short(self, source: str, result: str, dtype: str) -> list[onnx.NodeProto]:
        """Return a cast that ONNX Runtime does not merge with `source`'s; see `hold_casts`."""
        held = self._fresh(f"{result}.held")
        return [helper.make_node("Identity", [source], [held]), _cast(held, result, dtype)]

    def _to_whole(self, source: str, result: str, dtype: str) -> list[onnx.NodeProto]:
        """Return nodes that round numbers of at most 127 to integers, halves to even."""
        if self._version >= _ROUND_SINCE:
            return [helper.make_node("Round", [source], [result])]
        beside, moved = self._fresh(f"{result}.beside"), self._fresh(f"{result}.moved")
        return [
            _constant(beside, _LAST_BIT_IS_ONE[dtype], dtype),
            helper.make_node("Add", [source, beside], [moved]),
            helper.make_node("Sub", [moved, beside], [result]),
        ]

    def _fresh(self, wanted: str) -> str:
        name = wanted
        while name in self._taken:
            name += "_"
        self._taken.add(name)
        return name


def _cast(source: str, result: str, dtype: str) -> onnx.NodeProto:
    return helper.make_node("Cast", [source], [result], to=element_type(dtype))


def _constant(name: str, number: float, dtype: str) -> onnx.NodeProto:
    tensor = helper.make_tensor("value", element_type(dtype), [], [number])
    return helper.make_node("Constant", [], [name], value=tensor)


def _dtype(name: str, dtypes: Mapping[str, str], node: onnx.NodeProto) -> str:
    if name not in dtypes:
        raise ModelError(
            f"the type of '{name}' cannot be inferred, so the value cannot be rounded",
            where=f"node '{node.name}' ({node.op_type}) in a body",
            hint="run in the precision of the graph",
        )
    return dtypes[name]


def _types(graph: onnx.GraphProto) -> dict[str, str]:
    """Return the element types that a body states for its values, after inference."""
    found = {tensor.name: dtype_name(tensor.data_type) for tensor in graph.initializer}
    found.update((s.values.name, dtype_name(s.values.data_type)) for s in graph.sparse_initializer)
    for values in (graph.input, graph.value_info, graph.output):
        for value in values:
            if value.HasField("type"):
                found[value.name] = to_tensor(value.name, value.type).dtype
    return found
