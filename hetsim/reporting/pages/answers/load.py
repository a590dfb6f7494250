"""Requests under load for a page: what the recursion in ``assets/answers`` plays again."""

from __future__ import annotations

import base64
import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hetsim.base.text import Record
from hetsim.reporting.pages.answers.structure import structure_data
from hetsim.service.layout import Setup
from hetsim.service.running import blocks_of
from hetsim.simulation.recursion.playing import Recursion
from hetsim.simulation.serving.flattening import loads, seconds_alone
from hetsim.simulation.serving.without_heap import why_heap
from hetsim.workloads.arrivals.burst import Burst
from hetsim.workloads.arrivals.closed import Closed
from hetsim.workloads.arrivals.constant import Constant
from hetsim.workloads.arrivals.gamma import Gamma
from hetsim.workloads.arrivals.mmpp import Mmpp
from hetsim.workloads.arrivals.poisson import Poisson
from hetsim.workloads.arrivals.replay import Replay
from hetsim.workloads.numbers import Numbers
from hetsim.workloads.registry import Open
from hetsim.workloads.workload import Stream, Workload

LONG_S = 1e300
"""Without end, as a number."""

MOST = 1 << 14
"""Requests that a page holds, and plays again whenever a slider moves."""


def why_not(workload: Workload, setup: Setup) -> str | None:
    """Return why a page cannot play these requests again; None where it tries.

    It plays what one heap of events does, of arrivals whose times are those of rate 1 over the
    rate.
    """
    if workload.failures is not None:
        return "devices fail"
    if setup.turns is not None:
        return "models take turns in memory"
    if setup.scalings is not None:
        return "replicas come and go"
    for arrivals in _processes(workload):
        if not isinstance(arrivals, Constant | Poisson | Gamma | Burst | Replay | Closed):
            return f"arrivals of {arrivals.kind} change with time"
    if setup.clients:
        return "clients wait for answers"
    for model in setup.models:
        if len(model.ranks) > 1:
            return "some requests go before others"
        if model.timeout_s < math.inf and model.timeout_action == "delay":
            return "what waited too long goes last"
    return None


def load_data(workload: Workload, setup: Setup) -> Record | None:
    """Return what the page plays again; None where `workload` has more requests than it holds.

    For what ``why_not`` has nothing against. Complexity: linear in the requests.
    """
    came = _requests(workload, setup)
    if came is None:
        return None
    arrival_s, stream, variant = came
    sources, source_of = _sources(workload, stream, variant)
    if not np.array_equal(_again(sources), arrival_s):
        # Whatever a page could not play to the last bit is left to the command.
        return None
    of_all = (setup.layout, setup.duration, setup.models, setup.sources)
    recursion = Recursion(setup.layout, setup.duration, machine_code=False)
    tasks = recursion.tasks
    routed = any(model.routing == "least_finish" for model in setup.models)
    nothing = np.zeros(len(tasks.first) - 1)
    return {
        "requests": workload.requests,
        "duration_s": workload.duration_s,
        "warm_up_s": workload.warm_up_s,
        "comes": "drawn" if workload.drawn else "trace" if workload.traces else "even",
        "sources": [
            {
                "rate": one["rate"],
                "size": one["size"],
                "unit": _packed(one["unit"]),
                "stream": _column(one["stream"]),
                "variant": _column(one["variant"]),
                "trace_from_s": one["trace_from_s"],
                "trace_s": one["trace_s"],
                "trace_per_s": one["trace_per_s"],
            }
            for one in sources
        ],
        "streams": [
            {
                "name": one.name,
                "model": setup.sources[at].model,
                "source": source_of[at],
                "share": workload.arrivals_of(one)[1],
                "slos": slos_data(one),
            }
            for at, one in enumerate(workload.streams)
        ],
        "models": [
            {
                "name": name,
                "instances": len(model.limits),
                "limits": list(model.limits),
                "table": model.template.reshape(-1).tolist(),
                "largest": model.template.shape[2],
                "preferred": list(model.preferred or (model.template.shape[2],)),
                "delay_s": model.delay_s,
                "routing": model.routing,
                "cycle": list(model.cycle or range(len(model.limits))),
                "gated": bool(model.gated),
                "room": -1 if model.max_queue_size is None else model.max_queue_size,
                "timeout_s": model.timeout_s if math.isfinite(model.timeout_s) else LONG_S,
            }
            for name, model in zip(_names(workload, setup), setup.models, strict=True)
        ],
        "recursion": why_heap(*of_all) is None,
        "structure": structure_data(setup.layout),
        "tasks": {
            "seconds": setup.duration.tolist(),
            **{
                name: list(getattr(tasks, name))
                for name in (
                    "first", "duration", "kind", "slot", "waits_at", "waits", "held_at", "held",
                    "previous", "strict", "stream_at", "watched",
                )
            },
            "instant": int(tasks.instant),
            "doubt": recursion.doubt is not None,
            "shortest_s": float(min(tasks.duration, default=LONG_S)),
            "alone": (seconds_alone(setup.layout, setup.duration) if routed else nothing).tolist(),
            "load": (loads(setup.layout, setup.duration) if routed else nothing).tolist(),
        },
        "spent": _spent(setup),
        "devices": [
            {"name": name, "streams": width}
            for name, width in zip(
                setup.plan_tasks.plan.problem.devices,
                setup.plan_tasks.plan.problem.streams,
                strict=True,
            )
        ],
        "links": list(setup.plan_tasks.links),
    }  # fmt: skip


def slos_data(stream: Stream) -> list[Record]:
    """Return what is asked of a stream's latencies."""
    return [
        {"share": slo.share, "percentile": slo.percentile, "latency_s": slo.latency_s}
        for slo in stream.slos
    ]


def _processes(workload: Workload) -> list[Open | Closed]:
    each = [workload.arrivals, *(stream.arrivals for stream in workload.streams)]
    return [one for one in each if one is not None]


def _requests(
    workload: Workload, setup: Setup
) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.int64]] | None:
    """What comes, in order; None where that is more than a page holds."""
    arrival_s, stream, variant = [], [], []
    count = 0
    for block in blocks_of(workload, setup):
        count += len(block)
        if count > MOST:
            return None
        arrival_s.append(block.arrival_s)
        stream.append(block.stream)
        variant.append(block.variant)
    if not count:
        return None
    return np.concatenate(arrival_s), np.concatenate(stream), np.concatenate(variant)


def _sources(
    workload: Workload, stream: NDArray[np.int64], variant: NDArray[np.int64]
) -> tuple[list[dict[str, Any]], list[int]]:
    """The arrival processes, each with its requests at rate 1, and which each stream is of."""
    found: list[dict[str, Any]] = []
    source_of = [-1] * len(workload.streams)
    shared = [at for at, one in enumerate(workload.streams) if one.share is not None]
    each: list[tuple[Sequence[int], Open, Numbers]] = [
        ([at], one.arrivals, one.numbers(workload.seed))
        for at, one in enumerate(workload.streams)
        if one.arrivals is not None and not isinstance(one.arrivals, Closed)
    ]
    if workload.arrivals is not None:
        each.append((shared, workload.arrivals, Numbers(workload.seed, "")))
    for streams, arrivals, numbers in each:
        mine = np.flatnonzero(np.isin(stream, streams))
        trace = arrivals.trace() if isinstance(arrivals, Replay) else None
        rate, size, unit = _of_unit_rate(arrivals, numbers, len(mine))
        for at in streams:
            source_of[at] = len(found)
        found.append(
            {
                "rate": rate,
                "size": size,
                "unit": unit,
                "stream": stream[mine],
                "variant": variant[mine],
                "trace_from_s": None if trace is None else float(trace.arrival_s[0]),
                "trace_s": None if trace is None else float(trace.arrival_s[-1]),
                "trace_per_s": None if trace is None else trace.rate_per_s,
            }
        )
    return found, source_of


def _of_unit_rate(
    arrivals: Open, numbers: Numbers, count: int
) -> tuple[float, int, NDArray[np.float64]]:
    """The rate, the size of bursts, and times of so many requests which that is divided into."""
    size = arrivals.size if isinstance(arrivals, Burst) else 1
    alone: Open
    if isinstance(arrivals, Replay):
        rate, alone = arrivals.speed_up, replace(arrivals, speed_up=1.0)
    else:
        assert not isinstance(arrivals, Mmpp)
        rate, alone = arrivals.rate_per_s, replace(arrivals, rate_per_s=float(size))
    blocks: list[NDArray[np.float64]] = []
    for block in alone.blocks(numbers):
        blocks.append(block)
        if sum(map(len, blocks)) >= count:
            break
    return rate, size, np.concatenate([np.zeros(0), *blocks])[:count]


def _again(sources: Sequence[dict[str, Any]]) -> NDArray[np.float64]:
    """The times of arrival as the page makes them."""
    parts = [one["unit"] / (one["rate"] / one["size"]) for one in sources if len(one["unit"])]
    return np.sort(np.concatenate([np.zeros(0), *parts]), kind="stable")


def _names(workload: Workload, setup: Setup) -> list[str]:
    """The models, in order."""
    found = [""] * len(setup.models)
    for stream, source in zip(workload.streams, setup.sources, strict=True):
        found[source.model] = stream.model
    return found


def _spent(setup: Setup) -> Record:
    """Busy seconds that a request of each template asks of devices and links, as they add up."""
    devices, links = [], []
    count = len(setup.plan_tasks.plan.problem.devices)
    for template in setup.plan_tasks.templates:
        spent, carried = [0.0] * count, [0.0] * len(setup.plan_tasks.links)
        for device, seconds in zip(template.group_device, template.duration.tolist(), strict=False):
            spent[device] += seconds
        for link, seconds in chain.from_iterable(
            ((link, move.seconds) for link in move.resources) for move in template.transfers
        ):
            carried[link] += seconds
        devices.append(spent)
        links.append(carried)
    return {"devices": devices, "links": links}


def _column(values: NDArray[np.int64]) -> int | str:
    """One number where all are it, else a packed column."""
    if len(values) and (values == values[0]).all():
        return int(values[0])
    return base64.b64encode(values.astype("<i4").tobytes()).decode("ascii")


def _packed(values: NDArray[np.float64]) -> str:
    return base64.b64encode(values.astype("<f8").tobytes()).decode("ascii")
