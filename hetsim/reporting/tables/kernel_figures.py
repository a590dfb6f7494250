"""What kernels take on a device: the main figures, their errors, and every parameter."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.table import Table
from rich.text import Text

from hetsim.base.units import format_seconds
from hetsim.hardware.kernel_figures import PARAMETERS, FigureError, KernelFigures
from hetsim.reporting.words.console import cell, new_table
from hetsim.reporting.words.text import ABSENT, percent, rate


def kernels_table(kernels: Mapping[str, KernelFigures]) -> Table:
    """Return a row for each precision: rate, bandwidth, launch and dispatch."""
    table = new_table()
    table.add_column(Text("kernels"), no_wrap=True)
    for title in ("rate", "bandwidth", "weights", "launch", "dispatch"):
        table.add_column(Text(title), justify="right", no_wrap=True)
    table.add_column(cell("weakest", "status"), no_wrap=True)
    for precision, figures in kernels.items():
        table.add_row(
            cell(precision),
            cell(rate(figures.value("rate_tflops"), "FLOP/s")),
            cell(rate(figures.value("bandwidth_gbytes_s"), "B/s")),
            cell(rate(figures.value("weights_gbytes_s"), "B/s")),
            cell(format_seconds(figures.value("launch_us"))),
            cell(format_seconds(figures.dispatch_s)),
            cell(figures.status),
        )
    return table


def standing_table(kernels: Mapping[str, KernelFigures]) -> Table:
    """Return a row for each precision: the kin, and whose software was measured."""
    table = new_table()
    for title in ("kernels", "kin"):
        table.add_column(Text(title), no_wrap=True)
    table.add_column(Text("runtime"), overflow="fold", ratio=1)
    for precision, figures in kernels.items():
        table.add_row(cell(precision), cell(figures.kin), cell(figures.runtime))
    return table


def errors_table(kernels: Mapping[str, KernelFigures]) -> Table | None:
    """Return how far predictions were from what was left out; None where nothing was.

    Medians and 90th percentiles of networks that were left out of the device alone, and of every
    device of its kin.
    """
    table = new_table()
    for title in ("errors of", "batch"):
        table.add_column(Text(title), no_wrap=True)
    for title in ("networks", "rows"):
        table.add_column(Text(title), justify="right", no_wrap=True)
    for whom in ("the device", "its kin"):
        heading = cell("left out of", whom, "median / 90 %")
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column(cell("repeated", "differ by"), justify="right", no_wrap=True)
    for precision, figures in kernels.items():
        for error in figures.errors:
            table.add_row(
                cell(precision),
                cell(error.batch),
                cell(str(error.networks)),
                cell(str(error.rows)),
                cell(median_and_p90(error.median, error.p90)),
                cell(median_and_p90(error.unseen_median, error.unseen_p90)),
                cell(ABSENT if error.spread is None else percent(error.spread)),
            )
    return table if table.row_count else None


def median_and_p90(median: float | None, p90: float | None) -> str:
    """Return two relative errors as ``6 / 21 %``; a dash where there are none."""
    if median is None or p90 is None:
        return ABSENT
    return f"{percent(median).removesuffix(' %')} / {percent(p90)}"


def parameters_table(kernels: Mapping[str, KernelFigures]) -> Table:
    """Return every parameter of every precision, in the unit of its key, with its source."""
    table = new_table()
    table.add_column(Text("parameter"), no_wrap=True)
    table.add_column(Text("kernels"), no_wrap=True)
    table.add_column(Text("value"), justify="right", no_wrap=True)
    table.add_column(Text("status"), no_wrap=True)
    table.add_column(Text("source"), overflow="fold", ratio=1)
    for parameter in PARAMETERS:
        for precision, figures in kernels.items():
            status, source = figures.provenance[parameter.name]
            value = parameter.in_key_unit(figures.value(parameter.name))
            table.add_row(
                cell(parameter.name), cell(precision), cell(f"{value:.4g}"), cell(status),
                cell(source),
            )  # fmt: skip
    return table


def kernels_record(kernels: Mapping[str, KernelFigures]) -> dict[str, Any]:
    """Return the figures as a record for ``to_json``, in the units of their keys."""
    return {
        precision: {
            "kin": figures.kin,
            "runtime": figures.runtime,
            "source": figures.source,
            "status": figures.status,
            "parameters": {
                parameter.name: {
                    "value": parameter.in_key_unit(figures.value(parameter.name)),
                    "status": figures.provenance[parameter.name][0],
                    "source": figures.provenance[parameter.name][1],
                }
                for parameter in PARAMETERS
            },
            "errors": [error_record(error) for error in figures.errors],
        }
        for precision, figures in kernels.items()
    }


def error_record(error: FigureError) -> dict[str, Any]:
    """Return an error as a record for ``to_json``, as shares of one."""
    return {
        "batch": error.batch,
        "networks": error.networks,
        "rows": error.rows,
        "median": error.median,
        "p90": error.p90,
        "unseen_median": error.unseen_median,
        "unseen_p90": error.unseen_p90,
        "spread": error.spread,
        "sd": error.sd,
        "common": error.common,
    }
