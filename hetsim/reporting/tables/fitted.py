"""What was fitted for devices, and how far it is from what was left out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.table import Table
from rich.text import Text

from hetsim.hardware.kernel_figures import KernelFigures
from hetsim.reporting.tables.kernel_figures import error_record, median_and_p90
from hetsim.reporting.words.console import cell, new_table
from hetsim.reporting.words.text import percent

Fitted = tuple[str, KernelFigures]
"""Figures with the runtime that they are of; empty: the device's first."""


def fitted_report(figures: Mapping[str, Sequence[Fitted]]) -> Table:
    """Return a line for each device, precision and range of batch sizes.

    Errors are medians and 90th percentiles.
    """
    table = new_table()
    for title in ("device", "as", "kin", "figures"):
        table.add_column(Text(title), no_wrap=True)
    for title in ("batch", "networks"):
        table.add_column(Text(title), justify="right", no_wrap=True)
    for whom in ("the device", "its kin"):
        heading = cell("left out of", whom, "median / 90 %")
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column(Text("repeats"), justify="right", no_wrap=True)
    for device, found in figures.items():
        for runtime, one in found:
            name = f"{device}:{runtime}" if runtime else device
            start = (name, one.precision, one.kin, one.status)
            if not one.errors:
                table.add_row(*map(cell, (*start, "", "", "", "", "")))
            for error in one.errors:
                spread = "" if error.spread is None else percent(error.spread)
                shown = (
                    error.batch,
                    str(error.networks),
                    median_and_p90(error.median, error.p90),
                    median_and_p90(error.unseen_median, error.unseen_p90),
                    spread,
                )
                table.add_row(*map(cell, (*start, *shown)))
                start = ("", "", "", "")
    return table


def fitted_record(figures: Mapping[str, Sequence[Fitted]]) -> dict[str, Any]:
    """Return the same as JSON takes it."""
    return {
        "schema": "hetsim-fitted/1",
        "devices": {
            device: {
                f"{runtime}:{one.precision}" if runtime else one.precision: {
                    "kin": one.kin,
                    "status": one.status,
                    "errors": [error_record(error) for error in one.errors],
                }
                for runtime, one in found
            }
            for device, found in figures.items()
        },
    }
