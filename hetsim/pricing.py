"""A model on a platform, as a Problem: support, times, transfers, weights."""

from __future__ import annotations

import numpy as np

from hetsim.cost.fusion import fused_chains
from hetsim.cost.model import CostModel, Kernel
from hetsim.cost.registry import cost_model
from hetsim.device.plugin import SimulatedDevice
from hetsim.graph.graph import Graph
from hetsim.graph.model import Model
from hetsim.graph.work import Work, graph_work
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
    names = tuple(platform.devices)
    seconds = np.full((len(graph.nodes), len(names)), np.inf)
    fused: list[FusedKernel] = []
    refusals: list[dict[int, str]] = []
    for p, (name, spec) in enumerate(platform.devices.items()):
        support = SimulatedDevice(name, spec).query_model(graph)
        refusals.append(dict(support.reasons))
        for node, taken in enumerate(support.supported):
            if taken:
                seconds[node, p] = chosen.estimate(spec, Kernel((works[node],))).seconds
        for members in fused_chains(graph, spec, support.supported):
            together = _fused_seconds(graph, works, members, spec, chosen)
            if together < float(seconds[list(members), p].sum()):
                fused.append(FusedKernel(p, members, together))
    link_names, routes = build_routes(platform)
    specs = tuple(platform.devices.values())
    return Problem(
        name=f"{model.name} on {platform.name}",
        devices=names,
        seconds=seconds,
        values=_values(graph),
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
        op_types=tuple(node.op_type for node in graph.nodes),
        origins=tuple(node.origins for node in graph.nodes),
        refusals=tuple(refusals),
        model=model,
        platform=platform,
    )


def _fused_seconds(
    graph: Graph,
    works: tuple[Work, ...],
    members: tuple[int, ...],
    spec: DeviceSpec,
    cost: CostModel,
) -> float:
    # A chain's inner value is written once and read once: twice its size never moves.
    hidden = sum(2 * graph.tensors[graph.nodes[node].writes[0]].nbytes for node in members[:-1])
    return cost.estimate(spec, Kernel(tuple(works[node] for node in members), hidden)).seconds


def _values(graph: Graph) -> tuple[Value, ...]:
    producers, consumers = graph.producers(), graph.consumers()
    outputs = set(graph.outputs)
    values: list[Value] = []
    for name in (*graph.inputs, *producers):
        producer = producers.get(name, GRAPH_INPUT)
        readers = consumers.get(name, ())
        # An input that is also an output is on the host already, and belongs to no node.
        is_output = name in outputs and producer != GRAPH_INPUT
        if readers or is_output:
            values.append(Value(name, graph.tensors[name].nbytes, producer, readers, is_output))
    return tuple(values)


def _constants(graph: Graph) -> tuple[Constant, ...]:
    consumers = graph.consumers()
    return tuple(
        Constant(name, graph.tensors[name].nbytes, consumers[name])
        for name in sorted(graph.constants)
        if name in consumers
    )
