"""Which nodes run on another device than before, and which groups changed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hetsim.base.text import Record, tally
from hetsim.errors import InvalidInput
from hetsim.reporting.pages.reading import Left


@dataclass(frozen=True, slots=True)
class Placed:
    """Where a plan has the nodes.

    Attributes
    ----------
    plan : str
        The strategy, and the replica where there are several.
    device : mapping of str to str
        By node.
    seconds : mapping of str to float
        Time of a node on its device; empty where it is not known.
    groups : int
    """

    plan: str
    device: Mapping[str, str]
    seconds: Mapping[str, float]
    groups: int


def placed(left: Left) -> list[Placed]:
    """Return where each plan of an answer has its nodes, the first plan first.

    Empty where the answer tells of no node. Raises InvalidInput where its graph is damaged.
    """
    graph = left.graph()
    try:
        if graph is not None:
            return [_of_graph(graph, plan) for plan in graph["plans"]]
        if left.kind == "nodes":
            return _of_nodes(left.record)
        plan = left.plan if left.plan is not None else left.record
        return _of_plan(plan) if "groups" in plan and "deal" not in plan else []
    except (KeyError, IndexError, TypeError):
        raise InvalidInput(
            "its plan or graph is damaged", where=left.source, hint="make it anew"
        ) from None


def _of_graph(graph: Record, plan: Record) -> Placed:
    names, devices, of = graph["nodes"]["name"], graph["devices"], plan["groups"]["device"]
    times = graph.get("times")
    on = [of[group] for group in plan["group"]]
    seconds = {}
    if times is not None:
        seconds = {
            name: times[device][node]
            for node, (name, device) in enumerate(zip(names, on, strict=True))
            if times[device][node] is not None
        }
        shared = plan["shared"]
        for node, own in zip(shared["node"], shared["seconds"], strict=True):
            seconds[names[node]] = own
    where = {name: devices[device] for name, device in zip(names, on, strict=True)}
    return Placed(plan["name"], where, seconds, len(of))


def _of_plan(plan: Record) -> list[Placed]:
    groups = plan["groups"]
    where = {name: group["device"] for group in groups for name in group["nodes"]}
    return [Placed(str(plan["strategy"]), where, {}, len(groups))]


def _of_nodes(record: Record) -> list[Placed]:
    """Of several replicas the first; none where nothing was planned."""
    nodes = [node for node in record["nodes"] if node["replica"] == 0 and node["device"]]
    if not nodes:
        return []
    where = {node["name"]: node["device"] for node in nodes}
    taken = {node["name"]: node["seconds"] for node in nodes if node["seconds"] is not None}
    return [Placed(str(record["strategy"]), where, taken, len({node["group"] for node in nodes}))]


@dataclass(frozen=True, slots=True)
class Move:
    """A node that is on another device; None: it is not in that graph."""

    node: str
    was: str | None
    now: str | None
    was_s: float | None
    now_s: float | None


def moves(first: Placed, second: Placed) -> list[Move]:
    """Return the nodes that changed device, in the order of the second graph; those gone last."""
    return [
        Move(
            name,
            first.device.get(name),
            second.device.get(name),
            first.seconds.get(name),
            second.seconds.get(name),
        )
        for name in {**second.device, **first.device}
        if first.device.get(name) != second.device.get(name)
    ]


def ways(found: list[Move]) -> dict[str, int]:
    """Return how many nodes went which way, such as ``cpu to npu``; most first."""
    return tally(f"{one.was or 'nowhere'} to {one.now or 'nowhere'}" for one in found)
