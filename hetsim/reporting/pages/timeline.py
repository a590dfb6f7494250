"""Plans over time: timeline, utilization of devices and links, memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hetsim.core.text import Record, cut, plain
from hetsim.core.units import format_bytes, format_seconds
from hetsim.reporting.pages.figures import STACKED_MOST, Area, colour, label, stacked
from hetsim.reporting.pages.page import Section, Table, packed, table, told, unpacked
from hetsim.reporting.words.text import listed, percent

NOTE_MOST = 2000
"""Characters of what stands under a timeline."""

LABEL_MOST = 200
"""Characters of what a task is called that a page holds."""

TASKS_MOST = 60_000
"""Tasks of one timeline that a page holds: those of the first requests, whole."""

STEPS_MOST = 2000
"""Steps of one device's memory that are drawn; of more the highest of each of as many spans."""

BINS = 160
"""Spans of time of which utilization is told."""

IDLE_DRAWN = 3
"""Up to so many rows on which nothing happens are shown."""

TASKS_TOLD = 100
"""Tasks of a timeline that its table has."""

NEAR = 3
"""A device's capacity is drawn up to so many times what it holds."""


@dataclass(frozen=True, slots=True)
class Track:
    """A row of a timeline: a stream of a device, or a link; ``device`` is -1 of a link."""

    name: str
    device: int = -1


@dataclass(frozen=True, slots=True)
class Task:
    """A task on one or several tracks.

    ``request`` is -1 where it is none's; ``way`` what it moved from where to where, if anything.
    """

    tracks: tuple[Track, ...]
    start_ns: int
    duration_ns: int
    request: int
    label: str
    way: str = ""
    critical: bool = False


def whole_requests(requests: Sequence[int], most: int) -> tuple[list[int], str]:
    """Return the indices of the tasks that a page shows, and a note on the others.

    Those of the first requests, whole, as far as they are at most `most` tasks.
    """
    if len(requests) <= most:
        return list(range(len(requests))), ""
    last, kept = 0, 0
    counts = Counter(requests)
    for request in sorted(counts):
        kept += counts[request]
        if kept > most:
            break
        last = request
    indices = [index for index, request in enumerate(requests) if request <= last]
    return indices, (
        f"{len(indices)} of {len(requests)} tasks are shown, those of the first {last + 1} "
        "requests; the page has no room for more."
    )


def way_of(source: str, target: str, nbytes: int, lost: bool) -> str:
    """Return the transfer of a task, and whether a failure ended it."""
    ends = f"from {source or 'caller'} to {target or 'caller'}"
    moved = f"{format_bytes(nbytes)} {ends}" if source or nbytes else ""
    return ", ".join(filter(None, (moved, "lost by a failure" if lost else "")))


def timeline_picture(
    name: str,
    tracks: Sequence[Track],
    tasks: Sequence[Task],
    *,
    note: str = "",
    of: str = "plan",
) -> Record:
    """Return the timeline: rows, and tasks as packed columns.

    ``tasks`` has an entry a task and track that it holds: ``track``, ``start_ns``, ``duration_ns``,
    ``request``, ``text`` (into ``texts``: what it is, and where), ``critical``. Of many `tracks`
    those on which nothing happens are named in the note.
    """
    used = {track for task in tasks for track in task.tracks}
    idle = [track.name for track in tracks if track not in used]
    rows = [track for track in tracks if track in used] if len(idle) > IDLE_DRAWN else tracks
    place_of = {track: place for place, track in enumerate(rows)}
    several = Counter(track.device for track in rows)
    names = ("track", "start_ns", "duration_ns", "request", "text", "critical")
    columns: dict[str, list[int]] = {column: [] for column in names}
    texts: dict[tuple[str, str], int] = {}
    for task in tasks:
        on = " + ".join(track.name for track in task.tracks)
        text = (told(task.label), told(", ".join(filter(None, (f" on {on}", task.way)))))
        values = (task.start_ns, task.duration_ns, task.request,
                  texts.setdefault(text, len(texts)), int(task.critical))  # fmt: skip
        for track in task.tracks:
            for column, value in zip(names, (place_of[track], *values), strict=True):
                columns[column].append(value)
    end_ns = max((task.start_ns + task.duration_ns for task in tasks), default=1)
    if len(idle) > IDLE_DRAWN:
        note = f"Always idle: {', '.join(idle)}. {note}"
    return {
        "name": told(name),
        "of": of,
        "note": cut(plain(note), NOTE_MOST),
        "alt": told(f"Timeline of {name}: {len(tasks)} tasks on {len(rows)} rows"),
        "end_s": max(end_ns, 1) / 1e9,
        "tracks": [
            {
                "name": told(track.name),
                "label": label(_short(track, several), 40),
                "colour": colour(track.device),
            }
            for track in rows
        ],
        "texts": [list(text) for text in texts],
        "tasks": packed(columns, ("start_ns", "request")),
    }


def _short(track: Track, several: Mapping[int, int]) -> str:
    """The name of a row, without the stream where it is its device's only one."""
    one = track.device >= 0 and several[track.device] == 1
    return track.name.removesuffix("/0") if one else track.name


def timeline_section(pictures: Mapping[str, Any], caption: str, *tables: Table) -> list[Section]:
    """Return the timelines with a table of the first tasks."""
    drawn = pictures.get("timeline")
    made = [*tables, *([_tasks_table(drawn[0])] if drawn else [])]
    title = "Requests" if drawn and drawn[0]["of"] == "requests" else "Timeline"
    return [Section("timeline", title, caption, tuple(made), order=30)] if made else []


def _tasks_table(picture: Record) -> Table:
    columns = unpacked(picture["tasks"])
    count = len(columns["start_ns"])
    order = sorted(range(count), key=lambda k: (columns["start_ns"][k], columns["track"][k]))
    rows = [
        (
            format_seconds(columns["start_ns"][k] / 1e9),
            picture["tracks"][columns["track"][k]]["name"],
            "".join(picture["texts"][columns["text"][k]]),
            format_seconds(columns["duration_ns"][k] / 1e9),
            "" if columns["request"][k] < 0 else str(columns["request"][k] + 1),
            "yes" if columns["critical"][k] else "",
        )
        for k in order[:TASKS_TOLD]
    ]
    more = f", the first {TASKS_TOLD} of {count}" if count > TASKS_TOLD else ""
    heads = ("#start", "row", "task", "#takes", "#request", "critical path")
    return table(f"Tasks of {picture['name']}{more}", heads, rows)


def utilization_figure(
    name: str, tracks: Sequence[Track], tasks: Iterable[Task], streams: Mapping[int, int]
) -> Record:
    """Return the utilization of devices and links over time, of the busiest rows.

    Of a device it is the share of its streams that compute; `streams` has how many it has, by its
    index, where they are more than its tracks.
    """
    spans: dict[str, list[tuple[int, int]]] = {}
    count: Counter[str] = Counter()
    device_of: dict[str, int] = {}
    for track in tracks:
        key = track.name.rpartition("/")[0] if track.device >= 0 else track.name
        count[key] += 1
        device_of[key] = track.device
        spans.setdefault(key, [])
    end_ns = 1
    for task in tasks:
        end_ns = max(end_ns, task.start_ns + task.duration_ns)
        for track in task.tracks if task.request >= 0 else ():
            key = track.name.rpartition("/")[0] if track.device >= 0 else track.name
            spans[key].append((task.start_ns, task.start_ns + task.duration_ns))
    edges = np.linspace(0, end_ns, BINS + 1)
    shares = {}
    for key, own in spans.items():
        width = max(count[key], streams.get(device_of[key], 1)) if device_of[key] >= 0 else 1
        shares[key] = np.minimum(_covered(own, edges) / (edges[1] * width), 1.0)
    busy = sorted((key for key in shares if shares[key].any()), key=lambda key: -shares[key].mean())
    shown = [key for key in spans if key in busy[:STACKED_MOST]]
    idle = [key for key in spans if key not in busy]
    note = f"Always idle: {', '.join(idle)}." if idle else ""
    if len(busy) > len(shown):
        note += f" The {len(shown)} busiest of {len(busy)} rows are shown."
    rows = [
        Area(
            key,
            f"{told(key)[:24]}  {percent(float(shares[key].mean()))}",
            (edges / 1e9).tolist(),
            shares[key].tolist(),
            device_of[key],
            1.02,
            {"tickvals": [0, 1], "ticktext": ["0", "100 %"]},
            [percent(one) for one in shares[key].tolist()],
        )
        for key in shown
    ]
    alt = f"Share of the time by device and link, of {name}: "
    alt += ", ".join(f"{key} {percent(float(shares[key].mean()))}" for key in shown)
    return stacked(rows, name=name, alt=alt, note=note.strip())


def _covered(spans: Sequence[tuple[int, int]], edges: np.ndarray[Any, Any]) -> Any:
    """Covered time of each bin, overlapping spans added. O(n log n + bins)."""
    if not spans:
        return np.zeros(len(edges) - 1)
    found = np.zeros(len(edges))
    for ends, sign in zip(np.array(spans, dtype=float).T, (1, -1), strict=True):
        at = np.sort(ends)
        before = np.concatenate(([0.0], np.cumsum(at)))
        number = np.searchsorted(at, edges, side="right")
        # Up to each edge: the time since each of the ends that are before it.
        found += sign * (number * edges - before[number])
    return np.diff(found)


@dataclass(frozen=True, slots=True)
class Held:
    """Memory use of a device: bytes from each time to the next; capacity None: unknown."""

    device: str
    times_s: Sequence[float]
    nbytes: Sequence[int]
    weight_bytes: int
    capacity_bytes: int | None = None


def memory_figure(name: str, held: Sequence[Held]) -> list[Record]:
    """Return memory use over time; no figure where none was used."""
    peaks = {one.device: max(one.nbytes, default=0) for one in held}
    places = {one.device: place for place, one in enumerate(held)}
    end_s = max((one.times_s[-1] for one in held if len(one.times_s)), default=0.0)
    kept = sorted((one for one in held if peaks[one.device]), key=lambda one: -peaks[one.device])
    shown = sorted(kept[:STACKED_MOST], key=lambda one: places[one.device])
    if not shown:
        return []
    idle = [one.device for one in held if not peaks[one.device]]
    note = f"Always empty: {', '.join(idle)}." if idle else ""
    if any(len(one.times_s) > STEPS_MOST for one in shown):
        note += f" The peaks of {STEPS_MOST} spans are shown."
    if len(kept) > len(shown):
        note += f" The {len(shown)} fullest of {len(kept)} are shown."
    rows = [_held_area(one, places[one.device], end_s) for one in shown]
    alt = f"Memory of {name}, at most: "
    alt += ", ".join(f"{one.device} {format_bytes(peaks[one.device])}" for one in shown)
    return [stacked(rows, name=name, alt=alt, note=note.strip())]


def _held_area(one: Held, place: int, end_s: float) -> Area:
    times, nbytes = np.array(one.times_s), np.array(one.nbytes)
    if len(times) > STEPS_MOST:
        starts = np.linspace(0, len(times), STEPS_MOST, endpoint=False).astype(np.int64)
        times, nbytes = times[starts], np.maximum.reduceat(nbytes, starts)
    peak, capacity = int(nbytes.max()), one.capacity_bytes
    near = capacity is not None and capacity <= NEAR * peak
    exponent = min(max(peak.bit_length() - 1, 0) // 10, 3)
    step, unit = 2 ** (10 * exponent), ("B", "KiB", "MiB", "GiB")[exponent]
    has = "" if capacity is None else f" of {format_bytes(capacity)}"
    said = f"{told(one.device)[:24]}  at most {format_bytes(peak)}{has}, weights "
    return Area(
        one.device,
        f"{said}{format_bytes(one.weight_bytes)}",
        [round(float(at), 9) for at in (*times, end_s)],
        (nbytes / step).tolist(),
        place,
        (max(capacity, peak) if near and capacity is not None else peak) / step * 1.08,
        {"nticks": 4, "ticksuffix": f" {unit}"},
        [format_bytes(int(each)) for each in nbytes],
        line=capacity / step if near and capacity is not None else None,
        base=one.weight_bytes / step,
    )


def subgraph_label(name: str, ops: Mapping[str, int], nodes: int, first: str, last: str) -> str:
    """Return the label of a subgraph: its ops, first and last node."""
    between = first if nodes == 1 else f"{first} to {last}"
    return cut(f"{name}: {listed(ops, limit=3)} ({between})", LABEL_MOST)
