"""A model on a platform, as what a Problem is made of: support, times, transfers, weights."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from hetsim.cost import DEFAULT_COST
from hetsim.cost.model import WholeModelCost
from hetsim.cost.prices import Fused, Prices
from hetsim.cost.profiles.formats import Profile, load_profile
from hetsim.cost.profiles.prices import MeasuredShare, with_profile
from hetsim.cost.registry import cost_model
from hetsim.device.registry import platform_devices
from hetsim.errors import UnboundDimension, UsageError
from hetsim.graph.graph import Graph
from hetsim.graph.model import Model
from hetsim.graph.shapes.open_shapes import unbound
from hetsim.graph.work import graph_work, op_key
from hetsim.hardware.kernel_figures import KernelFigures
from hetsim.hardware.kin import Likely
from hetsim.hardware.routes import build_routes
from hetsim.hardware.spec import Platform, Supposed, standing_for
from hetsim.problem.as_executed import held_as, platform_as_asked
from hetsim.problem.evidence_of_platform import (
    batch_of,
    device_evidence,
    link_evidence,
    supposing,
)
from hetsim.problem.given import Given
from hetsim.problem.parts import (
    GRAPH_INPUT,
    Constant,
    Contention,
    FusedKernel,
    Held,
    Staging,
    Value,
    check_contention,
)


def price(
    model: Model,
    platform: Platform,
    *,
    cost: str = DEFAULT_COST,
    contention: Contention = "fifo",
    profiles: Mapping[str, str | os.PathLike[str]] | None = None,
    execute: Mapping[str, str] | None = None,
) -> Given:
    """Give the problem of running `model` on `platform`; see ``Problem.of``. O((V + E) P)."""
    graph = model.graph
    platform = platform_as_asked(model, platform, execute or {})
    try:
        works, values = graph_work(graph), values_of(graph)
        constants = constants_of(graph)
    except UnboundDimension:
        # One value cannot say what binds them all.
        raise unbound(graph, model.source, model.unmeasured) from None
    names = tuple(platform.devices)
    seconds = np.full((len(graph.nodes), len(names)), np.inf)
    least = np.full_like(seconds, np.inf)
    fused: list[FusedKernel] = []
    measured: dict[str, MeasuredShare] = {}
    of_device = read_profiles(profiles or {}, platform)
    supposed = platform.supposed or Supposed()
    _check_supposed(of_device, supposed)
    refusals: list[dict[int, str]] = []
    held: list[Held] = []
    by, batch = cost_model(cost), batch_of(graph)
    figures, likely = list[KernelFigures | None](), list[Likely | None]()
    borders: list[tuple[float, float]] = []
    for p, device in enumerate(platform_devices(platform, model.extensions).values()):
        support = device.query_model(graph)
        refusals.append(dict(support.reasons))
        own = [work for work, takes in zip(works, support.taken, strict=True) if takes]
        priced, chosen, said = by, None, None
        if isinstance(by, WholeModelCost):
            chosen = by.figures(device.spec, graph, own)
            said = by.likely(graph, chosen, batch)
            priced = by.of_works(own, said)
        figures.append(chosen)
        likely.append(said)
        prices = Prices(device.spec, priced)
        held.append(held_as(device.spec, graph, support, (*values, *constants)))
        borders.append(prices.borders(graph))
        for node, taken in enumerate(support.supported):
            if taken:
                seconds[node, p], least[node, p] = prices.node(graph, graph.nodes[node])
        for node, took_s in prices.loads(graph, support).items():
            seconds[node, p] = least[node, p] = took_s
        copies = prices.copies(graph, support)
        for node, took_s in copies.items():
            seconds[node, p] += took_s
            least[node, p] += took_s
        kernels: tuple[Fused, ...] = prices.fused(graph, support, seconds[:, p].tolist(), copies)
        for kernel in kernels:
            # What a runtime joins although that takes longer is not apart either.
            more_s = kernel.seconds - float(seconds[[*kernel.nodes], p].sum())
            if not kernel.pattern and more_s > 0:
                seconds[kernel.nodes[-1], p] += more_s
                least[kernel.nodes[-1], p] += more_s
        if names[p] in of_device:
            profile = of_device[names[p]]
            found = with_profile(
                profile, model, device.spec.kind, seconds[:, p], least[:, p], kernels
            )
            seconds[:, p], least[:, p], kernels = found.seconds, found.least, found.fused
            measured[names[p]] = found.share
        fused += [FusedKernel(p, k.nodes, k.seconds, k.pattern) for k in kernels]
    link_names, routes = build_routes(platform)
    specs = tuple(platform.devices.values())
    return Given(
        name=f"{model.name} on {platform.name}",
        devices=names,
        seconds=seconds,
        values=values,
        constants=constants,
        routes=routes,
        dispatch_s=tuple(
            spec.dispatch_s if found is None else found.dispatch_s
            for spec, found in zip(specs, figures, strict=True)
        ),
        streams=tuple(spec.streams for spec in specs),
        host=names.index(platform.host),
        contention=check_contention(contention),
        link_names=link_names,
        capacity_bytes=tuple(
            how.room(spec.memory_bytes) for how, spec in zip(held, specs, strict=True)
        ),
        held=tuple(held) if any(how != Held() for how in held) else (),
        fused=tuple(fused),
        staging=Staging(
            tuple(to_int8 for to_int8, _ in borders), tuple(back for _, back in borders), ends=False
        )
        if any(map(any, borders))
        else None,
        idle_w=tuple(spec.idle_w for spec in specs),
        busy_w=tuple(spec.busy_w for spec in specs),
        node_names=tuple(node.name for node in graph.nodes),
        op_types=tuple(op_key(node) for node in graph.nodes),
        origins=tuple(node.origins for node in graph.nodes),
        refusals=tuple(refusals),
        unpriced={
            node.id: works[node.id].why
            for node in graph.nodes
            if not works[node.id].rule
            and not _measured_everywhere(node.id, seconds, names, measured)
        },
        unsized={
            node.id: works[node.id].unsized
            for node in graph.nodes
            if works[node.id].unsized
            and any(
                found is not None and np.isfinite(seconds[node.id, p]) and name not in measured
                for p, (name, found) in enumerate(zip(names, figures, strict=True))
            )
        },
        least_s={
            node: tuple(least[node].tolist())
            for node in np.flatnonzero((least < seconds).any(axis=1)).tolist()
        },
        cost=cost,
        model=model,
        platform=platform,
        profiles=measured,
        evidence=tuple(
            supposing(
                device_evidence(name, spec, found, batch, measured.get(name), said),
                supposed.devices,
            )
            for (name, spec), found, said in zip(
                platform.devices.items(), figures, likely, strict=True
            )
        ),
        link_evidence=tuple(
            supposing(link_evidence(link), supposed.links) for link in platform.links
        ),
    )


def _check_supposed(measured: Mapping[str, Profile], supposed: Supposed) -> None:
    """Raise UsageError where figures of a device are supposed whose times were measured."""
    both = [name for name in measured if name in supposed.devices]
    if both:
        raise UsageError(
            f"device '{both[0]}' has a profile: its times were measured, and follow no figure",
            where=f"what if '{supposed}'",
            hint="leave the profile out, or suppose nothing of that device",
        )


def _measured_everywhere(
    node: int,
    seconds: NDArray[np.float64],
    names: Sequence[str],
    measured: Mapping[str, MeasuredShare],
) -> bool:
    """Whether every device that runs a node has a measured time for it."""
    runs = [name for p, name in enumerate(names) if np.isfinite(seconds[node, p])]
    return bool(runs) and all(name in measured and measured[name].measured[node] for name in runs)


def read_profiles(
    profiles: Mapping[str, str | os.PathLike[str]], platform: Platform
) -> dict[str, Profile]:
    """Read the profiles by device; ``gpu`` stands for ``gpu.0``, ``gpu.1`` and so on.

    Raises UsageError where there is no such device, or one has two profiles.
    """
    found: dict[str, Profile] = {}
    read: dict[str, Profile] = {}
    names = tuple(platform.devices)
    for name, source in profiles.items():
        alike = standing_for(name, names, f" on {platform.name} to have a profile")
        twice = [device for device in alike if device in found]
        if twice:
            raise UsageError(f"device '{twice[0]}' has two profiles", hint="leave one out")
        path = os.fspath(source)
        if path not in read:
            read[path] = load_profile(path)
        found.update(dict.fromkeys(alike, read[path]))
    return found


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
                # Weights are where they are needed before the clock starts.
                nbytes = 0 if name in graph.dequantized else graph.tensors[name].nbytes
            except UnboundDimension:
                if open_bytes is None:
                    raise
                nbytes = open_bytes
            values.append(Value(name, nbytes, producer, readers, is_output))
    return tuple(values)


def constants_of(graph: Graph) -> tuple[Constant, ...]:
    """Return the constants that nodes read, and those that they carry themselves. O(V + E)."""
    consumers = graph.consumers()
    readers = {name: set(consumers[name]) for name in graph.constants if name in consumers}
    for value, behind in graph.dequantized.items():
        for name in behind:
            readers[name].update(consumers.get(value, ()))
    read = [
        Constant(name, graph.tensors[name].nbytes, tuple(sorted(readers[name])))
        for name in sorted(readers)
    ]
    held = [
        Constant(tensor.name, tensor.nbytes, (node.id,))
        for node in graph.nodes
        for tensor in node.held
    ]
    return (*read, *held)
