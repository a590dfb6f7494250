"""What a cluster file offers, held against a platform."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from hetsim.errors import NotOffered
from hetsim.execution.cluster import ClusterFile
from hetsim.execution.cluster_offers import RESOURCE_PREFIX, named, start_hint

State = Literal["node", "on demand", "unstated", "anywhere", "full", "none"]
"""What becomes of a device's actor.

``node``: there is one for it. ``on demand``: a node type offers it, and none is started.
``unstated``: machines say themselves what they offer, so only a live cluster can tell.
``anywhere``: no node stands for any device, so that actors go anywhere. ``full``: others have
used up the resource on every node that offers it. ``none``: nothing offers it.
"""

SERVED: frozenset[State] = frozenset({"node", "unstated", "anywhere"})
"""States of a device that a run may hope for."""


@dataclass(frozen=True, slots=True)
class Seat:
    """Where the actor of a device goes.

    Attributes
    ----------
    device : str
    state : State
    nodes : tuple of str
        Names of the node types, or ids of the nodes.
    """

    device: str
    state: State
    nodes: tuple[str, ...]


def seats_of_file(cluster: ClusterFile, devices: Sequence[str] | None) -> tuple[Seat, ...]:
    """Return where the file has a node for each device, or for each device that it names.

    Complexity: devices times node types.
    """
    started = [kind for kind in cluster.node_types if kind.least > 0]
    every = sorted({device for kind in cluster.node_types for device in kind.offers})
    unstated = [kind for kind in started if not kind.stated]
    bound = any(kind.offers for kind in started)
    seats = []
    for device in every if devices is None else devices:
        nodes = tuple(kind.name for kind in started if device in kind.offers)
        asked = tuple(kind.name for kind in cluster.node_types if device in kind.offers)
        if nodes:
            seats.append(Seat(device, "node", nodes))
        elif unstated:
            seats.append(Seat(device, "unstated", tuple(kind.name for kind in unstated)))
        elif asked:
            seats.append(Seat(device, "on demand", asked))
        else:
            seats.append(Seat(device, "none" if bound else "anywhere", ()))
    return tuple(seats)


def strangers(cluster: ClusterFile, devices: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Return (node type, device) for what the file offers and the platform does not have."""
    return tuple(
        (kind.name, device)
        for kind in cluster.node_types
        for device in kind.offers
        if device not in devices
    )


def refuse_unserved(seats: Sequence[Seat], where: str) -> None:
    """Raise where some device has no node.

    Raises
    ------
    NotOffered
        With the resources that are not offered, and what to do.
    """
    unserved = [seat.device for seat in seats if seat.state not in SERVED]
    if not unserved:
        return
    states = {seat.device: seat.state for seat in seats}
    if all(states[device] == "full" for device in unserved):
        raise NotOffered(
            f"others have used up {named(unserved)} on every node that offers it",
            where=where,
            hint="end what holds it, or start another node that offers it",
            devices=tuple(unserved),
        )
    if all(states[device] == "on demand" for device in unserved):
        raise NotOffered(
            f"no node that offers {named(unserved)} is started",
            where=where,
            hint="write 'min_workers: 1' under its node type",
            devices=tuple(unserved),
        )
    missing = [device for device in unserved if states[device] != "full"]
    hint = start_hint(missing[0])
    if not any(seat.nodes for seat in seats):
        hint = f"{hint}, or offer no '{RESOURCE_PREFIX}...' at all"
    raise NotOffered(
        f"no node offers {named(missing)}", where=where, hint=hint, devices=tuple(missing)
    )
