"""Figures of kernels: those of the catalog with their errors, and what a calibration came to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from hetsim.core.text import fields
from hetsim.core.units import format_seconds
from hetsim.cost.calibration.fitting import Judged, median_and_p90
from hetsim.hardware.kernel_figures import PARAMETERS, FigureError, KernelFigures
from hetsim.reporting.words.console import table
from hetsim.reporting.words.text import ABSENT, count, percent, rate

if TYPE_CHECKING:
    from hetsim.cost.calibration.calibrate import Calibration


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
                errors_text(error.median, error.p90),
                errors_text(error.unseen_median, error.unseen_p90),
                percent(error.spread),
            )
            for precision, figures in kernels.items()
            for error in figures.errors
        ),
    )
    return made if made.row_count else None


def errors_text(median: float | None, p90: float | None) -> str:
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


def calibration_report(done: Calibration) -> RenderableType:
    """Return the report: what was measured how, then whole networks, then parts in one line."""
    setting = done.setting
    clock = "CPU time of the process" if setting.clock == "cpu" else "wall clock"
    lines = [
        f"measured  {setting.machine['processor']}, {count(setting.threads, 'thread')}, {clock}",
        f"runtime   {setting.runtime}, {setting.provider}",
        f"fitted    to {done.networks} generated networks"
        + ("" if done.complete else "; the budget ended before all was measured: run it again"),
        f"repeats   differ by {percent(done.spread)}",
    ]
    if done.noisy:
        lines.append(
            f"warning   the machine was not quiet: the process waited {percent(done.waited)} of "
            "the time; stop what else runs, delete the journal, and run it again"
        )
    parts: list[RenderableType] = [Text("\n".join(lines))]
    whole = [one for one in done.judged if not one.part]
    if whole:
        rows = (
            (
                one.name,
                format_seconds(one.measured_s),
                format_seconds(one.predicted_s),
                f"{one.error:+.1%}".replace("%", " %"),
                f"\N{PLUS-MINUS SIGN}{percent(one.spread)}",
            )
            for one in whole
        )
        headings = "|not fitted to", "#measured", "#predicted", "#error", "#repeats"
        parts += [Text(""), table(headings, rows)]
    said = [_said("whole networks", whole), _said("parts", [o for o in done.judged if o.part])]
    said.append(f"written to {done.output}; what was measured is in {done.journal}")
    parts += [Text(""), Text("\n".join(line for line in said if line))]
    return Group(*parts)


def calibration_record(done: Calibration) -> dict[str, Any]:
    """Return the same as a record."""
    return {
        "schema": "hetsim-calibrate/1",
        "output": str(done.output),
        "journal": str(done.journal),
        **fields(done.setting, "provider threads runtime machine clock"),
        **fields(done, "networks complete spread waited noisy"),
        "judged": [
            fields(one, "name part measured_s predicted_s error spread") for one in done.judged
        ],
        "errors": {
            name: None if found is None else {"median": found[0], "p90": found[1]}
            for name, found in (
                ("whole", median_and_p90([one for one in done.judged if not one.part])),
                ("parts", median_and_p90([one for one in done.judged if one.part])),
            )
        },
    }


def _said(what: str, judged: list[Judged]) -> str:
    found = median_and_p90(judged)
    if found is None:
        return ""
    return f"{len(judged)} {what}: off by {percent(found[0])} in the median, 90 % by less than {percent(found[1])}"  # noqa: E501
