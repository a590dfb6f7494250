"""A model on a platform, as a Problem: support, times, transfers, weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from hetsim.cost.fusion import fused_chains
from hetsim.cost.model import CostModel, Kernel
from hetsim.cost.registry import cost_model
from hetsim.device.registry import platform_devices
from hetsim.errors import UnboundDimension
from hetsim.graph.graph import Graph
from hetsim.graph.model import Model
from hetsim.graph.work import Work, graph_work, op_key
from hetsim.hardware.routes import build_routes
from hetsim.hardware.spec import DeviceSpec, Platform
from hetsim.problem import (
    GRAPH_INPUT,
    Constant,
    Contention,
    FusedKernel,
    Problem,
    Value,
    check_contention,
)


def price(
    model: Model,
    platform: Platform,
    *,
    cost: str = "roofline",
    contention: Contention = "fifo",
) -> Problem:
    """Build the problem of running `model` on `platform`; see ``Problem.of``. O((V + E) P)."""
    graph = model.graph
    chosen = cost_model(cost)
    works = graph_work(graph)
    uses = _Uses(graph, graph.consumers(), frozenset(graph.outputs))
    names = tuple(platform.devices)
    seconds = np.full((len(graph.nodes), len(names)), np.inf)
    fused: list[FusedKernel] = []
    refusals: list[dict[int, str]] = []
    for p, device in enumerate(platform_devices(platform, model.extensions).values()):
        spec = device.spec
        support = device.query_model(graph)
        refusals.append(dict(support.reasons))
        for node, taken in enumerate(support.supported):
            if taken:
                seconds[node, p] = chosen.estimate(spec, Kernel((works[node],))).seconds
        for match in support.composites:
            together = _fused_seconds(uses, works, match.nodes, spec, chosen)
            fused.append(FusedKernel(p, match.nodes, together, match.pattern))
        free = list(support.supported)
        for match in support.composites:
            for node in match.nodes:
                free[node] = False
        for members in fused_chains(graph, spec, free):
            together = _fused_seconds(uses, works, members, spec, chosen)
            if together < float(seconds[list(members), p].sum()):
                fused.append(FusedKernel(p, members, together))
    link_names, routes = build_routes(platform)
    specs = tuple(platform.devices.values())
    return Problem(
        name=f"{model.name} on {platform.name}",
        devices=names,
        seconds=seconds,
        values=values_of(graph),
        constants=_constants(graph),
        routes=routes,
        dispatch_s=tuple(spec.dispatch_s for spec in specs),
        streams=tuple(spec.streams for spec in specs),
        host=names.index(platform.host),
        contention=check_contention(contention),
        link_names=link_names,
        capacity_bytes=tuple(spec.memory_bytes for spec in specs),
        fused=tuple(fused),
        idle_w=tuple(spec.idle_w for spec in specs),
        busy_w=tuple(spec.busy_w for spec in specs),
        node_names=tuple(node.name for node in graph.nodes),
        op_types=tuple(op_key(node) for node in graph.nodes),
        origins=tuple(node.origins for node in graph.nodes),
        refusals=tuple(refusals),
        model=model,
        platform=platform,
    )


@dataclass(frozen=True, slots=True)
class _Uses:
    """A graph and who reads its values."""

    graph: Graph
    readers: Mapping[str, tuple[int, ...]]
    outputs: frozenset[str]


def _fused_seconds(
    uses: _Uses,
    works: tuple[Work, ...],
    members: tuple[int, ...],
    spec: DeviceSpec,
    cost: CostModel,
) -> float:
    # A value that is made and read inside never moves: nor is it written, if none else reads it.
    inside = set(members)
    hidden = 0
    for node in members:
        for name in uses.graph.nodes[node].writes:
            readers = uses.readers.get(name, ())
            own = sum(reader in inside for reader in readers)
            unwritten = 0 < own == len(readers) and name not in uses.outputs
            hidden += (own + unwritten) * uses.graph.tensors[name].nbytes
    return cost.estimate(spec, Kernel(tuple(works[node] for node in members), hidden)).seconds


def values_of(graph: Graph, *, open_bytes: int | None = None) -> tuple[Value, ...]:
    """Return what may have to move between devices. O(V + E).

    `open_bytes` stands for sizes that are not bound; None raises UnboundDimension for them.
    """
    producers, consumers = graph.producers(), graph.consumers()
    outputs = set(graph.outputs)
    values: list[Value] = []
    for name in (*graph.inputs, *producers):
        producer = producers.get(name, GRAPH_INPUT)
        readers = consumers.get(name, ())
        # An input that is also an output is on the host already, and belongs to no node.
        is_output = name in outputs and producer != GRAPH_INPUT
        if readers or is_output:
            try:
                nbytes = graph.tensors[name].nbytes
            except UnboundDimension:
                if open_bytes is None:
                    raise
                nbytes = open_bytes
            values.append(Value(name, nbytes, producer, readers, is_output))
    return tuple(values)


def _constants(graph: Graph) -> tuple[Constant, ...]:
    consumers = graph.consumers()
    return tuple(
        Constant(name, graph.tensors[name].nbytes, consumers[name])
        for name in sorted(graph.constants)
        if name in consumers
    )
