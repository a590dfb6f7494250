"""Requests under load as Chrome trace events, the JSON that Perfetto opens.

One process per stream has each request by name, with its waiting and service; one per model has the
batches of each instance, an arrow from each request to its batch, the numbers of waiting and served
requests over time, and the start and end of replicas; one more has devices that were down. A real
run has all of it twice, named by its clock: as measured, and as simulated.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from hetsim.core.text import plain
from hetsim.problem.timeline import Floats
from hetsim.reporting.trace import FIRST_THREAD, REAL, SIMULATED
from hetsim.reporting.trace_tracks import (
    Entry,
    Track,
    counted,
    metadata,
    microseconds,
    nanoseconds,
    rows,
    spanned,
)
from hetsim.simulation.service.service import KeptRequests, Service
from hetsim.simulation.serving.setup import Outcomes
from hetsim.simulation.serving.tables import EXPIRED, FULL

WHY = {FULL: "rejected: the queue was full", EXPIRED: "rejected: it waited too long"}
"""Outcome of a request without an answer."""


@dataclass(slots=True)
class _Drawing:
    """Rows and events so far; names of processes begin with `clock`."""

    clock: str = ""
    processes: list[str] = field(default_factory=list)
    threads: list[tuple[int, str]] = field(default_factory=list)
    events: list[tuple[int, Entry]] = field(default_factory=list)
    arrows: int = 0

    def process(self, name: str) -> int:
        self.processes.append(self.clock + plain(name))
        return len(self.processes)

    def thread(self, pid: int, name: str) -> Track:
        self.threads.append((pid, plain(name)))
        return pid, FIRST_THREAD + len(self.threads)

    def slice(self, track: Track, name: str, kind: str, begin_s: float, end_s: float,
              **args: object) -> None:  # fmt: skip
        at_ns = nanoseconds(begin_s)
        length_ns = max(nanoseconds(end_s) - at_ns, 0)
        self._add(at_ns, track, ph="X", name=name, cat=kind, dur=microseconds(length_ns), args=args)

    def arrow(self, ph: str, number: int, track: Track, at_s: float) -> None:
        more = {"bp": "e"} if ph == "f" else {}
        self._add(nanoseconds(at_s), track, ph=ph, name="served by", cat="batch", id=number, **more)

    def counter(self, pid: int, name: str, unit: str, start_s: Floats, end_s: Floats) -> None:
        for one in counted("", name, unit, *spanned(start_s, end_s)):
            self.events += [
                (at_ns, one.entry(pid, place)) for place, at_ns in enumerate(one.at_ns.tolist())
            ]

    def _add(self, at_ns: int, track: Track, **entry: object) -> None:
        pid, tid = track
        self.events.append((at_ns, {**entry, "pid": pid, "tid": tid, "ts": microseconds(at_ns)}))

    def entries(self) -> Iterator[Entry]:
        """Yield names, then events by time; at one time, in drawing order."""
        for pid, name in enumerate(self.processes, start=1):
            yield metadata("process_name", pid, None, name=name)
            yield metadata("process_sort_index", pid, None, sort_index=pid)
        for tid, (pid, name) in enumerate(self.threads, start=FIRST_THREAD + 1):
            yield metadata("thread_name", pid, tid, name=name)
            yield metadata("thread_sort_index", pid, tid, sort_index=tid)
        for _, entry in sorted(self.events, key=lambda event: event[0]):
            yield entry


def service_trace_json(service: Service, simulated: Service | None = None) -> str:
    """Return the requests that were kept of `service` (``serve(keep=)``) as JSON text.

    `simulated` is the simulation of a real run, which is drawn below it, in seconds of the
    workload. O(K log K) for K requests; the same in every process.
    """
    assert service.kept is not None
    drawing = _Drawing()
    both = [("", service)] if simulated is None else [(REAL, service), (SIMULATED, simulated)]
    for clock, one in both:
        assert one.kept is not None
        drawing.clock = clock
        of_request = _requests(drawing, one, one.kept.outcomes)
        _batches(drawing, one, one.kept.outcomes, of_request)
        _downs(drawing, one, one.kept)
    record = {
        "traceEvents": list(drawing.entries()),
        "displayTimeUnit": "ms",
        "otherData": {
            "clock": "virtual" if simulated is None else "wall and virtual",
            "requests": service.requests,
            "requests shown": service.kept.outcomes.requests,
            "duration_s": service.duration_s,
        },
    }
    return json.dumps(record, allow_nan=False, separators=(",", ":")) + "\n"


def _requests(drawing: _Drawing, service: Service, outcomes: Outcomes) -> dict[int, Track]:
    """Draw each request on a row of its stream; return the rows of those that were answered."""
    found: dict[int, Track] = {}
    for at, stream in enumerate(service.streams):
        mine = np.flatnonzero(outcomes.stream == at).tolist()
        pid = drawing.process(f"requests of {stream.name}")
        ends = np.where(outcomes.why == 0, outcomes.finish_s, outcomes.arrival_s).tolist()
        came, sent = outcomes.arrival_s.tolist(), outcomes.sent_s.tolist()
        own = rows([(came[k], ends[k]) for k in mine], "requests", partial(drawing.thread, pid))
        for number, (k, row) in enumerate(zip(mine, own, strict=True)):
            why = int(outcomes.why[k])
            if why:
                name = f"request {number} {WHY[why].partition(':')[0]}"
                drawing.slice(row, name, "request", came[k], came[k], request=k, why=WHY[why])
                continue
            drawing.slice(
                row, f"request {number}", "request", came[k], ends[k],
                request=k, seconds=ends[k] - came[k], batch=int(outcomes.size[k]),
                instance=int(outcomes.instance[k]),
            )  # fmt: skip
            if nanoseconds(sent[k]) > nanoseconds(came[k]):
                drawing.slice(row, "waiting", "request", came[k], sent[k])
            drawing.slice(row, "served", "request", sent[k], ends[k])
            found[k] = row
    return found


def _batches(
    drawing: _Drawing, service: Service, outcomes: Outcomes, of_request: dict[int, Track]
) -> None:
    """Draw the batches of each model, its waiting requests, and its replicas."""
    models = list(dict.fromkeys(one.model for one in service.models))
    of_stream = [models.index(stream.model) for stream in service.streams]
    model_of = np.array(of_stream, dtype=np.int64)[outcomes.stream]
    for at, model in enumerate(models):
        pid = drawing.process(f"model {model}")
        mine = np.flatnonzero((model_of == at) & (outcomes.why == 0)).tolist()
        _of_model(drawing, pid, outcomes, mine, of_request)
        for scaled in service.scaled:
            if scaled.model == model:
                lived = np.array([(one.start_s, one.gone_s) for one in scaled.lived])
                drawing.counter(pid, "replicas", "there", *lived.reshape(-1, 2).T)


def _of_model(
    drawing: _Drawing,
    pid: int,
    outcomes: Outcomes,
    mine: Sequence[int],
    of_request: dict[int, Track],
) -> None:
    batches: dict[tuple[int, float, float], list[int]] = {}
    for k in mine:
        sent_s, end_s = float(outcomes.sent_s[k]), float(outcomes.finish_s[k])
        batches.setdefault((int(outcomes.instance[k]), sent_s, end_s), []).append(k)
    came, sent, done = (of[mine] for of in (outcomes.arrival_s, outcomes.sent_s, outcomes.finish_s))
    drawing.counter(pid, "waiting", "requests", came, sent)
    drawing.counter(pid, "served", "requests", sent, done)
    for instance in sorted({key[0] for key in batches}):
        own = sorted(key for key in batches if key[0] == instance)
        spans = [(begin_s, end_s) for _, begin_s, end_s in own]
        made = rows(spans, f"instance {instance}", partial(drawing.thread, pid))
        for key, row in zip(own, made, strict=True):
            _, begin_s, end_s = key
            first_s = float(min(outcomes.begun_s[k] for k in batches[key]))
            drawing.slice(
                row, f"batch of {len(batches[key])}", "batch", begin_s, end_s,
                requests=batches[key], begun_s=first_s,
            )  # fmt: skip
            for k in batches[key]:
                drawing.arrows += 1
                drawing.arrow("s", drawing.arrows, of_request[k], begin_s)
                drawing.arrow("f", drawing.arrows, row, begin_s)


def _downs(drawing: _Drawing, service: Service, kept: KeptRequests) -> None:
    """Draw the intervals in which devices were down."""
    last_s = service.duration_s
    devices = sorted({failure.device for failure in kept.happened})
    if devices:
        pid = drawing.process("devices that were down")
    for device in devices:
        row = drawing.thread(pid, device)
        until_s = 0.0
        for failure in kept.happened:
            if failure.device == device:
                begin_s = max(failure.at_s, until_s)
                until_s = max(begin_s, min(failure.back_s, last_s))
                drawing.slice(row, failure.kind, "failure", begin_s, until_s)
