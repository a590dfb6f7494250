"""Links of the catalog, with the source of each figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Group as Stack
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from hetsim.base.units import GIGA, format_seconds
from hetsim.hardware.files.device_schema import MICROSECONDS
from hetsim.hardware.files.figures import Figure
from hetsim.hardware.files.platform_schema import LinkModel
from hetsim.reporting.words.console import cell, new_table, pairs
from hetsim.reporting.words.text import rate


def links_table(links: Sequence[tuple[str, LinkModel]], *, wide: bool = False) -> Table:
    """Return the links of the catalog; `wide` adds their full names."""
    table = new_table()
    table.add_column(Text("link"), no_wrap=True)
    for title in ("latency", "bandwidth", "reached"):
        table.add_column(Text(title), justify="right", no_wrap=True)
    if wide:
        table.add_column(Text("full name"), overflow="fold", min_width=24)
    for name, link in links:
        record = link_record(name, link)
        table.add_row(
            cell(name),
            cell(format_seconds(record["latency_s"])),
            cell(rate(record["peak_bytes_per_s"], "B/s")),
            cell(rate(record["bytes_per_s"], "B/s")),
            *([cell(link.full_name)] if wide else []),
        )
    return table


def link_report(name: str, link: LinkModel) -> RenderableType:
    """Return every figure of a link, and where each is from."""
    record = link_record(name, link)
    header = [
        ("link", name),
        ("full name", link.full_name),
        ("latency", format_seconds(record["latency_s"])),
        (
            "bandwidth",
            f"{rate(record['peak_bytes_per_s'], 'B/s')} a direction, at an efficiency of "
            f"{link.efficiency.value:g}: {rate(record['bytes_per_s'], 'B/s')}",
        ),
        ("directions", "both at once" if link.duplex else "one at a time"),
    ]
    sources = {key: tuple(entry.values()) for key, entry in record["provenance"].items()}
    return Stack(pairs(header), Text(""), provenance_table(sources))


def provenance_table(provenance: Mapping[str, tuple[str, str]]) -> Table:
    """Return where each figure is from."""
    table = new_table()
    table.add_column(Text("figure"), overflow="fold")
    table.add_column(Text("status"), no_wrap=True)
    table.add_column(Text("source"), overflow="fold", ratio=1)
    for figure, (status, source) in provenance.items():
        table.add_row(cell(figure), cell(status), cell(source))
    return table


def link_record(name: str, link: LinkModel) -> dict[str, Any]:
    """Return a link as a record for ``to_json``; `bytes_per_s` is what a transfer reaches."""
    figures: dict[str, Figure[float]] = {
        "latency_s": link.latency_us,
        "peak_bytes_per_s": link.bandwidth_gbytes_s,
        "efficiency": link.efficiency,
    }
    peak = link.bandwidth_gbytes_s.value * GIGA
    return {
        "name": name,
        "full_name": link.full_name,
        "latency_s": link.latency_us.value / MICROSECONDS,
        "peak_bytes_per_s": peak,
        "efficiency": link.efficiency.value,
        "bytes_per_s": peak * link.efficiency.value,
        "duplex": link.duplex,
        "provenance": {
            key: {"status": figure.status, "source": figure.source}
            for key, figure in figures.items()
        },
    }
