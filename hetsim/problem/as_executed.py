"""A model asked about as if in another precision: on which devices, and how they hold tensors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from hetsim.device.support.quantized import integer_node, is_quantized
from hetsim.device.support.rules import Support
from hetsim.errors import InvalidInput
from hetsim.graph.graph import ITEM_BITS, Graph
from hetsim.graph.model import Model
from hetsim.hardware.spec import FLOATS, DeviceSpec, Platform
from hetsim.hardware.variants import INT8, executed, platform_executing
from hetsim.problem.parts import Constant, Held, Value


def platform_as_asked(model: Model, platform: Platform, execute: Mapping[str, str]) -> Platform:
    """Return `platform` with its devices executing `model` as the caller asks, or its file says.

    A model that is quantized says itself what is computed in integers: what a platform's file
    says of int8 is not for it.

    Raises
    ------
    UsageError
        As ``platform_executing`` does.
    InvalidInput
        Where the caller asks for int8 of a model that is quantized.
    """
    asked = platform_executing(platform, execute)
    if INT8 not in executed(asked).values() or not is_quantized(model.graph):
        return asked
    if INT8 in execute.values():
        raise quantized_already(model)
    own = {
        name: replace(spec, executes=None) if spec.executes == INT8 else spec
        for name, spec in asked.devices.items()
    }
    return replace(asked, devices=own)


def quantized_already(model: Model) -> InvalidInput:
    """Return the error of a model that is asked about as if in int8, and is quantized."""
    return InvalidInput(
        "the model is quantized, and says itself what is computed in integers: "
        "it cannot be executed as if in int8",
        where=model.source,
        hint="leave that out, or give the float model",
    )


def held_as(
    spec: DeviceSpec, graph: Graph, support: Support, tensors: Iterable[Value | Constant]
) -> Held:
    """Return how a device holds `tensors` of the graph that it executes in another precision.

    What it takes without an integer kernel, and what is no float, is held as the graph says.
    Of several float types the one that gains least counts. O(V + E).
    """
    if spec.executes is None:
        return Held()
    kind_of = {name: tensor.dtype for name, tensor in graph.tensors.items()}
    kind_of.update((tensor.name, tensor.dtype) for node in graph.nodes for tensor in node.held)
    kinds = {kind_of[tensor.name] for tensor in tensors} & {*FLOATS}
    if not kinds:
        return Held()
    wide: set[str] = set()
    if spec.executes == INT8:
        for node, taken in zip(graph.nodes, support.taken, strict=True):
            if taken and not integer_node(spec, graph, node):
                wide.update((*node.reads, *node.writes, *(tensor.name for tensor in node.held)))
    kept_bytes = sum(
        tensor.nbytes
        for tensor in tensors
        if tensor.name in wide or kind_of[tensor.name] not in FLOATS
    )
    wide_bits = min(ITEM_BITS[kind] for kind in kinds)
    return Held.within(spec.memory_bytes, wide_bits, ITEM_BITS[spec.executes], kept_bytes)
