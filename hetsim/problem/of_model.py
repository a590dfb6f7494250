"""Problem of a model on a platform: support, times, transfers."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hetsim.cost import DEFAULT_COST
from hetsim.cost.kernels.float_equivalent import figures_for
from hetsim.cost.model import CostModel, WholeModelCost
from hetsim.cost.prices import Fused, Prices
from hetsim.cost.profiles.formats import Profile, load_profile
from hetsim.cost.profiles.prices import MeasuredShare, with_profile
from hetsim.cost.registry import cost_model
from hetsim.device.device import Device
from hetsim.device.registry import SIMULATED, platform_devices
from hetsim.device.support.quantized import integer_node, is_quantized
from hetsim.device.support.rules import Support
from hetsim.errors import InvalidInput, UnboundDimension, UsageError
from hetsim.graph.graph import ITEM_BITS, Graph
from hetsim.graph.model import Model
from hetsim.graph.shapes.open_shapes import unbound
from hetsim.graph.work import graph_work, op_key
from hetsim.graph.work.rule import Work
from hetsim.hardware.kernel_figures import KernelFigures
from hetsim.hardware.kin import Likely
from hetsim.hardware.measurement import Measurement
from hetsim.hardware.routes import REFERENCE_BYTES, build_routes
from hetsim.hardware.spec import FLOATS, DeviceSpec, Platform, Route, Supposed, standing_for
from hetsim.hardware.variants import INT8, executed, executing, platform_executing
from hetsim.problem.evidence import device_evidence, hypothetical_evidence, link_evidence
from hetsim.problem.measured import (
    Alone,
    Asked,
    known_on,
    measured_on,
    place_on,
    read_measured,
)
from hetsim.problem.parts import (
    GRAPH_INPUT,
    Contention,
    Evidence,
    FusedKernel,
    Measured,
    ProblemData,
    Staging,
    StorageWidth,
    StoredConstant,
    Value,
    check_bytes,
    check_contention,
    distributed_seconds,
)


def platform_as_asked(model: Model, platform: Platform, execute: Mapping[str, str]) -> Platform:
    """Return `platform` with its devices executing `model` in the requested precisions.

    A quantized model defines its own integer computation, so int8 in a platform file is ignored.

    Raises UsageError as ``platform_executing``; InvalidInput if the caller requests int8 for a
    quantized model.
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
    """Return the error for a quantized model with `execute` in int8."""
    return InvalidInput(
        "the model is quantized already: it cannot be executed as if in int8",
        where=model.source,
        hint="omit --execute, or use the float model",
    )


def held_as(
    spec: DeviceSpec, graph: Graph, support: Support, tensors: Iterable[Value | StoredConstant]
) -> StorageWidth:
    """Return how a device stores `tensors` of a graph that it executes in another precision.

    Inputs and outputs of nodes without an integer kernel, and non-float tensors, keep their type.
    With several float types, the one that gains least counts. O(V + E).
    """
    if spec.executes is None:
        return StorageWidth()
    kind_of = {name: tensor.dtype for name, tensor in graph.tensors.items()}
    kind_of.update((tensor.name, tensor.dtype) for node in graph.nodes for tensor in node.held)
    kinds = {kind_of[tensor.name] for tensor in tensors} & {*FLOATS}
    if not kinds:
        return StorageWidth()
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
    return StorageWidth.within(spec.memory_bytes, wide_bits, ITEM_BITS[spec.executes], kept_bytes)


def float_evidence(name: str, spec: DeviceSpec) -> Evidence:
    """Return the evidence behind prices of float32 models at batch 1, by the default cost model.

    With measurements in the device's file, it is that of a network unlike all measured ones.
    """
    by = cost_model(DEFAULT_COST)
    dtype = spec.executes or spec.execution_dtype.get("float32", "float32")
    fitted = isinstance(by, WholeModelCost) and spec.kernels
    figures = figures_for(spec, dtype)[0] if fitted else None
    evidence = device_evidence(name, spec, figures, 1)
    if not spec.measurements:
        return evidence
    return _posterior(None, spec, spec, evidence, spec.measurements, by, figures, 1, name)[1]


def batch_of(graph: Graph) -> int:
    """Return the batch size of a model: the first dimension of its first input.

    1 if it has none, or only one.
    """
    for name in graph.inputs:
        shape = graph.tensors[name].shape
        if shape is not None and len(shape) > 1 and isinstance(shape[0], int):
            return max(shape[0], 1)
    return 1


def link_weights(platform: Platform, routes: tuple[tuple[Route, ...], ...]) -> NDArray[np.float64]:
    """Return the share [P, P, L] of a transfer from p to q that each link takes.

    For transfers of ``REFERENCE_BYTES``, the size that routes are chosen for. O(P^2 + hops).
    """
    index = {link.name: at for at, link in enumerate(platform.links)}
    takes_s = [link.latency_s + REFERENCE_BYTES / link.bytes_per_s for link in platform.links]
    weights = np.zeros((len(routes), len(routes), len(index)))
    for p, row in enumerate(routes):
        for q, route in enumerate(row):
            whole = sum(takes_s[index[name]] for name in route.links)
            for name in route.links:
                weights[p, q, index[name]] += takes_s[index[name]] / whole
    return weights


def price(
    model: Model,
    platform: Platform,
    *,
    cost: str = DEFAULT_COST,
    contention: Contention = "fifo",
    profiles: Mapping[str, str | os.PathLike[str]] | None = None,
    execute: Mapping[str, str] | None = None,
    measured: Asked | None = None,
) -> ProblemData:
    """Build the problem of running `model` on `platform`; see ``Problem.of``. O((V + E) P)."""
    graph = model.graph
    as_read = platform if platform.supposed is None else platform.supposed.read or platform
    platform = platform_as_asked(model, platform, execute or {})
    try:
        works, values = graph_work(graph), values_of(graph)
        constants = constants_of(graph)
    except UnboundDimension:
        # One value cannot show which dimensions are open in all.
        raise unbound(graph, model.source, model.unmeasured) from None
    check_bytes((*values, *constants), model.source)
    names = tuple(platform.devices)
    seconds = np.full((len(graph.nodes), len(names)), np.inf)
    least = np.full_like(seconds, np.inf)
    fused: list[FusedKernel] = []
    shares: dict[str, MeasuredShare] = {}
    of_device = read_profiles(profiles or {}, platform)
    supposed = platform.supposed or Supposed()
    _check_supposed(of_device, supposed)
    by, batch = cost_model(cost), batch_of(graph)
    ones: list[_OnDevice] = []
    for p, device in enumerate(platform_devices(platform, model.extensions).values()):
        one = _kept_on_device(graph, device, works, (*values, *constants), by, batch)
        ones.append(one)
        seconds[:, p], least[:, p], kernels = one.seconds, one.least, one.fused
        if names[p] in of_device:
            profile = of_device[names[p]]
            found = with_profile(
                profile, model, device.spec.kind, seconds[:, p], least[:, p], kernels
            )
            seconds[:, p], least[:, p], kernels = found.seconds, found.least, found.fused
            shares[names[p]] = found.share
        fused += [FusedKernel(p, k.nodes, k.seconds, k.pattern) for k in kernels]
    evidence = [
        device_evidence(name, spec, one.figures, batch, shares.get(name), one.likely)
        for (name, spec), one in zip(platform.devices.items(), ones, strict=True)
    ]
    dispatch_s = [
        spec.dispatch_s if one.figures is None else one.figures.dispatch_s
        for spec, one in zip(platform.devices.values(), ones, strict=True)
    ]
    borders = [one.borders for one in ones]
    here: dict[str, Measured] = {}
    for name, each in read_measured(measured or {}, platform, of_device).items():
        p = names.index(name)
        here[name], evidence[p] = _posterior(
            model, as_read.devices[name], platform.devices[name], evidence[p], each, by,
            ones[p].figures, batch, name,
        )  # fmt: skip
        factor = here[name].factor
        seconds[:, p] *= factor
        least[:, p] *= factor
        dispatch_s[p] *= factor
        borders[p] = (borders[p][0] * factor, borders[p][1] * factor)
        fused = [replace(k, seconds=k.seconds * factor) if k.device == p else k for k in fused]
    link_names, routes = build_routes(platform)
    specs, held = tuple(platform.devices.values()), tuple(one.held for one in ones)
    return ProblemData(
        name=f"{model.name} on {platform.name}",
        devices=names,
        seconds=seconds,
        values=values,
        constants=constants,
        routes=routes,
        dispatch_s=tuple(dispatch_s),
        streams=tuple(spec.streams for spec in specs),
        host=names.index(platform.host),
        contention=check_contention(contention),
        link_names=link_names,
        capacity_bytes=tuple(
            one.held.room(spec.memory_bytes) for one, spec in zip(ones, specs, strict=True)
        ),
        held=held if any(how != StorageWidth() for how in held) else (),
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
        refusals=tuple(dict(one.support.reasons) for one in ones),
        unpriced={
            node.id: works[node.id].why
            for node in graph.nodes
            if not works[node.id].rule and not _measured_everywhere(node.id, seconds, names, shares)
        },
        unsized={
            node.id: works[node.id].unsized
            for node in graph.nodes
            if works[node.id].unsized
            and any(
                one.figures is not None and np.isfinite(seconds[node.id, p]) and name not in shares
                for p, (name, one) in enumerate(zip(names, ones, strict=True))
            )
        },
        least_s={
            node: tuple(least[node].tolist())
            for node in np.flatnonzero((least < seconds).any(axis=1)).tolist()
        },
        cost=cost,
        model=model,
        platform=platform,
        profiles=shares,
        measured=here,
        evidence=tuple(hypothetical_evidence(one, supposed.devices) for one in evidence),
        link_evidence=tuple(
            hypothetical_evidence(link_evidence(link), supposed.links) for link in platform.links
        ),
    )


class _OnDevice(NamedTuple):
    """Support, figures and seconds by node [nodes] of a model on a device."""

    support: Support
    figures: KernelFigures | None
    likely: Likely | None
    held: StorageWidth
    borders: tuple[float, float]
    seconds: NDArray[np.float64]
    least: NDArray[np.float64]
    fused: tuple[Fused, ...]


_KEPT = "times on devices"
_MOST_KEPT = 32
"""Number of distinct devices whose times are cached with a graph, the latest ones."""


def _kept_on_device(
    graph: Graph,
    device: Device,
    works: Sequence[Work],
    values: Sequence[Value | StoredConstant],
    by: CostModel,
    batch: int,
) -> _OnDevice:
    """Return the result of ``_on_device``, cached for equal devices on all platforms."""
    kept: Any = graph.kept.setdefault(_KEPT, [])
    known: list[tuple[CostModel, DeviceSpec, _OnDevice]] = kept
    simulated = device.spec.backend == SIMULATED
    for like, spec, found in known if simulated else ():
        if like == by and spec == device.spec:
            return found
    one = _on_device(graph, device, works, values, by, batch)
    if simulated:
        known.append((by, device.spec, one))
        del known[:-_MOST_KEPT]
    return one


def _on_device(
    graph: Graph,
    device: Device,
    works: Sequence[Work],
    values: Sequence[Value | StoredConstant],
    by: CostModel,
    batch: int,
) -> _OnDevice:
    """Return support and times of a model's nodes on one device. O(V + E)."""
    seconds = np.full(len(graph.nodes), np.inf)
    least = np.full_like(seconds, np.inf)
    support = device.query_model(graph)
    own = [work for work, takes in zip(works, support.taken, strict=True) if takes]
    priced, chosen, said = by, None, None
    if isinstance(by, WholeModelCost):
        chosen = by.figures(device.spec, graph, own)
        said = by.likely(graph, chosen, batch)
        priced = by.of_works(own, said)
    prices = Prices(device.spec, priced)
    for node, taken in enumerate(support.supported):
        if taken:
            seconds[node], least[node] = prices.node(graph, graph.nodes[node])
    for node, took_s in prices.loads(graph, support).items():
        seconds[node] = least[node] = took_s
    copies = prices.copies(graph, support)
    for node, took_s in copies.items():
        seconds[node] += took_s
        least[node] += took_s
    kernels = tuple(prices.fused(graph, support, seconds.tolist(), copies))
    for kernel in kernels:
        # A fusion that the runtime makes despite a longer time applies to separate nodes too.
        more_s = kernel.seconds - float(seconds[[*kernel.nodes]].sum())
        if not kernel.pattern and more_s > 0:
            seconds[kernel.nodes[-1]] += more_s
            least[kernel.nodes[-1]] += more_s
    how = held_as(device.spec, graph, support, values)
    return _OnDevice(support, chosen, said, how, prices.borders(graph), seconds, least, kernels)


def _posterior(
    model: Model | None,
    read: DeviceSpec,
    asked: DeviceSpec,
    evidence: Evidence,
    measurements: Sequence[Measurement],
    by: CostModel,
    figures: KernelFigures | None,
    batch: int,
    name: str,
) -> tuple[Measured, Evidence]:
    """Return the factor and evidence of a model on a device, given measured networks on it.

    `read` is the device without hypothetical changes, on which the networks ran; `asked` is the
    device with the precision of the model. Without a model, the result is for a network unlike all
    others. O((V + E) measurements).
    """

    def alone(network: Model, precision: str) -> Alone:
        executes = precision or asked.executes or ""
        if executes == INT8 and is_quantized(network.graph):
            executes = ""
        where = f"device '{name}'"
        return _alone(network, executing(read, executes, where) if executes else read, name, by)

    known = [known_on(one, model, alone, name) for one in measurements]
    own = Alone(
        "" if model is None else model.sha256, 0.0, batch, evidence, _computed_in(asked, figures),
        asked.executes or "", None if model is None else place_on(model, figures, batch),
    )  # fmt: skip
    return measured_on(own, known, measurements)


def _computed_in(spec: DeviceSpec, figures: KernelFigures | None) -> str:
    """Return the precision of a device's times."""
    return (spec.executes or "") if figures is None else figures.precision


def _alone(model: Model, spec: DeviceSpec, name: str, by: CostModel) -> Alone:
    """Return the price of a whole network on one device that has its inputs and outputs.

    Raises UsageError with the op types that the device does not support.
    """
    graph, batch = model.graph, batch_of(model.graph)
    works, values = graph_work(graph), values_of(graph)
    platform = Platform(name, {name: spec}, (), name, "", "")
    device = platform_devices(platform, model.extensions)[name]
    found = _on_device(graph, device, works, (*values, *constants_of(graph)), by, batch)
    seconds = found.seconds.copy()
    for kernel in found.fused:
        nodes = [*kernel.nodes]
        seconds[nodes] = distributed_seconds(kernel.seconds, seconds[nodes])
    lacking = sorted({op_key(graph.nodes[v]) for v in np.flatnonzero(~np.isfinite(seconds))})
    if lacking:
        raise UsageError(
            f"the device cannot run {model.name} alone: not {', '.join(lacking[:5])}",
            hint="measure a network that runs on the device as a whole",
        )
    dispatch_s = spec.dispatch_s if found.figures is None else found.figures.dispatch_s
    evidence = device_evidence(name, spec, found.figures, batch, None, found.likely)
    return Alone(
        model.sha256, float(seconds.sum()) + dispatch_s, batch, evidence,
        _computed_in(spec, found.figures), spec.executes or "",
        place_on(model, found.figures, batch),
    )  # fmt: skip


def _check_supposed(measured: Mapping[str, Profile], supposed: Supposed) -> None:
    """Raise UsageError if a device with measured times has hypothetical figures."""
    both = [name for name in measured if name in supposed.devices]
    if both:
        raise UsageError(
            f"device '{both[0]}' has a profile: its times are measured and do not depend on "
            "figures",
            where=f"what if '{supposed}'",
            hint="omit the profile, or the changes of that device",
        )


def _measured_everywhere(
    node: int,
    seconds: NDArray[np.float64],
    names: Sequence[str],
    measured: Mapping[str, MeasuredShare],
) -> bool:
    """Return whether every device that runs a node has a measured time for it."""
    runs = [name for p, name in enumerate(names) if np.isfinite(seconds[node, p])]
    return bool(runs) and all(name in measured and measured[name].measured[node] for name in runs)


def read_profiles(
    profiles: Mapping[str, str | os.PathLike[str]], platform: Platform
) -> dict[str, Profile]:
    """Read the profiles by device; ``gpu`` stands for ``gpu.0``, ``gpu.1`` and so on.

    Raises UsageError for an unknown device, or one with two profiles.
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
    """Return the values that may move between devices. O(V + E).

    `open_bytes` replaces unbound sizes; with None they raise UnboundDimension.
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
                # Weights are in place before the clock starts.
                nbytes = 0 if name in graph.dequantized else graph.tensors[name].nbytes
            except UnboundDimension:
                if open_bytes is None:
                    raise
                nbytes = open_bytes
            values.append(Value(name, nbytes, producer, readers, is_output))
    return tuple(values)


def constants_of(graph: Graph) -> tuple[StoredConstant, ...]:
    """Return the constants that nodes read or contain. O(V + E)."""
    consumers = graph.consumers()
    readers = {name: set(consumers[name]) for name in graph.constants if name in consumers}
    for value, behind in graph.dequantized.items():
        for name in behind:
            readers[name].update(consumers.get(value, ()))
    read = [
        StoredConstant(name, graph.tensors[name].nbytes, tuple(sorted(readers[name])))
        for name in sorted(readers)
    ]
    held = [
        StoredConstant(tensor.name, tensor.nbytes, (node.id,))
        for node in graph.nodes
        for tensor in node.held
    ]
    return (*read, *held)
