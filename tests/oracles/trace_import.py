"""What a viewer of Chrome traces makes of one: rows, arrows and counters, and every complaint.

Told by the format's public document ("Trace Event Format") and by what Perfetto's importer counts
as errors: an event without a phase that it knows, times that are no numbers or go backwards,
slices of a thread that overlap without one being within the other, arrows without a slice to start
or end at, counters without a number, and numbers of threads that stand for two.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Entry = Mapping[str, Any]

METADATA = ("process_name", "thread_name", "process_sort_index", "thread_sort_index")


@dataclass(slots=True)
class Span:
    """One slice of a row."""

    name: str
    start_ns: int
    end_ns: int
    args: Entry


@dataclass(slots=True)
class Imported:
    """What is drawn.

    Attributes
    ----------
    complaints : list of str
        What an importer would count as an error, or a reader would not see.
    processes, threads : dict
        Names by number; threads by process and number.
    rows : dict
        Slices by process and thread, in the order in which they open.
    arrows : list of (Span, Span, str)
        From which slice to which, and what it is called.
    counters : dict
        Times and values by process and name.
    """

    complaints: list[str] = field(default_factory=list)
    processes: dict[int, str] = field(default_factory=dict)
    threads: dict[tuple[int, int], str] = field(default_factory=dict)
    rows: dict[tuple[int, int], list[Span]] = field(default_factory=lambda: defaultdict(list))
    arrows: list[tuple[Span, Span, str]] = field(default_factory=list)
    counters: dict[tuple[int, str], list[tuple[int, float]]] = field(
        default_factory=lambda: defaultdict(list)
    )

    def of(self, process: str) -> list[Span]:
        """Return the slices of all rows of the process of this name."""
        return [
            span
            for (pid, _), spans in self.rows.items()
            if self.processes[pid] == process
            for span in spans
        ]


def imported(text: str) -> Imported:
    """Read a trace from JSON text."""
    found = Imported()

    def complain(what: str, entry: Entry) -> None:
        found.complaints.append(f"{what}: {json.dumps(entry)[:200]}")

    record = json.loads(text, parse_constant=lambda name: math.nan)
    if not isinstance(record, dict) or not isinstance(record.get("traceEvents"), list):
        found.complaints.append("no object with traceEvents")
        return found
    if record.get("displayTimeUnit", "ms") not in ("ms", "ns"):
        found.complaints.append("displayTimeUnit is neither ms nor ns")
    open_: dict[tuple[int, int], list[Span]] = defaultdict(list)
    tails: dict[tuple[str, str, object], Span] = {}
    ended: set[tuple[str, str, object]] = set()
    last_ns = -(10**30)
    for entry in record["traceEvents"]:
        phase = entry.get("ph")
        if phase not in ("X", "s", "f", "C", "i", "M"):
            complain("a phase that is not known here", entry)
            continue
        if not isinstance(entry.get("pid"), int) or not isinstance(entry.get("name"), str):
            complain("no number of a process, or no name", entry)
            continue
        pid = entry["pid"]
        if phase == "M":
            _take_name(found, entry, complain)
            continue
        at_ns = _nanoseconds(entry.get("ts"))
        if at_ns is None:
            complain("no time", entry)
            continue
        if at_ns < last_ns:
            complain("earlier than what stands before it", entry)
        last_ns = max(last_ns, at_ns)
        if phase == "C":
            args = entry.get("args")
            if not isinstance(args, dict) or not args:
                complain("a counter without values", entry)
                continue
            for key, value in args.items():
                if isinstance(value, bool) or not isinstance(value, (int, float)):
                    complain("a counter that is no number", entry)
                elif not math.isfinite(value):
                    complain("a counter that is not finite", entry)
                else:
                    found.counters[pid, f"{entry['name']} {key}"].append((at_ns, float(value)))
            continue
        if not isinstance(entry.get("tid"), int):
            complain("no number of a thread", entry)
            continue
        row = (pid, entry["tid"])
        if row not in found.threads:
            complain("on a thread without a name", entry)
        stack = open_[row]
        if phase == "X":
            length_ns = _nanoseconds(entry.get("dur"))
            if length_ns is None or length_ns < 0:
                complain("no duration, or one below 0", entry)
                continue
            span = Span(entry["name"], at_ns, at_ns + length_ns, entry.get("args", {}))
            # What has ended is closed; one without duration, by the next slice that opens.
            while stack and stack[-1].end_ns <= at_ns:
                stack.pop()
            if stack and stack[-1].end_ns < span.end_ns:
                complain(f"reaches beyond '{stack[-1].name}', in which it begins", entry)
                continue
            stack.append(span)
            found.rows[row].append(span)
        elif phase == "i":
            if entry.get("s", "t") not in ("t", "p", "g"):
                complain("an instant of no scope", entry)
        else:
            key = (str(entry.get("cat")), entry["name"], entry.get("id"))
            if not isinstance(entry.get("id"), (int, str)):
                complain("an arrow without a number", entry)
            elif not stack or not stack[-1].start_ns <= at_ns <= stack[-1].end_ns:
                complain("an arrow's end outside any slice", entry)
            elif phase == "s":
                if key in tails:
                    complain("an arrow that begins twice", entry)
                tails[key] = stack[-1]
            elif entry.get("bp") != "e":
                complain("an arrow that ends at whatever comes next", entry)
            elif key not in tails or key in ended:
                complain("an arrow that ends and never began, or twice", entry)
            else:
                ended.add(key)
                found.arrows.append((tails[key], stack[-1], entry["name"]))
    found.complaints += [f"an arrow that never ends: {key}" for key in tails if key not in ended]
    return found


def _nanoseconds(value: object) -> int | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        return None
    return int(value * 1000)


def _take_name(found: Imported, entry: Entry, complain: Any) -> None:
    pid, args = entry["pid"], entry.get("args")
    if entry["name"] not in METADATA or not isinstance(args, dict):
        complain("metadata that is not known here", entry)
        return
    if entry["name"].endswith("_sort_index"):
        if not isinstance(args.get("sort_index"), int):
            complain("an order that is no number", entry)
        return
    name = args.get("name")
    if not isinstance(name, str) or not name:
        complain("an empty name", entry)
    elif entry["name"] == "process_name":
        if pid in found.processes or name in found.processes.values():
            complain("a process named twice", entry)
        found.processes[pid] = name
    else:
        tid = entry.get("tid")
        if not isinstance(tid, int):
            complain("a thread without a number", entry)
            return
        if any(number in (tid, pid) for _, number in found.threads) or tid in found.processes:
            complain("a thread whose number is taken", entry)
        if pid not in found.processes:
            complain("a thread of a process without a name", entry)
        found.threads[pid, tid] = name
