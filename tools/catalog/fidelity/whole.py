"""What the product itself says of a whole network on a device alone, by two cost models."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from catalog.fidelity.points import FidelityPoint
from catalog.fidelity.shipped import figures_of
from catalog.graphs import Graphs
from catalog.precisions import ITEM_BYTES
from hetsim.cost.kernels.table import KernelTable
from hetsim.errors import HetsimError
from hetsim.graph.model import Model
from hetsim.hardware.catalog import load_platform
from hetsim.hardware.runtimes import EVERY
from hetsim.hardware.spec import Platform
from hetsim.placement.planning import plan
from hetsim.problem.problem import Problem
from hetsim.simulation.simulate import simulate


def with_whole(
    points: Iterable[FidelityPoint], graphs: Graphs, tables: Mapping[str, KernelTable]
) -> list[FidelityPoint]:
    """Return the points with what problems of the network on the device alone take, at batch 1.

    Where the device takes the network, that is what the catalog is judged by: what ``simulate``
    says, with inputs and outputs moved as they were in what was measured.
    Times of the cost model ``roofline`` are by the device's datasheet and op classes. 60 ms a
    point, and a second a network to load it.
    """
    found = list(points)
    by_network: dict[str, list[int]] = {}
    for index, point in enumerate(found):
        if point.batch == 1:
            by_network.setdefault(point.network, []).append(index)
    platforms: dict[str, Platform] = {}
    for network in sorted(by_network):
        model = graphs.load(f"{network}.onnx")
        for index in by_network[network]:
            point = found[index]
            if point.device not in platforms:
                platforms[point.device] = platform_of(point.device)
            platform = platforms[point.device]
            fitted_s = alone_s(model, platform, point.precision, "fitted")
            figures = figures_of(point.device, point.precision)
            if fitted_s is not None and figures is not None:
                item_bytes = ITEM_BYTES[point.precision]
                nbytes = tables[network].io_bytes(1, item_bytes)
                fitted_s += nbytes / figures.value("io_gbytes_s")
            judged = point.shipped
            if fitted_s is not None and judged is not None:
                judged = replace(judged, seconds=fitted_s)
            found[index] = replace(
                point,
                shipped=judged,
                priced_s=None if figures is None else fitted_s,
                roofline_s=alone_s(model, platform, point.precision, "roofline"),
            )
    return found


def platform_of(device: str) -> Platform:
    """Return the platform of one device, by the runtime after a colon."""
    name, _, runtime = device.partition(":")
    return load_platform(name, {EVERY: runtime} if runtime else None)


def alone_s(model: Model, platform: Platform, precision: str, cost: str) -> float | None:
    """Return the seconds of a model on a platform of one device; None where it takes not all."""
    (name,) = platform.devices
    try:
        problem = Problem.of(model, platform, cost=cost, execute={name: precision})
        return simulate(plan(problem, "single")).latency_s
    except HetsimError:
        return None
