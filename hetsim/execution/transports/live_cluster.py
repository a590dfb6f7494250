"""A live Ray cluster looked at: its nodes, what each offers, and what is installed there."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from hetsim.errors import NotOffered
from hetsim.execution.cluster_check import Seat
from hetsim.execution.cluster_offers import Node, full, named, nodes_of, start_hint
from hetsim.execution.cluster_versions import (
    Difference,
    Versions,
    differences,
    own_versions,
    version_reader,
    versions_of,
)
from hetsim.execution.transports.ray_connection import ray_connection

ANSWER_S = 30.0
"""How long a node may take to start a process and answer."""


@dataclass(frozen=True, slots=True)
class NodeReport:
    """One node and what it answered.

    Attributes
    ----------
    node : Node
    versions : Versions or None
        None where it gave no answer.
    differences : tuple of Difference
        From the versions of this process, those that refuse first.
    failure : str
        Why there is no answer; empty where there is one.
    """

    node: Node
    versions: Versions | None
    differences: tuple[Difference, ...] = ()
    failure: str = ""

    @property
    def usable(self) -> bool:
        """Whether actors on it can take part in a run of this process."""
        return self.versions is not None and not any(entry.refused for entry in self.differences)


@dataclass(frozen=True, slots=True)
class LiveCluster:
    """A cluster as it answered.

    Attributes
    ----------
    address : str
    here : Versions
        Of this process.
    nodes : tuple of NodeReport
        By address; nodes that are dead last.
    seats : tuple of Seat
        Where each device's actor goes; its nodes by id.
    wall_s : float
        What the look took.
    """

    address: str
    here: Versions
    nodes: tuple[NodeReport, ...]
    seats: tuple[Seat, ...]
    wall_s: float


def look_at(
    address: str, devices: Sequence[str] | None = None, *, answer_s: float = ANSWER_S
) -> LiveCluster:
    """Ask each node of the Ray at `address` what it offers and what is installed there.

    As for a run, this hetsim is brought to all nodes; only where the caller has joined that Ray
    before do they answer with the hetsim that they have.

    Parameters
    ----------
    address : str
        ``host:port``, or ``auto`` for the Ray that was started on this machine.
    devices : sequence of str, optional
        Devices to find nodes for; absent: those that some node offers.
    answer_s : float
        How long all nodes together may take; they are asked at once.

    Raises
    ------
    ExecutionError
        Where no Ray answers at the address. A node that does not answer is reported instead.
    """
    began = time.monotonic()
    with ray_connection(address):
        import ray

        nodes = nodes_of(ray.nodes())  # type: ignore[no-untyped-call]
        available: dict[str, float] = ray.available_resources()  # type: ignore[no-untyped-call]
        reports = _ask(nodes, answer_s)
    seats = live_seats(nodes, devices, available)
    return LiveCluster(address, own_versions(), reports, seats, time.monotonic() - began)


def live_seats(
    nodes: Sequence[Node], devices: Sequence[str] | None, available: dict[str, float]
) -> tuple[Seat, ...]:
    """Return where the actor of each device goes on living `nodes`."""
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
    """Raise where the actor of a device that goes to a node of its own has none to go to.

    Ray would let it wait for ever. To be asked while an actor does not answer, on the Ray that
    this process is connected to.

    Parameters
    ----------
    device : str
    started : bool
        Whether it has answered before: then it holds its share of the resource.

    Raises
    ------
    ExecutionError
        Where no living node offers the device, or others have used the resource up.
    """
    import ray

    nodes = nodes_of(ray.nodes())  # type: ignore[no-untyped-call]
    if not any(device in node.offers for node in nodes):
        raise NotOffered(
            f"no node of the Ray cluster offers {named((device,))}",
            hint=start_hint(device),
            devices=(device,),
        )
    available: dict[str, float] = ray.available_resources()  # type: ignore[no-untyped-call]
    if not started and full((device,), nodes, available):
        raise NotOffered(
            f"others have used up {named((device,))} on every node that offers it",
            hint="end what holds it, or start another node that offers it",
            devices=(device,),
        )


def _ask(nodes: Sequence[Node], answer_s: float) -> tuple[NodeReport, ...]:
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    deadline = time.monotonic() + answer_s
    task = ray.remote(version_reader())
    asked = {
        node.id: task.options(
            num_cpus=0,
            max_retries=0,
            scheduling_strategy=NodeAffinitySchedulingStrategy(node.id, soft=False),
        ).remote()
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


def _answer(node: Node, reference: Any) -> NodeReport:
    import ray
    from ray.exceptions import RayError

    try:
        versions = versions_of(ray.get(reference))
    except RayError as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        failure = f"{type(error).__name__}: {lines[0] if lines else ''}"
        return NodeReport(node, None, failure=failure)
    return NodeReport(node, versions, differences(own_versions(), versions))
