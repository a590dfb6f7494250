"""Which nodes a device would run as one kernel, by the chains that it declares."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from hetsim.device.support.quantized import PRODUCTS, fusing_key
from hetsim.graph.graph import Graph
from hetsim.hardware.executing import INT8
from hetsim.hardware.spec import DeviceSpec

_USUAL = (tuple(sorted(PRODUCTS)), ("Clip", "Relu"))
"""What is one integer kernel where all of it is quantized, whatever a device declares: the
quantized range of the result is what the activation leaves."""


def with_usual_chain(spec: DeviceSpec) -> DeviceSpec:
    """Return the device with the chain that is customary where it executes in int8."""
    if spec.executes != INT8:
        return spec
    return replace(spec, fusions=(*spec.fusions, _USUAL))


def fused_chains(
    graph: Graph, spec: DeviceSpec, supported: Sequence[bool]
) -> tuple[tuple[int, ...], ...]:
    """Match the device's fusion chains on the graph.

    A chain v1, v2, ... matches where each node is of an op type the chain allows at its
    place, is supported, and the value it hands on is read by the next node alone and is
    no output of the graph. Nodes are tried in graph order, longer chains first; a node
    belongs to one match at most. O(V * chains).
    """
    consumers = graph.consumers()
    outputs = set(graph.outputs)
    chains = sorted(spec.fusions, key=len, reverse=True)
    taken: set[int] = set()
    found: list[tuple[int, ...]] = []
    for node in graph.nodes:
        for chain in chains:
            match = _match(graph, spec, chain, node.id, supported, taken, consumers, outputs)
            if match is not None:
                taken.update(match)
                found.append(match)
                break
    return tuple(found)


def _match(
    graph: Graph,
    spec: DeviceSpec,
    chain: tuple[tuple[str, ...], ...],
    first: int,
    supported: Sequence[bool],
    taken: set[int],
    consumers: Mapping[str, tuple[int, ...]],
    outputs: set[str],
) -> tuple[int, ...] | None:
    members: list[int] = []
    at = first
    for place, allowed in enumerate(chain):
        node = graph.nodes[at]
        if at in taken or not supported[at] or fusing_key(node, spec) not in allowed:
            return None
        members.append(at)
        if place == len(chain) - 1:
            return tuple(members)
        if len(node.writes) != 1 or node.writes[0] in outputs:
            return None
        readers = consumers.get(node.writes[0], ())
        if len(readers) != 1:
            return None
        at = readers[0]
    return None
