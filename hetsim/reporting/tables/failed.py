"""What failures did to a workload, as tables."""

from __future__ import annotations

from collections.abc import Iterator

from rich.table import Table
from rich.text import Text

from hetsim.base.text import plain
from hetsim.base.units import format_seconds
from hetsim.reporting.words.console import cell, new_table
from hetsim.reporting.words.text import ABSENT, count, percentile_lines, seconds_text
from hetsim.service.failed import Failed, ModelFailed, Period
from hetsim.service.service import Service


def failed_rows(failed: Failed) -> Iterator[tuple[str, str]]:
    """Yield what failed, and how each model got over it, in words."""
    for one in failed.devices:
        yield (
            f"failures of {plain(one.device)}",
            f"{one.failures}, {format_seconds(one.down_s)} down in all",
        )
    if not failed.devices:
        yield "failures", "none while requests were under way"
        return
    for model in failed.models:
        yield f"{plain(model.model)} with failures", _model_text(model)
    lost = sum(stream.lost for stream in failed.streams)
    retried = sum(stream.retried for stream in failed.streams)
    yield (
        "lost work",
        f"of {count(lost, 'request')}, {format_seconds(failed.cut_s)} of devices cut off; "
        f"{count(retried, 'request')} sent anew",
    )


def _model_text(model: ModelFailed) -> str:
    text = f"available {100 * model.available:.4g} % of the time"
    if not model.windows:
        return f"{text}; not touched"
    recoveries = model.recoveries_s
    if recoveries:
        text += f"; recovered in {format_seconds(sum(recoveries) / len(recoveries))}"
        if len(recoveries) > 1:
            text += f" on average, {format_seconds(max(recoveries))} at most"
            text += f", {len(recoveries)} times"
    never = len(model.windows) - len(recoveries)
    if never:
        text += "; not recovered from the last by the end"
    return text


def failed_table(service: Service) -> Table:
    """Return latencies before, during and after failures, stream by stream."""
    failed = service.failures
    assert failed is not None
    table = new_table()
    table.add_column("stream", overflow="fold")
    table.add_column(Text("fail-\nures"), no_wrap=True)
    for name in ("requests,\nrejected", "mean", "p50, 95 %", "p99, 95 %"):
        table.add_column(Text(name, justify="right"), justify="right", no_wrap=True)
    objectives = any(stream.objectives for stream in service.streams)
    if objectives:
        table.add_column("on time", overflow="fold")
    for one, stream in zip(failed.streams, service.streams, strict=True):
        for when, period in (
            ("before", one.before),
            ("during", one.during),
            ("after", one.after),
        ):
            row = [cell(one.name) if when == "before" else Text(""), Text(when), *_period(period)]
            if objectives:
                slos = [objective.slo for objective in stream.objectives]
                row.append(_on_time(period, [str(slo) for slo in slos]))
            table.add_row(*row)
    return table


def _period(period: Period) -> list[Text]:
    found = {each.percentile: each for each in period.percentiles}
    return [
        cell(str(period.requests), str(period.rejected)),
        Text(seconds_text(period.mean_s)),
        *(cell(*percentile_lines(found.get(percentile))) for percentile in (50.0, 99.0)),
    ]


def _on_time(period: Period, names: list[str]) -> Text:
    if not period.requests:
        return Text(ABSENT)
    shares = [f"{100 * share:.4g} %" for share in period.on_time]
    if len(shares) > 1:
        shares = [f"{name}: {share}" for name, share in zip(names, shares, strict=True)]
    return Text("\n".join(shares))
