"""A cluster file, a live cluster and its links, as tables and as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rich.console import Group as Stack
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from hetsim.base.units import format_bytes, format_seconds
from hetsim.reporting.words.console import cell, new_table, pairs
from hetsim.reporting.words.text import ABSENT, count, ratio

if TYPE_CHECKING:
    from hetsim.cluster.check import Seat
    from hetsim.cluster.file import ClusterFile
    from hetsim.execution.transports.ray_actors.link_probe import Transfer
    from hetsim.execution.transports.ray_actors.nodes import LiveCluster, NodeReport

ID_SHOWN = 8
"""First characters of a node's id: enough to tell nodes apart, and to find one in Ray's logs."""

_STATES = {
    "node": "",
    "on demand": "none is started",
    "unstated": "the machines say themselves: ask the live cluster",
    "anywhere": "anywhere: no node stands for a device",
    "full": "others have used it up",
    "none": "no node offers it",
}

_WAYS = {
    "shared memory": "one node: the reader maps what the writer wrote, and nothing is copied",
    "one machine": "two nodes at one address: copied from store to store, over no network",
}
"""What is said of transfers that no link of a network carries."""


def file_report(cluster: ClusterFile, seats: Sequence[Seat]) -> Stack:
    """Node types that a cluster file starts, and where each device goes."""
    kinds = new_table()
    for title in ("node type", "nodes", "stands for"):
        kinds.add_column(Text(title), overflow="fold")
    for kind in cluster.node_types:
        offered = [f"{device} ({means})" for device, means in kind.offers.items()]
        if not kind.stated:
            offered.append("what its machines say")
        kinds.add_row(cell(kind.name), cell(str(kind.least)), cell(", ".join(offered) or ABSENT))
    header = [("cluster", cluster.name), ("provider", cluster.provider)]
    parts: list[RenderableType] = [pairs(header), Text(""), kinds]
    if seats:
        parts += [Text(""), _seats_table(seats, {})]
    return Stack(*parts)


def live_report(live: LiveCluster) -> Stack:
    """Return the nodes of a live cluster with what differs there, and where each device goes."""
    nodes = new_table()
    for title in ("node", "address", "stands for", "versions"):
        nodes.add_column(Text(title), overflow="fold")
    for report in live.nodes:
        offered = [f"{device} ({means})" for device, means in report.node.offers.items()]
        nodes.add_row(
            cell(report.node.id[:ID_SHOWN]),
            cell(report.node.ip),
            cell(", ".join(offered) or ABSENT),
            cell(*_versions_lines(report)),
        )
    alive = sum(report.node.alive for report in live.nodes)
    header = [
        ("Ray at", live.address),
        ("nodes", f"{count(alive, 'node')} in {format_seconds(live.wall_s)}"),
        ("here", _own_versions(live)),
    ]
    parts: list[RenderableType] = [pairs(header), Text(""), nodes]
    if live.seats:
        ips = {report.node.id: report.node.ip for report in live.nodes}
        parts += [Text(""), _seats_table(live.seats, ips)]
    return Stack(*parts)


def transfers_report(transfers: Sequence[Transfer]) -> Stack:
    """Return measured beside modelled transfers, and what those that cross no network are."""
    table = new_table()
    for title in ("from", "to", "through"):
        table.add_column(Text(title), overflow="fold")
    for title in ("size", "measured", "modelled", "measured/modelled"):
        table.add_column(Text(title), justify="right", no_wrap=True)
    for transfer in transfers:
        table.add_row(
            cell(transfer.source),
            cell(transfer.target),
            cell(transfer.way),
            cell(format_bytes(transfer.nbytes)),
            cell(format_seconds(transfer.measured_s)),
            cell(format_seconds(transfer.modelled_s)),
            cell(ratio(_times(transfer))),
        )
    ways = {transfer.way for transfer in transfers}
    notes: list[tuple[str, str]] = [(way, said) for way, said in _WAYS.items() if way in ways]
    return Stack(Text(""), table, Text(""), pairs(notes)) if notes else Stack(Text(""), table)


def file_record(cluster: ClusterFile, seats: Sequence[Seat]) -> dict[str, Any]:
    """Return a cluster file as a record for ``to_json``."""
    return {
        "file": cluster.shown,
        "name": cluster.name,
        "provider": cluster.provider,
        "node_types": [
            {
                "name": kind.name,
                "nodes": kind.least,
                "offers": dict(kind.offers),
                "stated": kind.stated,
                "line": kind.line,
            }
            for kind in cluster.node_types
        ],
        "devices": _seats_record(seats),
    }


def live_record(live: LiveCluster) -> dict[str, Any]:
    """Return a live cluster as a record for ``to_json``."""
    return {
        "address": live.address,
        "wall_s": live.wall_s,
        "here": asdict(live.here),
        "nodes": [
            {
                "id": report.node.id,
                "ip": report.node.ip,
                "alive": report.node.alive,
                "resources": dict(report.node.resources),
                "labels": dict(report.node.labels),
                "offers": dict(report.node.offers),
                "versions": None if report.versions is None else asdict(report.versions),
                "differences": [asdict(entry) for entry in report.differences],
                "failure": report.failure or None,
                "usable": report.usable,
            }
            for report in live.nodes
        ],
        "devices": _seats_record(live.seats),
    }


def transfers_record(transfers: Sequence[Transfer]) -> list[dict[str, Any]]:
    """Return measured transfers as records for ``to_json``."""
    return [asdict(transfer) for transfer in transfers]


def _seats_table(seats: Sequence[Seat], ips: Mapping[str, str]) -> Table:
    table = new_table()
    for title in ("device", "node", ""):
        table.add_column(Text(title), overflow="fold")
    for seat in seats:
        nodes = [f"{name[:ID_SHOWN]} ({ips[name]})" if name in ips else name for name in seat.nodes]
        table.add_row(
            cell(seat.device), cell(", ".join(nodes) or ABSENT), cell(_STATES[seat.state])
        )
    return table


def _seats_record(seats: Sequence[Seat]) -> list[dict[str, Any]]:
    return [
        {"device": seat.device, "state": seat.state, "nodes": list(seat.nodes)} for seat in seats
    ]


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
