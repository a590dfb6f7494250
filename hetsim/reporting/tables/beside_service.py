"""What becomes of a workload on a platform as it is, beside what is supposed of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

from rich.console import Group as Stack
from rich.console import RenderableType
from rich.text import Text

from hetsim.base.text import Record, plain
from hetsim.base.units import format_seconds
from hetsim.plans.plan import Plan
from hetsim.problem.record import supposed_record
from hetsim.reporting.tables.beside import difference, sides_table
from hetsim.reporting.words.like_devices import folded
from hetsim.reporting.words.text import joules, latency_text, number_text, percent, relative_change
from hetsim.service.service import Service

Row = tuple[str, str, str, str]


def served_beside_report(was: Service, now: Service) -> RenderableType:
    """Return a table of both answers, and what moved, in a sentence."""
    table = sides_table(("as it is", "supposed", "change"), _rows(was, now))
    return Stack(table, Text(""), Text(served_sentence(was, now), style="bold"))


def _rows(was: Service, now: Service) -> Iterator[Row]:
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


def _row(what: str, text: Callable[[float], str], was: float, now: float) -> Row:
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
        "as_it_is": _side_record(was),
        "supposed": _side_record(now),
        "moved": list(served_moved(was, now)),
    }


def _side_record(side: Service) -> Record:
    return {
        "state": side.state,
        "bottleneck": side.bottleneck,
        "requests": side.requests,
        "energy_per_1000_j": side.energy_per_1000_j,
        "streams": [
            {
                "name": one.name,
                "p99_s": one.p99_s,
                "mean_s": one.mean_s,
                "throughput_per_s": one.throughput_per_s,
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
