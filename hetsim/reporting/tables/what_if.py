"""Tables and records of what-if answers next to the present one, and of sensitivities."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from rich.console import Group as Stack
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from hetsim.analysis.sensitivity import Sensitivities
from hetsim.analysis.what_if_comparison import WhatIfComparison
from hetsim.core.text import Record, fields, plain
from hetsim.core.units import format_seconds
from hetsim.problem.plan import Plan
from hetsim.problem.record import supposed_record
from hetsim.reporting.console import bold, stack, table, table_of
from hetsim.reporting.formatting import (
    ABSENT,
    count,
    folded,
    joules,
    latency_text,
    number_text,
    percent,
    relative_change,
    time_text,
)
from hetsim.simulation.service.service import Service

SAME = 5e-4
"""Relative difference below which two figures are the same."""

NONE = "The {} is undefined, so changes cannot be compared with it."
"""Sentence on a figure that is undefined or infinite."""

WORDS = {
    "strategy": "the strategy",
    "devices": "the devices",
    "limited_by": "the bottleneck",
    "subgraphs": "the subgraphs",
}
"""Names of decisions."""


def beside_report(found: WhatIfComparison) -> RenderableType:
    """Return a table of both answers, and the difference in a sentence."""
    made = sides_table(("now", "plan kept", "what if", "change"), _rows(found))
    return stack(made, bold(sentence(found)))


def _rows(found: WhatIfComparison) -> Iterator[tuple[str, ...]]:
    cost = "latency" if found.objective == "latency" else "time a request"
    lines: tuple[tuple[str, str, Callable[[Any], str]], ...] = (
        (cost, "cost_s", _time), ("strategy", "strategy", str), ("devices", "devices", _names),
        ("bottleneck", "limited_by", str), ("energy", "energy_j", joules),
        ("lower bound", "bound_s", format_seconds), ("best single", "single_s", format_seconds),
        ("", "single", str),
    )  # fmt: skip
    for name, key, text in lines:
        was, kept, now = (getattr(one, key, None) for one in (found.was, found.kept, found.now))
        known = [one not in (None, "", ()) and one == one for one in (was, now)]
        if key in ("cost_s", "strategy", "devices", "limited_by") or all(known):
            cells = [ABSENT if one in (None, "", ()) else text(one) for one in (was, kept, now)]
            change = ""
            if isinstance(was, float) and isinstance(now, float):
                change = difference(was, now)
            yield (name, *cells, change)


def sentence(found: WhatIfComparison) -> str:
    """Return the effect of the assumed change on the answer, in a sentence or two."""
    was, now = found.was, found.now
    of = "latency" if found.objective == "latency" else "time a request"
    change = found.change
    if change is None:
        text = "there is a plan; there is none now"
        text += f" ({was.reason})" * bool(was.reason)
    elif abs(change) < SAME:
        text = f"the {of} stays {format_seconds(now.cost_s)}"
    else:
        text = f"the {of} goes from {format_seconds(was.cost_s)} to {format_seconds(now.cost_s)} "
        text += f"({percent(change, sign=True)})"
        if found.kept is not None and found.moved:
            share = found.kept.cost_s / was.cost_s - 1.0
            text += f", or by {percent(share, sign=True)} with the plan kept"
    text = _with(found.supposed, text)
    if change is not None:
        text += _moved([WORDS[name] for name in found.moved], "The plan stays the same")
    text += "".join(f" '{each}' does not affect this answer." for each in found.idle)
    return plain(text)


def _with(supposed: object, text: str) -> str:
    return f"With {supposed}, {text}.".replace("With without ", "Without ")


def _moved(names: Sequence[str], none: str) -> str:
    if not names:
        return f" {none}."
    return f" {' and '.join(names).capitalize()} changed."


_SIDE = (
    "(cost_s strategy? devices limited_by? energy_j lower_bound_s=bound_s best_single=single? "
    "best_single_s=single_s reason?)"
)


def beside_record(found: WhatIfComparison) -> Record:
    """Return both answers as plain data."""
    return fields(
        found,
        "changes=supposed.changes without=supposed.without without_effect=idle objective "
        f"as_it_is=was{_SIDE} plan_kept=kept{_SIDE} supposed=now{_SIDE} change moved",
    )


def difference(was: float, now: float) -> str:
    """Return a difference such as ``-25 %``; ``same`` if equal, a dash if undefined."""
    share = relative_change(was, now)
    if share is None:
        return "same" if was == now else ABSENT
    return change_text(share)


def change_text(share: float) -> str:
    """Return a relative change; ``same`` if it is negligible, a dash if undefined."""
    if math.isnan(share):
        return ABSENT
    return "same" if abs(share) < SAME else percent(share, sign=True)


def _time(seconds: float) -> str:
    return "no plan" if math.isnan(seconds) else format_seconds(seconds)


def _names(devices: Sequence[str]) -> str:
    return ", ".join(folded(devices))


def sides_table(sides: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    """Return a table of figures, one per row with its name first and one column per side."""
    made = table(("figure", *sides), rows)
    for column in made.columns[1:]:
        column.justify = "right"
    return made


def served_beside_report(was: Service, now: Service) -> RenderableType:
    """Return a table of both answers, and the difference in a sentence."""
    table = sides_table(("now", "what if", "change"), _served_rows(was, now))
    return stack(table, bold(served_sentence(was, now)))


def _served_rows(was: Service, now: Service) -> Iterator[tuple[str, str, str, str]]:
    def row(
        what: str, text: Callable[[float], str], one: float, other: float
    ) -> tuple[str, str, str, str]:
        return (what, text(one), text(other), difference(one, other))

    yield ("state", was.state, now.state, "")
    for before, after in zip(was.streams, now.streams, strict=True):
        name = f"{before.name}: " if len(was.streams) > 1 else ""
        yield row(f"{name}p99", latency_text, before.p99_s, after.p99_s)
        # An overloaded stream has no percentile, and its mean grows with the run.
        means = (one.mean_s if one.percentiles else math.nan for one in (before, after))
        yield row(f"{name}mean", latency_text, *means)
        rates = before.throughput_per_s, after.throughput_per_s
        yield row(f"{name}throughput, 1/s", number_text, *rates)
        for one, other in zip(before.objectives, after.objectives, strict=True):
            yield (f"{name}{one.slo}", one.verdict.answer, other.verdict.answer, "")
    for model, on in _plans(was, now).items():
        yield (f"{model}: runs on" if len(was.resolved) > 1 else "runs on", *on, "")
    yield ("bottleneck", was.bottleneck, now.bottleneck, "")
    each = was.energy_per_1000_j, now.energy_per_1000_j
    if each[0] is not None and each[1] is not None:
        yield row("energy per 1000", joules, each[0], each[1])


def served_sentence(was: Service, now: Service) -> str:
    """Return the effect of the assumed change on the first stream, and the changed decisions."""
    platform = now.resolved[0].problem.platform
    assert platform is not None
    before, after = (side.streams[0].p99_s for side in (was, now))
    change = relative_change(before, after)
    if math.isnan(before) or math.isnan(after):
        text = f"the service is {now.state}; it is {was.state} now"
    elif difference(before, after) == "same":
        text = f"p99 stays {latency_text(after)}"
    else:
        text = f"p99 goes from {latency_text(before)} to {latency_text(after)}"
        text += "" if change is None else f" ({percent(change, sign=True)})"
    words = {"plans": "the plans", "bottleneck": "the bottleneck", "verdicts": "the verdict"}
    moved = [words[name] for name in served_moved(was, now)]
    same = "Plans, bottleneck and verdicts stay the same"
    return plain(f"{_with(platform.supposed, text)}{_moved(moved, same)}")


def served_moved(was: Service, now: Service) -> tuple[str, ...]:
    """Return the decisions that change: plans, bottleneck, verdicts."""
    found = []
    if any(before != after for before, after in _plans(was, now).values()):
        found.append("plans")
    if was.bottleneck != now.bottleneck:
        found.append("bottleneck")
    if _verdicts(was) != _verdicts(now):
        found.append("verdicts")
    return tuple(found)


def served_beside_record(was: Service, now: Service) -> Record:
    """Return both answers as plain data."""
    platform = now.resolved[0].problem.platform
    assert platform is not None
    supposed = supposed_record(platform)
    return {
        "changes": supposed["what_if"],
        "without": supposed["without"],
        "as_it_is": _served_side(was),
        "supposed": _served_side(now),
        "moved": list(served_moved(was, now)),
    }


def _served_side(side: Service) -> Record:
    return {
        **fields(side, "state bottleneck requests energy_per_1000_j"),
        "streams": [
            {
                **fields(one, "name p99_s mean_s throughput_per_s"),
                "verdicts": {str(each.slo): each.verdict.answer for each in one.objectives},
            }
            for one in side.streams
        ],
    }


def _plans(was: Service, now: Service) -> dict[str, tuple[str, str]]:
    """Devices of each model's instances."""
    return {
        before.served.model: (
            _runs_on([plans[0][0] for plans in before.plans]),
            _runs_on([plans[0][0] for plans in after.plans]),
        )
        for before, after in zip(was.resolved, now.resolved, strict=True)
    }


def _runs_on(plans: list[Plan]) -> str:
    return "; ".join(", ".join(folded(plan.devices_used)) for plan in plans)


def _verdicts(side: Service) -> list[str]:
    return [one.verdict.answer for stream in side.streams for one in stream.objectives]


def sensitivities_report(found: Sensitivities) -> RenderableType:
    """Return one row per change that has an effect, the largest first."""
    if not math.isfinite(found.value_s):
        return Text(NONE.format(plain(found.figure)))
    moving = [one for one in found.changes if abs(one.kept) >= SAME or abs(one.anew) >= SAME]
    made = table_of(
        moving,
        (f"effect on {found.figure}", "change"),
        ("#plan kept", lambda one: change_text(one.kept)),
        ("#replanned", lambda one: change_text(one.anew)),
        any(one.strategy for one in moving) and "planned by=strategy",
    )
    still = len(found.changes) - len(moving)
    value = time_text(found.value_s)
    told = f"The {plain(found.figure)} is {value}. "
    told += f"{count(still, 'other change')} {'has' if still == 1 else 'have'} no effect."
    return Stack(made, Text(told)) if moving else Text(told)


def sensitivities_record(found: Sensitivities) -> Record:
    """Return sensitivities as plain data."""
    return fields(found, "figure value_s changes(change plan_kept=kept planned_anew=anew strategy)")
