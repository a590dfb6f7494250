"""What a calibration came to: predictions beside measurements that it was not fitted to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType
from rich.text import Text

from hetsim.core.text import fields
from hetsim.core.units import format_seconds
from hetsim.cost.calibration.fitting import Judged, median_and_p90
from hetsim.reporting.words.console import table
from hetsim.reporting.words.text import count, percent

if TYPE_CHECKING:
    from hetsim.cost.calibration.calibrate import Calibration


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
