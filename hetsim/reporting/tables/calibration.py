"""What a calibration came to: predictions beside measurements that it was not fitted to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType
from rich.text import Text

from hetsim.base.units import format_seconds
from hetsim.calibration.judging import Judged, median_and_p90
from hetsim.reporting.words.console import cell, new_table
from hetsim.reporting.words.text import percent

if TYPE_CHECKING:
    from hetsim.calibration.calibrate import Calibration


def calibration_report(done: Calibration) -> RenderableType:
    """Return the report: what was measured how, then whole networks, then parts in one line."""
    setting = done.setting
    clock = "CPU time of the process" if setting.clock == "cpu" else "wall clock"
    lines = [
        f"measured  {setting.machine['processor']}, {_threads(setting.threads)}, {clock}",
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
        table = new_table()
        table.add_column(Text("not fitted to"), no_wrap=True)
        for title in ("measured", "predicted", "error", "repeats"):
            table.add_column(Text(title), justify="right", no_wrap=True)
        for one in whole:
            table.add_row(
                cell(one.name),
                cell(format_seconds(one.measured_s)),
                cell(format_seconds(one.predicted_s)),
                cell(f"{one.error:+.1%}".replace("%", " %")),
                cell(f"\N{PLUS-MINUS SIGN}{percent(one.spread)}"),
            )
        parts += [Text(""), table]
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
        "provider": done.setting.provider,
        "threads": done.setting.threads,
        "runtime": done.setting.runtime,
        "machine": dict(done.setting.machine),
        "clock": done.setting.clock,
        "networks": done.networks,
        "complete": done.complete,
        "spread": done.spread,
        "waited": done.waited,
        "noisy": done.noisy,
        "judged": [
            {
                "name": one.name,
                "part": one.part,
                "measured_s": one.measured_s,
                "predicted_s": one.predicted_s,
                "error": one.error,
                "spread": one.spread,
            }
            for one in done.judged
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


def _threads(threads: int) -> str:
    return "1 thread" if threads == 1 else f"{threads} threads"
