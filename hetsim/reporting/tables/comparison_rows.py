"""Strategies side by side: a line a strategy that fits 80 columns, or a line a device."""

from __future__ import annotations

from collections.abc import Mapping

from rich.table import Table
from rich.text import Text

from hetsim.analysis.comparison import Comparison, Row
from hetsim.base.units import format_bytes, format_seconds
from hetsim.plans.timeline import Timeline
from hetsim.problem.problem import Problem
from hetsim.reporting.words.console import cell, new_table
from hetsim.reporting.words.like_devices import fold_rows, fold_siblings
from hetsim.reporting.words.plan_figures import critical_path
from hetsim.reporting.words.text import ABSENT, joules, percent, ratio

NAME_MOST, NAME_WIDTH = 13, 12
"""Characters beyond which a strategy's argument goes on a line of its own: brief and wide."""

BUSY_MOST = 14
"""Characters up to which all devices stand on one line, in the brief table."""


def brief_table(comparison: Comparison) -> Table:
    """Return one line a strategy, best first; like devices are one."""
    throughput = comparison.objective == "throughput"
    table = new_table()
    table.add_column("strategy", overflow="fold", min_width=10)
    for heading in (
        *([cell("time a", "request")] if throughput else []),
        cell("latency"),
        cell("vs best", "single"),
        cell("above", "bound"),
        cell("sub-", "graphs"),
        *([] if throughput else [cell("moved")]),
        cell("peak", "memory"),
    ):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column(cell("device", "busy, %"), overflow="fold", min_width=8)
    best = next((row for row in comparison.rows if row.feasible), None)
    for name, row in _distinct(comparison):
        table.add_row(
            cell(*name_lines(name, NAME_MOST)),
            *(cell(figure) for figure in _figures(comparison, row)),
            cell(*_busy_lines(_busy(comparison, row, each=name != row.strategy))),
            style="green" if row is best else "",
        )
    return table


def _distinct(comparison: Comparison) -> list[tuple[str, Row]]:
    """Return the rows, those as one that differ in the sibling alone: ``single:gpu.0-7``."""
    return fold_rows(
        comparison.rows,
        lambda row: row.strategy,
        lambda row: (tuple(_figures(comparison, row)), tuple(_busy(comparison, row, each=True))),
    )


def _figures(comparison: Comparison, row: Row) -> list[str]:
    timeline = row.timeline
    throughput = comparison.objective == "throughput"
    if timeline is None:
        return ["no plan", *[ABSENT] * 5]
    return [
        *([format_seconds(row.cost_s or 0.0)] if throughput else []),
        format_seconds(timeline.latency_s),
        ratio(row.speedup_over_best_single),
        percent(row.gap, sign=True),
        str(row.groups),
        *([] if throughput else [format_bytes(timeline.transferred_bytes)]),
        _bytes_or_absent(max(timeline.peak_memory_bytes.values(), default=None)),
    ]


def _busy(comparison: Comparison, row: Row, *, each: bool) -> list[str]:
    """Return ``gpu 91``, ``gpu.0-7 8.8 to 10``: which devices the plan uses, and how much.

    `each`: the row stands for several that use one device each.
    """
    if row.timeline is None or row.plan is None:
        return []
    found = []
    busy = comparison.busy(row)
    for name, devices in fold_siblings(row.plan.devices_used):
        run = [busy[device] for device in devices]
        low, high = (percent(of).removesuffix(" %") for of in (min(run), max(run)))
        found.append(f"{'each' if each else name} {low if low == high else f'{low} to {high}'}")
    return found


def wide_table(comparison: Comparison) -> Table:
    """Return one row a strategy, best first; within it one line a device, like ones as one."""
    table = new_table()
    table.add_column("strategy", overflow="fold", min_width=10)
    heading = {"latency": ("latency",), "throughput": ("latency,", "s a request")}
    table.add_column(cell(*heading[comparison.objective]), justify="right", no_wrap=True)
    table.add_column(cell("vs best", "single"), justify="right", no_wrap=True)
    table.add_column(cell("above", "bound"), justify="right", no_wrap=True)
    table.add_column(cell("sub-", "graphs"), justify="right", no_wrap=True)
    table.add_column(cell("transfers,", "bytes, %", "of latency"), justify="right", no_wrap=True)
    table.add_column(Text("energy"), justify="right", no_wrap=True)
    table.add_column(Text("device"), overflow="fold", min_width=7)
    table.add_column(cell("vs it", "alone"), justify="right", no_wrap=True)
    table.add_column(Text("busy"), justify="right", no_wrap=True)
    table.add_column(cell("peak", "memory"), justify="right", no_wrap=True)
    best = next((row for row in comparison.rows if row.feasible), None)
    for name, row in _distinct(comparison):
        table.add_row(
            *_row_cells(comparison, row, name),
            style="green" if row is best else "",
            end_section=True,
        )
    return table


def _row_cells(comparison: Comparison, row: Row, name: str) -> list[Text]:
    problem = comparison.problem
    timeline = row.timeline
    if timeline is None:
        return [
            cell(*name_lines(name)),
            cell("no plan"),
            *(cell(ABSENT) for _ in range(9)),
        ]
    path = critical_path(timeline)
    requests = len(timeline.latencies_s)
    busy = comparison.busy(row)
    executed = problem.executed
    devices = fold_rows(
        problem.devices,
        str,
        lambda device: (_looks(row, timeline, busy, device), executed.get(device)),
    )
    names = [
        f"{name}, as if {executed[device]}" if device in executed else name
        for name, device in devices
    ]
    figures = zip(*(_looks(row, timeline, busy, device) for _, device in devices), strict=True)
    shown = name_lines(name)
    if name != row.strategy:
        shown.append(f"({row.strategy.partition(':')[2]} here)")
    return [
        cell(*shown),
        cell(
            format_seconds(timeline.latency_s),
            *([format_seconds(row.cost_s or 0.0)] if comparison.objective == "throughput" else []),
        ),
        cell(ratio(row.speedup_over_best_single)),
        cell(percent(row.gap, sign=True)),
        cell(str(row.groups)),
        cell(
            f"{timeline.transfers / requests:.3g}",
            format_bytes(round(timeline.transferred_bytes / requests)),
            percent(path.transfer_share if path is not None else None),
        ),
        cell(joules(timeline.energy_j / requests) if _power_known(problem) else ABSENT),
        cell(*names),
        *(cell(*column) for column in figures),
    ]


def _looks(
    row: Row, timeline: Timeline, busy: Mapping[str, float], device: str
) -> tuple[str, str, str]:
    return (
        ratio(row.speedup_over.get(device)),
        percent(busy.get(device)),
        _bytes_or_absent(timeline.peak_memory_bytes.get(device)),
    )


def _busy_lines(busy: list[str]) -> list[str]:
    together = ", ".join(busy) or ABSENT
    return [together] if len(together) <= BUSY_MOST else busy


def name_lines(strategy: str, most: int = NAME_WIDTH) -> list[str]:
    """Return a strategy on one line, or with its argument on a second."""
    name, colon, argument = strategy.partition(":")
    return [name + colon, argument] if colon and len(strategy) > most else [strategy]


def _power_known(problem: Problem) -> bool:
    return any(watts > 0 for watts in (*problem.idle_w, *problem.busy_w))


def _bytes_or_absent(nbytes: int | None) -> str:
    return ABSENT if nbytes is None else format_bytes(nbytes)
