"""Live Ray cluster: nodes, their offers and versions, and transfers between them."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from hetsim.errors import ClusterError, NotOffered
from hetsim.execution.cluster import (
    ClusterNode,
    Difference,
    Seat,
    Versions,
    differences,
    full,
    nodes_of,
    not_offered,
    on_node,
    own_versions,
    refuse_unserved,
    used_up,
    version_reader,
    versions_of,
)
from hetsim.execution.transports.ray_connection import ray_connection
from hetsim.hardware.routes import build_routes
from hetsim.hardware.spec import Platform

ANSWER_S = 30.0
"""Maximum seconds for a node to start a process and answer."""


@dataclass(frozen=True, slots=True)
class NodeReport:
    """Node and its answer: without `versions`, and with a `failure`, if it did not answer."""

    node: ClusterNode
    versions: Versions | None
    differences: tuple[Difference, ...] = ()
    failure: str = ""

    @property
    def usable(self) -> bool:
        """Whether actors on it can take part in a run of this process."""
        return self.versions is not None and not any(entry.refused for entry in self.differences)


@dataclass(frozen=True, slots=True)
class LiveCluster:
    """Cluster by the answers of its nodes: by address, dead ones last."""

    address: str
    here: Versions
    nodes: tuple[NodeReport, ...]
    seats: tuple[Seat, ...]
    wall_s: float


def look_at(
    address: str, devices: Sequence[str] | None = None, *, answer_s: float = ANSWER_S
) -> LiveCluster:
    """Return the offers and installed versions of each node of the Ray at `address`.

    This hetsim is shipped to all nodes, except on a Ray that the caller has joined before.
    `devices`: those to find nodes for; absent: those that some node offers. All nodes together have
    `answer_s`; those that do not answer are reported. Raises ExecutionError if no Ray answers.
    """
    began = time.monotonic()
    with ray_connection(address):
        nodes, available = _state()
        reports = _ask(nodes, answer_s)
    seats = live_seats(nodes, devices, available)
    return LiveCluster(address, own_versions(), reports, seats, time.monotonic() - began)


def live_seats(
    nodes: Sequence[ClusterNode], devices: Sequence[str] | None, available: dict[str, float]
) -> tuple[Seat, ...]:
    """Return the node for the actor of each device among living `nodes`."""
    offered = sorted({device for node in nodes for device in node.offers})
    wanted = offered if devices is None else devices
    crowded = set(full(wanted, nodes, available))
    seats = []
    for device in wanted:
        ids = tuple(node.id for node in nodes if device in node.offers)
        if ids:
            seats.append(Seat(device, "full" if device in crowded else "node", ids))
        else:
            seats.append(Seat(device, "none" if offered else "anywhere", ()))
    return tuple(seats)


def refuse_unplaceable(device: str, *, started: bool) -> None:
    """Raise if the actor of a device that needs a particular node has none."""
    nodes, available = _state()
    if not any(device in node.offers for node in nodes):
        raise not_offered((device,))
    if not started and full((device,), nodes, available):
        raise used_up((device,))


def _state() -> tuple[tuple[ClusterNode, ...], dict[str, float]]:
    """Return the nodes of the connected Ray, and their free resources."""
    import ray

    available: dict[str, float] = ray.available_resources()  # type: ignore[no-untyped-call]
    return nodes_of(ray.nodes()), available  # type: ignore[no-untyped-call]


def _ask(nodes: Sequence[ClusterNode], answer_s: float) -> tuple[NodeReport, ...]:
    import ray

    deadline = time.monotonic() + answer_s
    asked = {
        node.id: on_node(version_reader(), node.id, max_retries=0).remote()
        for node in nodes
        if node.alive
    }
    reports = []
    for node in nodes:
        report = NodeReport(node, None, failure="it is dead")
        if node.alive:
            left = max(0.0, deadline - time.monotonic())
            ready, _ = ray.wait([asked[node.id]], timeout=left)
            if ready:
                report = _answer(node, asked[node.id])
            else:
                ray.cancel(asked[node.id], force=True)
                report = replace(report, failure=f"no answer within {answer_s:g} s")
        reports.append(report)
    return tuple(reports)


def _answer(node: ClusterNode, reference: Any) -> NodeReport:
    import ray
    from ray.exceptions import RayError

    try:
        versions = versions_of(ray.get(reference))
    except RayError as error:
        return NodeReport(node, None, failure=_line(error))
    return NodeReport(node, versions, differences(own_versions(), versions))


def _line(error: Exception, at: int = 0) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [""]
    return f"{type(error).__name__}: {lines[at]}"


SIZES = (64 * 2**10, 2**20, 16 * 2**20)
"""Default bytes of timed transfers."""

REPEATS = 5
PROBE_S = 60.0
"""Maximum seconds for one probe to start, or one transfer to arrive."""

Way = Literal["shared memory", "one machine", "network"]
"""Medium of a transfer: one object store, two stores of one machine, or two machines."""


@dataclass(frozen=True, slots=True)
class MeasuredTransfer:
    """Transfer of one size from one device's node to another's.

    `measured_s` is the median wall-clock time from the reader's request until it holds the array
    (within one node nothing is copied), `modelled_s` that of the platform's route.
    """

    source: str
    target: str
    source_node: str
    target_node: str
    way: Way
    nbytes: int
    measured_s: float
    modelled_s: float


class Probe:
    """Actor that creates arrays on its node, and times the arrival of others'."""

    def make(self, nbytes: int) -> list[Any]:
        """Put a new array into the node's object store; return its reference in a list."""
        import ray

        return [ray.put(np.ones(nbytes, np.uint8))]

    def receive(self, boxed: list[Any], timeout_s: float) -> float:
        """Fetch the array; return the seconds that it took, without those to write it."""
        import ray

        began = time.perf_counter()
        array = ray.get(boxed[0], timeout=timeout_s)
        seconds = time.perf_counter() - began
        del array
        return seconds


def measure_links(
    address: str,
    platform: Platform,
    sizes: Sequence[int] = SIZES,
    *,
    repeats: int = REPEATS,
) -> tuple[MeasuredTransfer, ...]:
    """Return times of transfers through Ray's object stores between the nodes of device pairs.

    By source, target and size. Every repeat moves a new array, after an uncounted one; devices on
    the same two nodes share one measurement; if several nodes offer a device, the first is
    measured. Raises Infeasible if a device has no node, or actors go anywhere on several nodes,
    ExecutionError if no Ray answers, or a transfer does not within a minute.
    """
    devices = tuple(platform.devices)
    _, routes = build_routes(platform)
    with ray_connection(address):
        nodes, available = _state()
        home = _homes(nodes, devices, available, f"Ray at {address}")
        measured = _measure(home, devices, sizes, repeats)
    return tuple(
        MeasuredTransfer(
            source,
            target,
            home[source].id,
            home[target].id,
            _way(home[source], home[target]),
            nbytes,
            measured[home[source].id, home[target].id, nbytes],
            routes[p][q].seconds(nbytes),
        )
        for p, source in enumerate(devices)
        for q, target in enumerate(devices)
        if p != q
        for nbytes in sizes
    )


def _homes(
    nodes: Sequence[ClusterNode], devices: Sequence[str], available: dict[str, float], where: str
) -> dict[str, ClusterNode]:
    """Return the node of each device."""
    living = {node.id: node for node in nodes if node.alive}
    seats = live_seats(nodes, devices, available)
    refuse_unserved([seat for seat in seats if seat.state != "full"], where)
    if all(seat.state == "anywhere" for seat in seats):
        if len(living) > 1:
            raise NotOffered(
                "no node offers a device, so no link has known nodes",
                where=where,
                hint="offer 'hetsim_DEVICE' on the nodes",
                devices=tuple(devices),
            )
        return {device: next(iter(living.values())) for device in devices}
    return {seat.device: living[seat.nodes[0]] for seat in seats}


def _measure(
    home: dict[str, ClusterNode], devices: Sequence[str], sizes: Sequence[int], repeats: int
) -> dict[tuple[str, str, int], float]:
    import ray

    pairs = list(
        dict.fromkeys((home[p].id, home[q].id) for p in devices for q in devices if p != q)
    )
    writers = {start: on_node(Probe, start).remote() for start, _ in pairs}
    readers = {end: on_node(Probe, end).remote() for _, end in pairs}
    found: dict[tuple[str, str, int], float] = {}
    try:
        for start, end in pairs:
            for nbytes in sizes:
                seconds = [
                    _transfer(writers[start], readers[end], nbytes) for _ in range(repeats + 1)
                ]
                found[start, end, nbytes] = statistics.median(seconds[1:])
    finally:
        for probe in (*writers.values(), *readers.values()):
            ray.kill(probe, no_restart=True)
    return found


def _transfer(writer: Any, reader: Any, nbytes: int) -> float:
    import ray
    from ray.exceptions import RayError

    try:
        boxed = ray.get(writer.make.remote(nbytes), timeout=PROBE_S)
        seconds: float = ray.get(reader.receive.remote(boxed, PROBE_S), timeout=2 * PROBE_S)
    except RayError as error:
        raise ClusterError(
            f"a transfer of {nbytes} bytes was not timed: {_line(error, -1)}",
            hint="check with `ray status` whether the object stores of its nodes have room",
        ) from error
    return seconds


def _way(source: ClusterNode, target: ClusterNode) -> Way:
    if source.id == target.id:
        return "shared memory"
    return "one machine" if source.ip == target.ip else "network"
