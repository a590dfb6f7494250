"""Cluster file, live cluster and its links, as tables and as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from hetsim.core.text import fields, records
from hetsim.core.units import format_seconds
from hetsim.reporting.console import pairs, stack, table_of
from hetsim.reporting.formatting import ABSENT, count, ratio

if TYPE_CHECKING:
    from hetsim.execution.cluster import ClusterFile, Seat
    from hetsim.execution.transports.live_cluster import LiveCluster, MeasuredTransfer, NodeReport

ID_SHOWN = 8
"""Characters of a node's id that are shown: enough to find the node in Ray's logs."""

_STATES = {
    "node": "",
    "on demand": "no node is started yet",
    "unstated": "unknown: query the live cluster",
    "anywhere": "any node runs it",
    "full": "other devices use it up",
    "none": "no node offers it",
}

_WAYS = {
    "shared memory": "one node: the reader maps the writer's memory without a copy",
    "one machine": "two nodes on one machine: copied between stores, without the network",
}
"""Notes on transfers without a network link."""


def file_report(cluster: ClusterFile, seats: Sequence[Seat]) -> RenderableType:
    """Return the node types that a cluster file starts, and the place of each device."""
    kinds = table_of(
        cluster.node_types,
        "node type=name",
        "nodes=least",
        ("stands for", lambda kind: _offers(kind.offers, stated=kind.stated)),
    )
    header = [("cluster", cluster.name), ("provider", cluster.provider)]
    return stack(pairs(header), kinds, _seats_table(seats, {}))


def _offers(offers: Mapping[str, str], *, stated: bool = True) -> str:
    told = [f"{device} ({means})" for device, means in offers.items()]
    return ", ".join([*told, *["unknown"] * (not stated)]) or ABSENT


def live_report(live: LiveCluster) -> RenderableType:
    """Return the nodes of a live cluster with their differences, and the place of each device."""

    def versions(report: NodeReport) -> list[str]:
        if report.versions is None:
            return [report.failure]
        told = [f"{'REFUSED: ' if entry.refused else ''}{entry}" for entry in report.differences]
        return told or ["as here"]

    nodes = table_of(
        live.nodes,
        ("node", lambda report: report.node.id[:ID_SHOWN]),
        "address=node.ip",
        ("stands for", lambda report: _offers(report.node.offers)),
        ("versions", versions),
    )
    alive = sum(report.node.alive for report in live.nodes)
    header = [
        ("Ray at", live.address),
        ("nodes", f"{count(alive, 'node')} in {format_seconds(live.wall_s)}"),
        ("here", _own_versions(live)),
    ]
    ips = {report.node.id: report.node.ip for report in live.nodes}
    return stack(pairs(header), nodes, _seats_table(live.seats, ips))


def transfers_report(transfers: Sequence[MeasuredTransfer]) -> RenderableType:
    """Return measured and modelled transfers, with notes on those that cross no network."""

    def times(one: MeasuredTransfer) -> str:
        return ratio(one.measured_s / one.modelled_s if one.modelled_s > 0 else None)

    made = table_of(
        transfers,
        "from=source",
        "to=target",
        "through=way",
        "#size=nbytes",
        "#measured=measured_s",
        "#modelled=modelled_s",
        ("#measured/modelled", times),
    )
    ways = {transfer.way for transfer in transfers}
    notes = [(way, said) for way, said in _WAYS.items() if way in ways]
    return stack([Text(""), made], pairs(notes))


def file_record(cluster: ClusterFile, seats: Sequence[Seat]) -> dict[str, Any]:
    """Return a cluster file as a record for ``to_json``."""
    return {
        **fields(
            cluster, "file=shown name provider node_types(name nodes=least offers stated line)"
        ),
        "devices": records(seats, "device state nodes"),
    }


def live_record(live: LiveCluster) -> dict[str, Any]:
    """Return a live cluster as a record for ``to_json``."""
    return fields(
        live,
        "address wall_s here nodes(id=node.id ip=node.ip alive=node.alive resources=node.resources "
        "labels=node.labels offers=node.offers versions differences failure? usable) "
        "devices=seats(device state nodes)",
    )


def _seats_table(seats: Sequence[Seat], ips: Mapping[str, str]) -> Table:
    def nodes(seat: Seat) -> str:
        told = (f"{name[:ID_SHOWN]} ({ips[name]})" if name in ips else name for name in seat.nodes)
        return ", ".join(told) or ABSENT

    return table_of(seats, "device=device", ("node", nodes), ("", lambda seat: _STATES[seat.state]))


def _own_versions(live: LiveCluster) -> str:
    here = live.here
    return (
        f"hetsim {here.hetsim} ({here.code}), Python {here.python}, ray {here.ray}, "
        f"onnxruntime {here.onnxruntime}, onnx {here.onnx}, numpy {here.numpy}, {here.machine}"
    )
