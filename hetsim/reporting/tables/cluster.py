"""A cluster file, a live cluster and its links, as tables and as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from hetsim.core.text import fields
from hetsim.core.units import format_bytes, format_seconds
from hetsim.reporting.words.console import pairs, stack, table
from hetsim.reporting.words.text import ABSENT, count, ratio

if TYPE_CHECKING:
    from hetsim.execution.cluster import ClusterFile, Seat
    from hetsim.execution.transports.live_cluster import LiveCluster, NodeReport, Transfer

ID_SHOWN = 8
"""First characters of a node's id: enough to tell nodes apart, and to find one in Ray's logs."""

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
    """Node types that a cluster file starts, and where each device goes."""
    rows = []
    for kind in cluster.node_types:
        offered = [*_offers(kind.offers), *([] if kind.stated else ["unknown"])]
        rows.append((kind.name, str(kind.least), ", ".join(offered) or ABSENT))
    kinds = table(("node type", "nodes", "stands for"), rows)
    header = [("cluster", cluster.name), ("provider", cluster.provider)]
    return stack(pairs(header), kinds, _seats_table(seats, {}) if seats else None)


def _offers(offers: Mapping[str, str]) -> list[str]:
    return [f"{device} ({means})" for device, means in offers.items()]


def live_report(live: LiveCluster) -> RenderableType:
    """Return the nodes of a live cluster with what differs there, and where each device goes."""
    nodes = table(
        ("node", "address", "stands for", "versions"),
        (
            (
                report.node.id[:ID_SHOWN],
                report.node.ip,
                ", ".join(_offers(report.node.offers)) or ABSENT,
                _versions_lines(report),
            )
            for report in live.nodes
        ),
    )
    alive = sum(report.node.alive for report in live.nodes)
    header = [
        ("Ray at", live.address),
        ("nodes", f"{count(alive, 'node')} in {format_seconds(live.wall_s)}"),
        ("here", _own_versions(live)),
    ]
    ips = {report.node.id: report.node.ip for report in live.nodes}
    return stack(pairs(header), nodes, _seats_table(live.seats, ips) if live.seats else None)


def transfers_report(transfers: Sequence[Transfer]) -> RenderableType:
    """Return measured beside modelled transfers, and what those that cross no network are."""
    made = table(
        ("from", "to", "through", "#size", "#measured", "#modelled", "#measured/modelled"),
        (
            (
                transfer.source,
                transfer.target,
                transfer.way,
                format_bytes(transfer.nbytes),
                format_seconds(transfer.measured_s),
                format_seconds(transfer.modelled_s),
                ratio(_times(transfer)),
            )
            for transfer in transfers
        ),
    )
    ways = {transfer.way for transfer in transfers}
    notes: list[tuple[str, str]] = [(way, said) for way, said in _WAYS.items() if way in ways]
    return stack([Text(""), made], pairs(notes) if notes else None)


def file_record(cluster: ClusterFile, seats: Sequence[Seat]) -> dict[str, Any]:
    """Return a cluster file as a record for ``to_json``."""
    kinds = [fields(kind, "name nodes=least offers stated line") for kind in cluster.node_types]
    return {
        **fields(cluster, "file=shown name provider"),
        "node_types": kinds,
        "devices": _seats_record(seats),
    }


def live_record(live: LiveCluster) -> dict[str, Any]:
    """Return a live cluster as a record for ``to_json``."""
    return {
        **fields(live, "address wall_s here"),
        "nodes": [
            {
                **fields(report.node, "id ip alive resources labels offers"),
                **fields(report, "versions differences"),
                "failure": report.failure or None,
                "usable": report.usable,
            }
            for report in live.nodes
        ],
        "devices": _seats_record(live.seats),
    }


def transfers_record(transfers: Sequence[Transfer]) -> list[dict[str, Any]]:
    """Return measured transfers as records for ``to_json``."""
    return [fields(transfer) for transfer in transfers]


def _seats_table(seats: Sequence[Seat], ips: Mapping[str, str]) -> Table:
    rows = []
    for seat in seats:
        nodes = [f"{name[:ID_SHOWN]} ({ips[name]})" if name in ips else name for name in seat.nodes]
        rows.append((seat.device, ", ".join(nodes) or ABSENT, _STATES[seat.state]))
    return table(("device", "node", ""), rows)


def _seats_record(seats: Sequence[Seat]) -> list[dict[str, Any]]:
    return [fields(seat, "device state nodes") for seat in seats]


def _versions_lines(report: NodeReport) -> list[str]:
    if report.versions is None:
        return [report.failure]
    lines = [f"{'REFUSED: ' if entry.refused else ''}{entry}" for entry in report.differences]
    return lines or ["as here"]


def _own_versions(live: LiveCluster) -> str:
    here = live.here
    return (
        f"hetsim {here.hetsim} ({here.code}), Python {here.python}, ray {here.ray}, "
        f"onnxruntime {here.onnxruntime}, onnx {here.onnx}, numpy {here.numpy}, {here.machine}"
    )


def _times(transfer: Transfer) -> float | None:
    return transfer.measured_s / transfer.modelled_s if transfer.modelled_s > 0 else None
