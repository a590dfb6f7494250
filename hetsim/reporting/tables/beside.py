"""Two answers side by side, as it is and as supposed: as text, and as a plain record."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence

from rich.console import Group as Stack
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from hetsim.analysis.beside import Beside, Side
from hetsim.analysis.sensitivity import Sensitivities
from hetsim.core.text import Record, fields, plain
from hetsim.core.units import format_seconds
from hetsim.problem.plan import Plan
from hetsim.problem.record import supposed_record
from hetsim.reporting.words.console import stack, table
from hetsim.reporting.words.like_devices import folded
from hetsim.reporting.words.text import (
    ABSENT,
    count,
    joules,
    latency_text,
    number_text,
    percent,
    relative_change,
    seconds_text,
)
from hetsim.simulation.service.service import Service

SAME = 5e-4
"""Part of a figure below which a difference is none: percentages show as much."""

WORDS = {
    "strategy": "the strategy",
    "devices": "the devices",
    "limited_by": "what limits it",
    "subgraphs": "the subgraphs",
}
"""What decisions are called."""

Row = tuple[str, str, str, str, str]


def beside_report(found: Beside) -> RenderableType:
    """Return a table of both answers, and what moved, in a sentence."""
    was, now, kept = found.was, found.now, found.kept
    cost = "latency" if found.objective == "latency" else "a request"
    limit = None if kept is None else kept.limited_by
    rows = [
        _seconds(cost, was.cost_s, now.cost_s, None if kept is None else kept.cost_s, kept),
        ("strategy", *_texts(was.strategy, was.strategy if kept else ABSENT, now.strategy), ""),
        ("devices", _devices(was), _devices(kept), _devices(now), ""),
        ("limited by", *_texts(was.limited_by, limit, now.limited_by), ""),
    ]
    if not any(map(math.isnan, (was.energy_j, now.energy_j))):
        shown = ABSENT if kept is None else joules(kept.energy_j)
        change = difference(was.energy_j, now.energy_j)
        rows.append(("energy", joules(was.energy_j), shown, joules(now.energy_j), change))
    if was.bound_s is not None and now.bound_s is not None:
        rows.append(_seconds("lower bound", was.bound_s, now.bound_s, None, kept))
    if was.single_s is not None and now.single_s is not None:
        rows.append(_seconds("best single", was.single_s, now.single_s, None, kept))
        rows.append(("", was.single, "", now.single, ""))
    table = sides_table(("as it is", "plan kept", "supposed", "change"), rows)
    return stack(table, Text(sentence(found), style="bold"))


def sentence(found: Beside) -> str:
    """Return what the supposition does to the answer, in a sentence or two."""
    was, now = found.was, found.now
    of = "latency" if found.objective == "latency" else "seconds a request"
    change = found.change
    if change is None:
        text = f"as it is there is no plan ({was.reason})" if was.reason else "no plan as it is"
    elif abs(change) < SAME:
        text = f"the {of} stays {format_seconds(now.cost_s)}"
    else:
        text = (
            f"the {of} goes from {format_seconds(was.cost_s)} to {format_seconds(now.cost_s)}, "
            f"{percent(change, sign=True)}"
        )
    if change is not None:
        moved = [WORDS[name] for name in found.moved]
        text += f"; {' and '.join(moved)} changed" if moved else "; the plan stays"
        if found.kept is not None and moved and abs(change) >= SAME:
            share = found.kept.cost_s / was.cost_s - 1.0
            text += f" ({percent(share, sign=True)} with the plan kept)"
    lines = f"What if {found.supposed}: {text}."
    for each in found.idle:
        lines += f" '{each}' changes nothing that this answer depends on."
    return plain(lines)


def beside_record(found: Beside) -> Record:
    """Return both answers as plain data."""
    return {
        "changes": list(found.supposed.changes),
        "without": list(found.supposed.without),
        "without_effect": list(found.idle),
        "objective": found.objective,
        "as_it_is": side_record(found.was),
        "plan_kept": None if found.kept is None else side_record(found.kept),
        "supposed": side_record(found.now),
        "change": found.change,
        "moved": list(found.moved),
    }


def side_record(side: Side) -> Record:
    """Return one answer as plain data."""
    return {
        "cost_s": side.cost_s,
        "strategy": side.strategy or None,
        "devices": list(side.devices),
        "limited_by": side.limited_by or None,
        **fields(side, "energy_j lower_bound_s=bound_s"),
        "best_single": side.single or None,
        "best_single_s": side.single_s,
        "reason": side.reason or None,
    }


def difference(was: float, now: float) -> str:
    """Return ``-25 %``; ``same`` where there is none, a dash where it is no number."""
    share = relative_change(was, now)
    if share is None:
        return "same" if was == now else ABSENT
    return change_text(share)


def change_text(share: float) -> str:
    """Return a relative change; ``same`` where there is none, a dash where it is no number."""
    if math.isnan(share):
        return ABSENT
    return "same" if abs(share) < SAME else percent(share, sign=True)


def _seconds(what: str, was: float, now: float, kept: float | None, of: Side | None) -> Row:
    shown = "" if of is not None and kept is None else ABSENT if kept is None else _time(kept)
    return (what, _time(was), shown, _time(now), difference(was, now))


def _time(seconds: float) -> str:
    return "no plan" if math.isnan(seconds) else format_seconds(seconds)


def _texts(was: str, kept: str | None, now: str) -> tuple[str, str, str]:
    return (was or ABSENT, kept or ABSENT, now or ABSENT)


def _devices(side: Side | None) -> str:
    return ABSENT if side is None else ", ".join(folded(side.devices)) or ABSENT


def sides_table(sides: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    """Return a table of figures, each with its name before what it is on each side."""
    made = table(("what if", *sides), rows)
    for column in made.columns[1:]:
        column.justify = "right"
    return made


def served_beside_report(was: Service, now: Service) -> RenderableType:
    """Return a table of both answers, and what moved, in a sentence."""
    table = sides_table(("as it is", "supposed", "change"), _served_rows(was, now))
    return stack(table, Text(served_sentence(was, now), style="bold"))


def _served_rows(was: Service, now: Service) -> Iterator[tuple[str, str, str, str]]:
    yield ("state", was.state, now.state, "")
    for before, after in zip(was.streams, now.streams, strict=True):
        name = f"{before.name}: " if len(was.streams) > 1 else ""
        yield _row(f"{name}p99", latency_text, before.p99_s, after.p99_s)
        yield _row(f"{name}mean", latency_text, before.mean_s, after.mean_s)
        rates = before.throughput_per_s, after.throughput_per_s
        yield _row(f"{name}answers a second", number_text, *rates)
        for one, other in zip(before.objectives, after.objectives, strict=True):
            yield (f"{name}{one.slo}", one.verdict.answer, other.verdict.answer, "")
    for model, (before_on, after_on) in _plans(was, now).items():
        name = f"{model}: " if len(was.resolved) > 1 else ""
        yield (f"{name}runs on", before_on, after_on, "")
    yield ("bottleneck", was.bottleneck, now.bottleneck, "")
    each = was.energy_per_1000_j, now.energy_per_1000_j
    if each[0] is not None and each[1] is not None:
        yield _row("1000 on time", joules, each[0], each[1])


def _row(
    what: str, text: Callable[[float], str], was: float, now: float
) -> tuple[str, str, str, str]:
    return (what, text(was), text(now), difference(was, now))


def served_sentence(was: Service, now: Service) -> str:
    """Return what the supposition does to the first stream, and which decisions moved."""
    platform = now.resolved[0].problem.platform
    assert platform is not None
    before, after = (side.streams[0].p99_s for side in (was, now))
    change = relative_change(before, after)
    if math.isnan(before) or math.isnan(after):
        text = f"as it is {was.state}, so supposed {now.state}"
    elif difference(before, after) == "same":
        text = f"p99 stays {latency_text(after)}"
    elif change is None:
        text = f"p99 is {latency_text(before)} as it is, {latency_text(after)} as supposed"
    else:
        text = (
            f"p99 goes from {format_seconds(before)} to {format_seconds(after)}, "
            f"{percent(change, sign=True)}"
        )
    moved = served_moved(was, now)
    words = {"plans": "the plans", "bottleneck": "the bottleneck", "verdicts": "the verdict"}
    told = " and ".join(words[name] for name in moved)
    text += f"; {told} changed" if moved else "; plans, bottleneck and verdicts stay"
    return plain(f"What if {platform.supposed}: {text}.")


def served_moved(was: Service, now: Service) -> tuple[str, ...]:
    """Return which decisions are others: plans, bottleneck, verdicts."""
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
    """By model, on which devices its instances run, by which strategies."""
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
    """Return a row for each change that moves the figure, the largest first."""
    moving = [one for one in found.changes if abs(one.kept) >= SAME or abs(one.anew) >= SAME]
    made = table(
        (f"what would move {found.figure}", "#plan kept", "#planned anew"),
        ((one.change, change_text(one.kept), change_text(one.anew)) for one in moving),
    )
    still = len(found.changes) - len(moving)
    value = seconds_text(found.value_s)
    told = f"{plain(found.figure)} is {value}; {count(still, 'other change')} would not move it"
    return Stack(made, Text(told)) if moving else Text(told)


def sensitivities_record(found: Sensitivities) -> Record:
    """Return the same as plain data."""
    return {
        "figure": found.figure,
        "value_s": found.value_s,
        "changes": [
            fields(one, "change plan_kept=kept planned_anew=anew") for one in found.changes
        ],
    }
