"""Which devices the nodes of a Ray cluster stand for: by custom resources, or by labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from hetsim.errors import NotOffered

RESOURCE_PREFIX = "hetsim_"
"""A node that offers ``hetsim_gpu`` takes the actor of device ``gpu``."""

LABEL_VALUE = "1"
"""A node with the label ``hetsim_gpu=1`` takes the actor of device ``gpu``."""

SHARE = 0.001
"""Of a node's resource an actor: it says where, and keeps nobody else out."""

Means = Literal["resource", "label"]


@dataclass(frozen=True, slots=True)
class Node:
    """A machine of the cluster, as Ray describes it.

    Attributes
    ----------
    id, ip : str
    alive : bool
    resources : mapping of str to float
    labels : mapping of str to str
    """

    id: str
    ip: str
    alive: bool
    resources: Mapping[str, float]
    labels: Mapping[str, str]

    @property
    def offers(self) -> dict[str, Means]:
        """The devices that it stands for."""
        return offers(self.resources, self.labels) if self.alive else {}


def offers(resources: Mapping[str, float], labels: Mapping[str, str]) -> dict[str, Means]:
    """Return the devices that resources and labels name, and by which of them."""
    found: dict[str, Means] = {}
    for name, value in labels.items():
        if name.startswith(RESOURCE_PREFIX) and value == LABEL_VALUE:
            found[name.removeprefix(RESOURCE_PREFIX)] = "label"
    for name, amount in resources.items():
        if name.startswith(RESOURCE_PREFIX) and amount > 0:
            found[name.removeprefix(RESOURCE_PREFIX)] = "resource"
    return dict(sorted(found.items()))


def nodes_of(records: Sequence[Mapping[str, Any]]) -> tuple[Node, ...]:
    """Return what ``ray.nodes()`` gives as records, those that are alive first."""
    nodes = [
        Node(
            record["NodeID"],
            record["NodeManagerAddress"],
            bool(record["Alive"]),
            dict(sorted(record.get("Resources", {}).items())),
            dict(sorted(record.get("Labels", {}).items())),
        )
        for record in records
    ]
    return tuple(sorted(nodes, key=lambda node: (not node.alive, node.ip, node.id)))


def actor_options(devices: Sequence[str], nodes: Sequence[Node]) -> dict[str, dict[str, Any]]:
    """Return Ray's options that put the actor of each device where it belongs.

    None where no living node stands for any device: actors then go anywhere. A device that
    one node offers as a resource and another by a label goes by the resource.

    Raises
    ------
    ExecutionError
        Where some device has a node and others have none: Ray would wait for ever.
    """
    means: dict[str, Means] = {}
    for node in nodes:
        for device, how in node.offers.items():
            if how == "resource" or device not in means:
                means[device] = how
    if not means:
        return {device: {} for device in devices}
    missing = [device for device in devices if device not in means]
    if missing:
        raise NotOffered(
            f"no node of the Ray cluster offers {named(missing)}",
            hint=start_hint(missing[0]),
            devices=tuple(missing),
        )
    options: dict[Means, Any] = {
        "resource": lambda name: {"resources": {name: SHARE}},
        "label": lambda name: {"label_selector": {name: LABEL_VALUE}},
    }
    return {device: options[means[device]](RESOURCE_PREFIX + device) for device in devices}


def full(
    devices: Sequence[str], nodes: Sequence[Node], available: Mapping[str, float]
) -> list[str]:
    """Return the devices whose resource others have used up, on every node that offers it.

    Parameters
    ----------
    available : mapping of str to float
        What ``ray.available_resources()`` gives; a resource without any left is not in it.
    """
    found = []
    for device in devices:
        means = {node.offers[device] for node in nodes if device in node.offers}
        if means and "resource" in means and available.get(RESOURCE_PREFIX + device, 0.0) < SHARE:
            found.append(device)
    return found


def named(devices: Sequence[str]) -> str:
    """Return the resources of devices as errors name them."""
    return ", ".join(f"'{RESOURCE_PREFIX}{device}'" for device in devices)


def start_hint(device: str) -> str:
    """Return what to do where no node offers a device."""
    return f"start a node with --resources='{{\"{RESOURCE_PREFIX}{device}\": 1}}'"
