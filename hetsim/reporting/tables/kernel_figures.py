"""What kernels take on a device: the main figures, their errors, and every parameter."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.table import Table

from hetsim.core.text import fields
from hetsim.core.units import format_seconds
from hetsim.hardware.kernel_figures import PARAMETERS, FigureError, KernelFigures
from hetsim.reporting.words.console import table
from hetsim.reporting.words.text import ABSENT, percent, rate


def kernels_table(kernels: Mapping[str, KernelFigures]) -> Table:
    """Return a row for each precision: rate, bandwidth, launch and dispatch."""
    figures = "#rate", "#bandwidth", "#weights", "#launch", "#dispatch"
    return table(
        ("|kernels", *figures, "|weakest\nstatus"),
        (
            (
                precision,
                rate(known.value("rate_tflops"), "FLOP/s"),
                rate(known.value("bandwidth_gbytes_s"), "B/s"),
                rate(known.value("weights_gbytes_s"), "B/s"),
                format_seconds(known.value("launch_us")),
                format_seconds(known.dispatch_s),
                known.status,
            )
            for precision, known in kernels.items()
        ),
    )


def standing_table(kernels: Mapping[str, KernelFigures]) -> Table:
    """Return a row for each precision: the kin, and whose software was measured."""
    rows = ((precision, figures.kin, figures.runtime) for precision, figures in kernels.items())
    return table(("|kernels", "|kin", "runtime"), rows)


def errors_table(kernels: Mapping[str, KernelFigures]) -> Table | None:
    """Return how far predictions were from what was left out; None where nothing was.

    Medians and 90th percentiles of networks that were left out of the device alone, and of every
    device of its kin.
    """
    left_out = [f"#left out of\n{whom}\nmedian / 90 %" for whom in ("the device", "its kin")]
    made = table(
        ("|errors of", "|batch", "#networks", "#rows", *left_out, "#repeated\ndiffer by"),
        (
            (
                precision,
                error.batch,
                str(error.networks),
                str(error.rows),
                median_and_p90(error.median, error.p90),
                median_and_p90(error.unseen_median, error.unseen_p90),
                percent(error.spread),
            )
            for precision, figures in kernels.items()
            for error in figures.errors
        ),
    )
    return made if made.row_count else None


def median_and_p90(median: float | None, p90: float | None) -> str:
    """Return two relative errors as ``6 / 21 %``; a dash where there are none."""
    if median is None or p90 is None:
        return ABSENT
    return f"{percent(median).removesuffix(' %')} / {percent(p90)}"


def parameters_table(kernels: Mapping[str, KernelFigures]) -> Table:
    """Return every parameter of every precision, in the unit of its key, with its source."""
    return table(
        ("|parameter", "|kernels", "#value", "|status", "source"),
        (
            (
                one.name,
                precision,
                f"{one.in_key_unit(figures.value(one.name)):.4g}",
                *figures.provenance[one.name],
            )
            for one in PARAMETERS
            for precision, figures in kernels.items()
        ),
    )


def kernels_record(kernels: Mapping[str, KernelFigures]) -> dict[str, Any]:
    """Return the figures as a record for ``to_json``, in the units of their keys."""
    return {
        precision: {
            **fields(figures, "kin runtime source status"),
            "parameters": {
                parameter.name: {
                    "value": parameter.in_key_unit(figures.value(parameter.name)),
                    **stated(figures.provenance[parameter.name]),
                }
                for parameter in PARAMETERS
            },
            "errors": [error_record(error) for error in figures.errors],
        }
        for precision, figures in kernels.items()
    }


def stated(provenance: tuple[str, str]) -> dict[str, str]:
    """Return the status and source of a figure as a record."""
    return dict(zip(("status", "source"), provenance, strict=True))


def error_record(error: FigureError) -> dict[str, Any]:
    """Return an error as a record for ``to_json``, as shares of one."""
    names = "batch networks rows median p90 unseen_median unseen_p90 spread sd common"
    return fields(error, names)
