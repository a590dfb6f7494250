"""Workloads: arrivals and objectives by stream, and validation of workload files."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import RenderableType

from hetsim.core.text import fields, plain
from hetsim.core.units import format_seconds
from hetsim.reporting.console import pairs, stack, table_of
from hetsim.reporting.formatting import ABSENT, count
from hetsim.workload.arrivals import Closed, Replay
from hetsim.workload.deployment import Deployment
from hetsim.workload.failure import ByDevice, Failing
from hetsim.workload.files.reader import CheckedWorkload
from hetsim.workload.requests import MOST, StreamSummary
from hetsim.workload.workload import Stream, Workload

if TYPE_CHECKING:
    from hetsim.provisioning.platforms.question import QuestionStream as Asked


def workload_report(
    workload: Workload, came: tuple[StreamSummary, ...], *, ended: bool
) -> RenderableType:
    """Return one line per stream; `ended` is False if only the first requests were generated."""
    rows = [
        ("ends", _end(workload)),
        ("seed", str(workload.seed)),
        ("warm-up", format_seconds(workload.warm_up_s) if workload.warm_up_s else None),
        ("failures", None if workload.failures is None else failing_text(workload.failures)),
        ("generated", None if ended else f"the first {MOST} requests"),
    ]

    def closed(one: StreamSummary) -> bool:
        return isinstance(one.stream.arrivals, Closed)

    made = table_of(
        came,
        "stream=stream.name",
        "model=stream.model",
        ("arrivals", lambda one: arrivals_text(one.stream)),
        ("objectives", lambda one: [*map(str, one.stream.slos)] or ABSENT),
        ("#requests", lambda one: ABSENT if closed(one) else str(one.requests)),
        ("#a second", lambda one: ABSENT if closed(one) else f"{one.rate_per_s:.4g}"),
        ("#cv of\ngaps", lambda one: ABSENT if math.isnan(one.gap_cv) else f"{one.gap_cv:.3g}"),
    )
    answers = "In a closed loop, answers determine when requests arrive."
    return stack(pairs(rows), made, answers if any(map(closed, came)) else None)


def failing_text(failing: Failing) -> str:
    """Return the injected and random failures."""
    parts = [plain(str(failure)) for failure in failing.injected]
    if failing.mtbf_s is not None and failing.mttr_s is not None:
        between, repair = _by_device(failing.mtbf_s), _by_device(failing.mttr_s)
        parts.append(f"{failing.times} times to failure {between}, repair {repair}")
    return "; ".join(parts)


def _by_device(given: ByDevice) -> str:
    if not isinstance(given, Mapping):
        return format_seconds(given)
    return ", ".join(f"{plain(name)} {format_seconds(each)}" for name, each in given.items())


FAILING = "failures(injected(kind device at_s for_s) mtbf_s mttr_s times)"
"""Fields of the failures in a workload."""


def arrivals_text(stream: Stream) -> str:
    """Return the arrivals of a stream."""
    arrivals = stream.arrivals
    if arrivals is None:
        return f"{stream.share:.4g} of the shared arrivals"
    if isinstance(arrivals, Closed):
        think = f", {arrivals.think} think time of {format_seconds(arrivals.think_time_s)}"
        return count(arrivals.concurrency, "client") + think * bool(arrivals.think_time_s)
    if isinstance(arrivals, Replay):
        faster = f", sped up {arrivals.speed_up:.4g}x" * (arrivals.speed_up != 1)
        only = "".join(f", {plain(name)} = {plain(is_)}" for name, is_ in arrivals.where.items())
        first_s = arrivals.span_s[0]
        late = f", starting at {format_seconds(first_s)}" * bool(first_s)
        return f"replay of {plain(arrivals.path)} ({arrivals.trace().format}{only}){faster}{late}"
    return arrivals.kind


def workload_record(
    workload: Workload, came: tuple[StreamSummary, ...], *, ended: bool
) -> dict[str, Any]:
    """Return streams and arrivals as a record for ``to_json``."""
    return {
        "schema": "hetsim-workload/1",
        **fields(workload, f"duration_s requests warm_up_s seed {FAILING}"),
        "all_drawn": ended,
        "streams": [
            {
                **fields(
                    one,
                    "name=stream.name model=stream.model arrivals=stream.arrivals.kind "
                    "share=stream.share priority=stream.priority "
                    "slos=stream.slos(share_on_time=share latency_s) requests rate_per_s gap_cv",
                ),
                "variants": [
                    {"dims": dims, "requests": many}
                    for dims, many in zip(one.stream.variants, one.by_variant, strict=True)
                ],
            }
            for one in came
        ],
    }


def objectives_record(streams: Sequence[Stream | Asked]) -> list[dict[str, Any]]:
    """Return the objectives of streams as a record."""
    return [
        {"stream": stream.name, **fields(slo, "share_on_time=share latency_s")}
        for stream in streams
        for slo in stream.slos
    ]


def arrivals_record(workload: Workload) -> list[dict[str, Any]]:
    """Return the arrivals and priorities of streams as a record."""
    found = []
    for stream in workload.streams:
        arrivals, share = workload.arrivals_of(stream)
        asked = {"stream": stream.name, "kind": arrivals.kind, **fields(arrivals)}
        # Other files of the workload are those of its other streams.
        asked.pop("beside", None)
        found.append({**asked, "share": share, "priority": stream.priority})
    return found


def checked_workload_line(checked: CheckedWorkload) -> str:
    """Return a line on a valid file."""
    found = checked.found
    what = ""
    if isinstance(found, Workload):
        what = f"{count(len(found.streams), 'stream')}, {_end(found)}"
    elif isinstance(found, Deployment):
        what = ", ".join(served.model for served in found.models)
    return f"{checked.file}: valid {checked.sort} ({what})"


def _end(workload: Workload) -> str:
    ends = []
    if workload.duration_s is not None:
        ends.append(f"after {format_seconds(workload.duration_s)}")
    if workload.requests is not None:
        ends.append(f"after {count(workload.requests, 'request')}")
    return ", ".join(ends) or "with its traces"
