"""Conversions at the ends of a quantized model, which compilers for integer hardware take off.

A device of integers alone has no kernel that reads or makes floats. Its compiler takes the
QuantizeLinear of an input and the DequantizeLinear of an output off the model: the host does them,
and the device is given integers. Conversions of stored weights are folded at the same time.

Source: the Edge TPU compiler ("inputs and outputs" of its documentation of quantized models),
Hailo's dataflow compiler (host-side quantization of HailoRT's streams), Qualcomm's QNN (quantized
input and output buffers).
"""

from __future__ import annotations

from hetsim.device.support.quantized import DEQUANTIZE, QUANTIZE
from hetsim.graph.graph import Graph, Node
from hetsim.graph.work import op_key
from hetsim.hardware.spec import DeviceSpec

_VIEWS = frozenset({"Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze"})
_KEPT = "conversions at the ends"


def integers_alone(spec: DeviceSpec) -> bool:
    """Whether a device computes in integers, and in no float type at all."""
    return bool(spec.quantized) and not any("float" in rate for rate in spec.flops_per_s)


def taken_off(spec: DeviceSpec, graph: Graph) -> frozenset[int]:
    """Return the conversions of `graph`, and views outside of them, that the host does instead."""
    return _at_the_ends(graph) if integers_alone(spec) else frozenset()


def folded(spec: DeviceSpec, graph: Graph) -> frozenset[int]:
    """Return the conversions of stored integers, which such a device never runs. O(V)."""
    if not integers_alone(spec):
        return frozenset()
    stored = graph.dequantized
    return frozenset(
        node.id for node in graph.nodes if node.writes and stored.keys() >= set(node.writes)
    )


def _at_the_ends(graph: Graph) -> frozenset[int]:
    known = graph.kept.get(_KEPT)
    if not isinstance(known, frozenset):
        known = graph.kept[_KEPT] = frozenset(_stores(graph) | _loads(graph))
    return known


def _stores(graph: Graph) -> set[int]:
    """QuantizeLinear nodes of the model's inputs, and the views that lead to nothing else."""
    given, found, views = set(graph.inputs), set[int](), list[Node]()
    for node in graph.nodes:
        if not node.inputs or node.inputs[0] not in given:
            continue
        if op_key(node) in QUANTIZE:
            found.add(node.id)
        elif op_key(node) in _VIEWS:
            given.update(node.writes)
            views.append(node)
    readers, outputs = graph.consumers(), set(graph.outputs)
    for node in reversed(views):
        after = {v for name in node.writes for v in readers.get(name, ())}
        if after and after <= found and outputs.isdisjoint(node.writes):
            found.add(node.id)
    return found


def _loads(graph: Graph) -> set[int]:
    """DequantizeLinear nodes whose results only leave the model, and the views behind them."""
    readers, outputs, found = graph.consumers(), set(graph.outputs), set[int]()
    views: set[int] = set()
    for node in reversed(graph.nodes):
        if not all(
            (name in outputs or name in readers) and views.issuperset(readers.get(name, ()))
            for name in node.writes
        ):
            continue
        if op_key(node) in DEQUANTIZE and node.writes[0] not in graph.dequantized:
            found.add(node.id)
        elif op_key(node) in _VIEWS:
            views.add(node.id)
    producers = graph.producers()
    for node in graph.nodes:
        if node.id in views and producers.get(node.inputs[0]) in found:
            found.add(node.id)
    return found
