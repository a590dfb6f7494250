"""Profiles of ONNX Runtime: the events that ``SessionOptions.enable_profiling`` leaves.

A list of events of Chrome's trace format, times in microseconds. Those of category ``Node``
whose name ends in ``_kernel_time`` are kernels; ``model_run`` of category ``Session`` spans a
run. What a kernel runs inside it, as the nodes of a Loop's body, is a part of its own time.

Source: ``docs/performance/tune-performance/profiling-tools`` of onnxruntime.ai.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from hetsim.cost.profiles.checked import Reader, of_runs
from hetsim.cost.profiles.record import Profile

NAME = "ONNX Runtime profile"
_KERNEL = "_kernel_time"
_US = 1e-6
_DIGITS = 10
_Key = tuple[str, str, str, int | None]


@dataclass(frozen=True, slots=True)
class _Event:
    """One kernel in one run; times in microseconds."""

    begin: float
    end: float
    thread: str
    key: _Key
    elements: int | None


def recognised(content: Any) -> bool:
    """Whether it is a list of events, some of a session or its nodes."""
    return isinstance(content, list) and any(
        isinstance(event, dict) and event.get("cat") in ("Node", "Session") and "ph" in event
        for event in content
    )


def read(content: Any, reader: Reader, sha256: str) -> Profile:
    """Return the profile; raises InvalidInput where it has no kernels. O(events log events)."""
    runs: list[tuple[float, float]] = []
    events: list[_Event] = []
    for row in reader.rows(content, "the list of events"):
        name = row.get("name")
        if not isinstance(name, str):
            continue
        if row.get("cat") == "Session" and name == "model_run":
            runs.append(_span(row, reader, name))
        elif row.get("cat") == "Node" and name.endswith(_KERNEL):
            events.append(_event(row, reader))
    runs.sort()
    events = _outermost(events)
    if not events:
        reader.refuse("it holds no '..._kernel_time' event", "run the session before it ends")
    by_run = _by_run(events, runs)
    counted = by_run[1:] if len(by_run) > 1 else by_run
    kernels = _kernels(counted)
    spans = runs[1:] if len(runs) > 1 else runs
    totals_s = tuple(sum(e.end - e.begin for e in run) * _US for run in counted)
    between_s = None
    if runs and len(runs) == len(by_run):
        gaps = [(end - begin) * _US - s for (begin, end), s in zip(spans, totals_s, strict=True)]
        between_s = max(0.0, median(gaps))
    return Profile(
        format=NAME,
        source=reader.where,
        sha256=sha256,
        kernels=kernels,
        runs=len(counted),
        rule=(
            "the first run warms up and is left out"
            if len(by_run) > 1
            else "one run, which warms up: run more to leave it out"
        ),
        totals_s=totals_s,
        between_s=between_s,
    )


def _kernels(runs: Sequence[Sequence[_Event]]) -> tuple[Any, ...]:
    """The kernels in the order of the first run that counts, then of those that follow."""
    times: dict[_Key, list[float]] = {}
    elements: dict[_Key, int | None] = {}
    for index, run in enumerate(runs):
        for event in run:
            taken = times.setdefault(event.key, [0.0] * len(runs))
            # Several kernels of one node in a run, as in a loop around it, add up.
            taken[index] += (event.end - event.begin) * _US
            elements.setdefault(event.key, event.elements)
    return tuple(
        of_runs(key[0], taken, op=key[1], unit=key[2], index=key[3], elements=elements[key])
        for key, taken in times.items()
    )


def _by_run(events: Sequence[_Event], runs: Sequence[tuple[float, float]]) -> list[list[_Event]]:
    """The events by the run in which they begin; without runs, by how often each came before."""
    found: dict[int, list[_Event]] = {}
    begins = [begin for begin, _ in runs]
    seen: dict[_Key, int] = {}
    for event in events:
        if runs:
            run = bisect_right(begins, event.begin) - 1
            if run < 0 or event.begin > runs[run][1]:
                # Of a run whose end the file does not have.
                continue
        else:
            run = seen.get(event.key, 0)
            seen[event.key] = run + 1
        found.setdefault(run, []).append(event)
    return [found[run] for run in sorted(found)] or [list(events)]


def _outermost(events: Sequence[_Event]) -> list[_Event]:
    """The events that lie in no other of their thread, by their begin."""
    kept: list[_Event] = []
    ends: dict[str, float] = {}
    for event in sorted(events, key=lambda e: (e.begin, -e.end)):
        # Clocks of whole microseconds let neighbours touch; what lies inside ends no later.
        if event.end <= ends.get(event.thread, -1.0) and event.begin < ends[event.thread]:
            continue
        ends[event.thread] = event.end
        kept.append(event)
    return kept


def _event(row: dict[str, Any], reader: Reader) -> _Event:
    name = reader.text(row["name"], "the name of an event").removesuffix(_KERNEL)
    begin, end = _span(row, reader, name or "a kernel")
    args = row.get("args")
    args = args if isinstance(args, dict) else {}
    number = args.get("node_index", args.get("graph_index"))
    text = number if isinstance(number, str) and len(number) < _DIGITS else ""
    index = int(text) if text.isdecimal() else None
    op, unit = args.get("op_name", ""), args.get("provider", "")
    key = (
        name,
        op if isinstance(op, str) else "",
        unit if isinstance(unit, str) else "",
        index,
    )
    thread = f"{row.get('pid')} {row.get('tid')}"
    return _Event(begin, end, thread, key, _elements(args.get("output_type_shape")))


def _span(row: dict[str, Any], reader: Reader, name: str) -> tuple[float, float]:
    begin = _microseconds(row.get("ts"), reader, f"the time stamp of '{name}'")
    return begin, begin + _microseconds(row.get("dur"), reader, f"the time of '{name}'")


def _microseconds(value: Any, reader: Reader, what: str) -> float:
    """A time as it stands: of whole microseconds, ends that meet are the same number."""
    reader.seconds(value, _US, what)
    return reader.number(value, what)


def _elements(shapes: Any) -> int | None:
    """Elements of the first output: ``[{"float": [1, 8]}]``."""
    if not isinstance(shapes, list) or not shapes or not isinstance(shapes[0], dict):
        return None
    dims = next(iter(shapes[0].values()), None)
    if not isinstance(dims, list) or not all(type(dim) is int and dim >= 0 for dim in dims):
        return None
    count = 1
    for dim in dims[:16]:
        count = min(count * min(dim, 2**62), 2**62)
    return count
