"""Which outputs of a node become wider when its inputs do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from hetsim.core.room import out_of_room
from hetsim.graph.graph import ITEM_BITS

if TYPE_CHECKING:
    import onnx


def is_wider(target: str, source: str) -> bool:
    """Whether every value of float type `source` is one of float type `target`, and not all back.

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
    """Return the positions of the outputs that come out wider once the inputs are.

    Parameters
    ----------
    node : onnx.NodeProto
    wider : mapping of str to str
        Element types and what they become; entries that widen nothing are passed over.
    dtypes : mapping of str to str
        Element type of each value.
    opsets : mapping of str to int
        Version by domain.

    Returns
    -------
    None where no input widens, or ONNX cannot tell: an op without a schema, one with bodies
    (they are looked at by themselves), or one that does not exist for the wider type.
    """
    from onnx import TypeProto, defs, shape_inference

    from hetsim.graph.reading.onnx_types import element_type, tensor_type

    becomes = {source: to for source, to in wider.items() if is_wider(to, source)}
    if not any(dtypes.get(name) in becomes for name in node.input if name):
        return None
    if any(attribute.HasField("g") or attribute.graphs for attribute in node.attribute):
        return None
    known: dict[str, TypeProto] = {}
    for name in node.input:
        dtype = dtypes.get(name, "")
        if dtype in ITEM_BITS:
            known[name] = tensor_type(element_type(becomes.get(dtype, dtype)), None)
    try:
        schema = defs.get_schema(node.op_type, opsets.get(node.domain, 0), node.domain)
        found = shape_inference.infer_node_outputs(schema, node, known)
    except Exception as error:  # onnx raises types of its own for each, without a common base
        if (short := out_of_room(error)) is not None:
            raise short from error
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
