"""Support of a model by several devices: nodes, and the values around them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hetsim.device.device import Device
from hetsim.errors import UsageError
from hetsim.graph.graph import Graph
from hetsim.hardware.spec import standing_for

_EVERY = ("hetero:", "multi:")


def query(graph: Graph, devices: Sequence[Device]) -> dict[str, str]:
    """Return the device of every supported node and value, by name.

    Parameters
    ----------
    graph : Graph
    devices : sequence of Device
        In order of priority; a node goes to the first that supports it.

    Returns
    -------
    Device names by the names of nodes, inputs, constants and outputs. Inputs and constants go to
    the first device that supports one of their readers, outputs with their producer, and unread
    inputs to the first device. Unsupported ones are absent.

    Raises
    ------
    UsageError
        If there is no device.

    Source: OpenVINO, query_model of the HETERO plugin, restated.
    """
    if not devices:
        raise UsageError("no device is given", hint="name at least one")
    home: dict[int, str] = {}
    for device in devices:
        for node, taken in enumerate(device.query_model(graph).taken):
            if taken:
                home.setdefault(node, device.name)
    found = {graph.nodes[node].name: home[node] for node in sorted(home)}
    found.update(_values(graph, home, [device.name for device in devices]))
    return found


def _values(graph: Graph, home: Mapping[int, str], asked: Sequence[str]) -> dict[str, str]:
    readers, producers = graph.consumers(), graph.producers()
    found: dict[str, str] = {}
    for name in (*graph.inputs, *sorted(graph.constants)):
        own = readers.get(name, ())
        takers = [home[node] for node in own if node in home]
        if takers:
            found[name] = min(takers, key=asked.index)
        elif not own and name in graph.inputs:
            found[name] = asked[0]
    for name in graph.outputs:
        producer = producers.get(name)
        if producer is not None and producer in home:
            found[name] = home[producer]
    return found


def devices_named(text: str | Sequence[str], devices: Mapping[str, Device]) -> list[Device]:
    """Return the devices that a list names; ``gpu`` is the first of ``gpu.0``, ``gpu.1``.

    A text may begin with ``hetero:`` or ``multi:``; ``gpu`` then means all devices of that name in
    its property AVAILABLE_DEVICES, except those named individually.

    Raises UsageError for an empty list, an empty name, or an unknown one.
    """
    every = isinstance(text, str) and text.startswith(_EVERY)
    if isinstance(text, str):
        text = text.partition(":")[2] if every else text
        names = [part.strip() for part in text.split(",")]
    else:
        names = list(text)
    if not names or not all(names):
        raise UsageError(f"'{','.join(names)}' is not a list of devices", hint="write gpu,cpu")
    found: dict[str, Device] = {}
    for name in names:
        alike = standing_for(name, devices)
        if every and name not in devices:
            ids = devices[alike[0]].get_property("AVAILABLE_DEVICES")
            assert isinstance(ids, tuple)
            alike = tuple(f"{name}.{one}" for one in ids if f"{name}.{one}" not in names)
        else:
            alike = alike[:1]
        found.update((one, devices[one]) for one in alike)
    return list(found.values())
