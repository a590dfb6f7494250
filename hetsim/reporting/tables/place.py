"""Where models are placed, as tables: the placements, the best one, and what models wait for."""

from __future__ import annotations

import math

from rich.console import Group as Stack
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from hetsim.base.text import plain
from hetsim.base.units import format_bytes
from hetsim.placing.answer import Apart, Placed, Placement, Sought
from hetsim.reporting.tables.comparison import question
from hetsim.reporting.words.console import cell, new_table, pairs
from hetsim.reporting.words.text import ABSENT, big, latency_text, percent, seconds_text
from hetsim.service.service import StreamService
from hetsim.workloads.deployment import DynamicBatching


def place_report(found: Placement) -> RenderableType:
    """Return what was asked, a row a placement, the best one, and each model with and without."""
    rows: list[tuple[str, str]] = []
    if found.rows:
        for one in found.best.service.resolved if found.best.service else ():
            rows += [row for row in question(one.problem) if row not in rows]
    rows.append(("asked", _asked(found)))
    rows += [(_batching(one.batching), _sought(one)) for one in found.sought]
    parts: list[RenderableType] = [pairs(rows)]
    if found.rows:
        parts += ["", _table(found), "", _instances(found.best), "", _devices(found)]
    if found.apart:
        parts += ["", _apart(found.apart)]
    parts += ["", Text(best_sentence(found), style="bold")]
    return Stack(*parts)


def factor(value: float) -> str:
    """Return a multiple of the demand."""
    return "any" if math.isinf(value) else f"{value:.3g}x"


def gap_text(one: Sought) -> str:
    """Return how far from the best it may be."""
    if one.proved:
        return "gap 0 %, proved"
    return f"gap {percent(one.gap)} at most" if math.isfinite(one.gap) else "no gap is known"


def best_sentence(found: Placement) -> str:
    """Return what is said of the best placement, in one sentence."""
    if not found.rows:
        why = found.impossible or "None of what was tried fits"
        return f"{plain(why[:1].upper() + why[1:])}."
    best = found.best
    where = "; ".join(
        f"{plain(model)} on {' and '.join(dict.fromkeys(mine))}"
        for model, mine in _by_model(best).items()
    )
    asks = any(stream.slos for stream in found.workload.streams)
    says = {
        "meets": "it meets every objective" if asks else "every model keeps up",
        "misses": "it misses an objective" if asks else "a model does not keep up",
        "undecided": "whether it meets every objective is undecided",
    }[best.answer]
    text = f"Best: {where}; {says}, and carries {factor(best.factor)} the demand."
    if best.answer != "meets" and found.impossible is not None:
        text += f" Proved: {plain(found.impossible)}."
    return text


def _by_model(row: Placed) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for one in row.instances:
        found.setdefault(one.model, []).append("+".join(one.devices))
    return found


def _asked(found: Placement) -> str:
    workload = found.workload
    told = sum(row.service.requests for row in found.rows if row.service is not None)
    parts = []
    for stream in workload.streams:
        slos = " and ".join(map(str, stream.slos)) or "no objective"
        parts.append(f"{plain(stream.name)}: {slos}")
    rate = f"{found.rate_per_s:.4g}/s in all, seed {workload.seed}, {big(told)} requests played"
    return f"{'; '.join(parts)}; {rate}"


def _batching(batching: DynamicBatching | None) -> str:
    return "one by one" if batching is None else f"batches of {batching.max_batch_size}"


def _sought(one: Sought) -> str:
    slow = sum(row.slow for row in one.refused)
    text = f"{one.offered} instances that there may be"
    if one.refused:
        text += f", {len(one.refused)} cannot"
        text += f" ({slow} too slow alone)" if slow else ""
    if not one.factor:
        return f"{text}; no set of them fits"
    return f"{text}; best {factor(one.factor)}, bound {factor(one.bound)}, {gap_text(one)}"


def _table(found: Placement) -> Table:
    table = new_table()
    table.add_column("placement", overflow="fold")
    for name in ("carries", "meets", "p99 / limit"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("requests wait", overflow="fold")
    table.add_column("busy there", overflow="fold")
    # Of the ways in which requests may wait for one set of instances, the best.
    best: dict[object, Placed] = {}
    for row in found.rows:
        best.setdefault((row.batching, row.places), row)
    for row in best.values():
        lines = [f"{model}: {', '.join(mine)}" for model, mine in _by_model(row).items()]
        if row.batching is not None:
            lines.append(f"batches of {row.batching.max_batch_size}")
        table.add_row(
            cell(*lines),
            factor(row.factor),
            {"meets": "yes", "misses": "no"}.get(row.answer, row.answer),
            ABSENT if not 0 < row.near < math.inf else f"{row.near:.2f}",
            cell(row.waits),
            cell(row.binds),
        )
    return table


def _instances(best: Placed) -> Table:
    table = new_table()
    for name in ("model", "instance on", "planned by"):
        table.add_column(name, overflow="fold")
    table.add_column("alone", justify="right", no_wrap=True)
    for one in best.instances:
        table.add_row(
            cell(one.model),
            cell(", ".join(one.devices)),
            cell(one.strategy),
            seconds_text(one.resolved.seconds[0][0][0]),
        )
    return table


def _devices(found: Placement) -> Table:
    best = found.best
    table = new_table()
    table.add_column("device or link", overflow="fold")
    for name in ("busy at capacity", "busy", "memory", "of"):
        table.add_column(name, justify="right", no_wrap=True)
    service = best.service
    for name, use in best.use.items():
        kind, _, short = name.partition(" ")
        if kind == "link" and use < 0.0005:
            continue
        now = None
        if service is not None:
            now = (service.devices if kind == "device" else service.links).get(short)
        held = best.memory_bytes.get(short) if kind == "device" else None
        table.add_row(
            cell(name),
            percent(use),
            ABSENT if now is None else percent(now.utilization),
            ABSENT if held is None else format_bytes(held),
            ABSENT if held is None else format_bytes(found.platform.devices[short].memory_bytes),
        )
    return table


def _apart(rows: tuple[Apart, ...]) -> Table:
    table = new_table()
    table.add_column("stream", overflow="fold")
    for name in ("p99 alone", "with others", "mean alone", "with others", "for others' work"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        share = row.others_s / row.together.mean_s if row.together.mean_s else math.nan
        told = row.together.percentiles and math.isfinite(row.others_s)
        table.add_row(
            cell(row.stream),
            _p99(row.alone),
            _p99(row.together),
            _mean(row.alone),
            _mean(row.together),
            f"{seconds_text(max(row.others_s, 0.0))}, {percent(max(share, 0.0))}"
            if told
            else ABSENT,
        )
    return table


def _p99(stream: StreamService) -> str:
    if not stream.requests:
        return "no request"
    return latency_text(stream.p99_s) if stream.percentiles else "overloaded"


def _mean(stream: StreamService) -> str:
    return seconds_text(stream.mean_s) if stream.percentiles else ABSENT
