"""The trace is what a trace viewer takes: named tracks, slices that never cross, bound arrows."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import problems
from hetsim.placement.planning import plan
from hetsim.problem.groups import Group
from hetsim.problem.plan import Plan
from hetsim.problem.problem import Problem
from hetsim.problem.timeline import Event, Events, Timeline
from hetsim.reporting.trace import trace_pieces
from hetsim.simulation.clock.metrics import (
    build_events,
    critical_path,
    event_order,
    request_of,
    tasks_of,
)
from hetsim.simulation.clock.runs import play
from hetsim.simulation.clock.templates import tasks_of_plan
from hetsim.simulation.simulate import simulate
from oracles import plain_timeline
from oracles.clock_plans import arrivals, dealt_plans
from oracles.trace_import import imported
from sweeps import examples

Entry = dict[str, Any]


def cut_off(microseconds: float) -> int:
    """Nanoseconds as Perfetto's importer takes a number for them."""
    return int(microseconds * 1000)


def cut_off_text(microseconds: float) -> int:
    """Nanoseconds as it takes a text for them: what stands before and after the point."""
    whole, _, part = json.dumps(microseconds).partition(".")
    return int(whole) * 1000 + int(float(f"0.{part}") * 1000)


def nearest(microseconds: float) -> int:
    return round(microseconds * 1000)


READERS = (cut_off, cut_off_text, nearest)


def entries_of(made: Plan, timeline: Timeline) -> list[Entry]:
    text = "".join(trace_pieces(made, timeline))
    assert imported(text).complaints == []
    entries: list[Entry] = json.loads(text)["traceEvents"]
    return entries


def by_phase(entries: list[Entry], phase: str) -> list[Entry]:
    return [entry for entry in entries if entry["ph"] == phase]


def names_of(entries: list[Entry], kind: str) -> dict[tuple[int, int], str]:
    return {
        (entry["pid"], entry.get("tid", 0)): entry["args"]["name"]
        for entry in by_phase(entries, "M")
        if entry["name"] == kind
    }


def check(entries: list[Entry]) -> None:
    """Raise AssertionError where a viewer would misdraw the trace."""
    slices, starts, ends = (by_phase(entries, phase) for phase in "Xsf")
    threads, processes = names_of(entries, "thread_name"), names_of(entries, "process_name")
    assert len(set(processes.values())) == len(processes)
    tracks = defaultdict(list)
    for entry in slices:
        track = (entry["pid"], entry["tid"])
        assert track in threads, "a slice on a track without a name"
        assert (entry["pid"], 0) in processes, "a slice in a process without a name"
        assert entry["dur"] >= 0
        tracks[track].append((entry["ts"], entry["dur"]))
    for read in READERS:
        for spans in tracks.values():
            told = sorted((read(ts), read(ts) + read(dur)) for ts, dur in spans)
            for (_, end), (start, _) in pairwise(told):
                assert start >= end, "two slices of one track overlap"
    for kind in ("thread_sort_index", "process_sort_index"):
        sorted_by = [entry for entry in by_phase(entries, "M") if entry["name"] == kind]
        assert len(sorted_by) == len(threads if kind.startswith("thread") else processes)
    assert Counter(e["id"] for e in starts) == Counter(e["id"] for e in ends)
    assert max(Counter(e["id"] for e in starts).values(), default=1) == 1
    heads = {entry["id"]: entry for entry in ends}
    for tail in starts:
        head = heads[tail["id"]]
        assert (tail["cat"], tail["name"]) == (head["cat"], head["name"])
        assert bound(entries, tail)["ts"] <= bound(entries, head)["ts"]
        assert head["bp"] == "e"


def bound(entries: list[Entry], arrow_end: Entry) -> Entry:
    """Return the slice that a viewer ties an arrow's end to: the last opened on its track."""
    position = next(i for i, entry in enumerate(entries) if entry is arrow_end)
    track = [
        entry
        for entry in entries[:position]
        if entry["ph"] == "X"
        and (entry["pid"], entry["tid"]) == (arrow_end["pid"], arrow_end["tid"])
    ]
    last = track[-1]
    # A slice is closed at its end: an arrow must lie before it, unless it has no duration.
    assert last["ts"] <= arrow_end["ts"]
    assert arrow_end["ts"] < last["ts"] + (last["dur"] or 1.0)
    return last


@given(problems(), st.integers(1, 3), st.sampled_from(["heft", "hetero"]))
@examples(quick=15, full=60)
def test_any_timeline_gives_a_sound_trace(problem: Problem, requests: int, strategy: str) -> None:
    made = plan(problem, strategy)
    timeline = simulate(made, requests)
    entries = entries_of(made, timeline)
    check(entries)
    timed = [entry["ts"] for entry in entries if "ts" in entry]
    assert timed == sorted(timed)
    computed = [entry for entry in by_phase(entries, "X") if entry["cat"] == "compute"]
    assert len(computed) == requests * len(made.groups)
    moved = {
        (entry["args"]["request"], entry["name"], entry["args"]["to"])
        for entry in by_phase(entries, "X")
        if entry["cat"] == "transfer"
    }
    assert len(moved) == timeline.transfers


@given(problems())
@examples(quick=15, full=60)
def test_each_transfer_is_tied_to_its_maker_and_its_readers(problem: Problem) -> None:
    made = plan(problem, "heft")
    timeline = simulate(made)
    entries = entries_of(made, timeline)
    heads = {entry["id"]: entry for entry in by_phase(entries, "f")}
    drawn = set()
    for tail in by_phase(entries, "s"):
        source, target = bound(entries, tail), bound(entries, heads[tail["id"]])
        drawn.add((source["cat"], source["name"], target["cat"], target["name"], tail["name"]))
    owner = {node: i for i, group in enumerate(made.groups) for node in group.nodes}
    wanted = set()
    for value in problem.values:
        maker = owner.get(value.producer)
        home = "d0" if maker is None else made.groups[maker].device
        readers = {owner[node] for node in value.consumers}
        away = {reader for reader in readers if made.groups[reader].device != home}
        goes_home = value.is_output and home != "d0" and problem.host is not None
        if maker is None and problem.host is None:
            continue
        if maker is not None and (away or goes_home):
            wanted.add(("compute", f"g{maker}", "transfer", value.name, value.name))
        wanted |= {("transfer", value.name, "compute", f"g{r}", value.name) for r in away}
    assert drawn == wanted


@pytest.mark.parametrize("scale", [1e-9, 1e-7, 1e-4, 1.0, 3600.0])
def test_rounding_never_makes_neighbours_overlap(scale: float) -> None:
    rng = np.random.default_rng(0)
    n = 400
    problem = Problem.from_arrays(
        rng.uniform(1e-3, 1, (n, 1)) * scale, edges=[(v, v + 1, 0) for v in range(n - 1)]
    )
    made = Plan(problem, "by hand", tuple(Group("d0", (v,)) for v in range(n)))
    timeline = simulate(made)
    entries = entries_of(made, timeline)
    check(entries)
    drawn = [entry for entry in by_phase(entries, "X") if entry["cat"] == "compute"]
    assert len(drawn) == n
    for entry, event in zip(drawn, timeline.events, strict=True):
        for read in READERS:
            start, end = read(entry["ts"]), read(entry["ts"]) + read(entry["dur"])
            assert (start, end) == (round(event.start_s * 1e9), round(event.end_s * 1e9))


@given(problems(), st.integers(1, 3))
@examples(quick=15, full=30)
def test_a_real_run_stands_above_the_simulation(problem: Problem, requests: int) -> None:
    made = plan(problem, "heft")
    virtual = simulate(made, requests)
    # Any events do for the real ones: another timeline of the same plan, and one lost call.
    real = simulate(made, requests + 1).events
    last = max((event.end_s for event in real), default=0.0)
    lost = Event("compute", "g0", 0, last, last + 1.0, ("d0/7",), "d0", group=0, lost=True)
    text = "".join(trace_pieces(made, virtual, (*real, lost), [0.0] * requests))
    assert imported(text).complaints == []
    record = json.loads(text)
    entries = record["traceEvents"]
    check(entries)
    assert record["otherData"]["clock"] == "wall and virtual"
    names = names_of(entries, "process_name")
    told: dict[str, list[str]] = defaultdict(list)
    for entry in by_phase(entries, "X"):
        clock = names[entry["pid"], 0].partition(": ")[0]
        if entry["cat"] != "request":
            told[f"{clock}:"].append(entry["name"])
    assert sorted(told["real run, wall clock:"]) == sorted([*(e.name for e in real), "g0"])
    virtually = [event.name for event in virtual.events for _ in event.tracks or ("",)]
    assert sorted(told["simulation, virtual clock:"]) == sorted(virtually)
    streams = [name for (pid, _), name in names_of(entries, "thread_name").items() if pid == 1]
    assert streams == [f"stream {stream}" for stream in range(8)]


def two_devices(contention: str, *, streams: tuple[int, int] = (1, 1)) -> Problem:
    return Problem.from_arrays(
        [[1.0, 9.0], [1.0, 9.0], [9.0, 1.0], [9.0, 1.0]],
        edges=[(0, 2, 8), (0, 3, 8), (1, 3, 8)],
        devices=("cpu", "gpu"),
        latency_s=0.5,
        bytes_per_s=8.0,
        streams=streams,
        contention=contention,  # type: ignore[arg-type]
    )


def split(problem: Problem) -> Plan:
    groups = tuple(
        Group(device, (node,)) for node, device in enumerate(("cpu", "cpu", "gpu", "gpu"))
    )
    return Plan(problem, "by hand", groups)


def test_every_stream_has_a_thread_of_its_device_even_an_idle_one() -> None:
    made = split(two_devices("fifo", streams=(3, 2)))
    entries = entries_of(made, simulate(made))
    threads = names_of(entries, "thread_name")
    processes = names_of(entries, "process_name")
    assert list(processes.values()) == ["device cpu", "device gpu", "links", "requests"]

    def of(process: int) -> list[str]:
        return [name for (pid, _), name in threads.items() if pid == process]

    assert of(1) == ["stream 0", "stream 1", "stream 2"]
    assert of(2) == ["stream 0", "stream 1"]
    assert of(3) == ["cpu>gpu"]
    assert of(4) == ["requests (1)"]


def test_transfers_at_the_same_time_on_one_route_get_lanes() -> None:
    problem = two_devices("none")
    made = split(problem)
    entries = entries_of(made, simulate(made))
    check(entries)
    moved = [entry for entry in by_phase(entries, "X") if entry["cat"] == "transfer"]
    first, second = (entry for entry in moved if entry["name"].startswith("n0:"))
    assert first["ts"] == second["ts"]
    assert first["tid"] != second["tid"]
    threads = names_of(entries, "thread_name")
    lanes = [threads[entry["pid"], entry["tid"]] for entry in (first, second)]
    assert lanes == ["cpu>gpu (1)", "cpu>gpu (2)"]


def test_times_are_microseconds_and_arguments_say_what_it_is() -> None:
    made = split(two_devices("fifo"))
    entries = entries_of(made, simulate(made))
    slices = by_phase(entries, "X")
    first = next(entry for entry in slices if entry["name"] == "g0")
    assert (first["ts"], first["dur"]) == (0.0, 1e6)
    assert first["args"]["ops"] == {"Task": 1}
    assert (first["args"]["first"], first["args"]["request"]) == ("n0", 0)
    moved = next(entry for entry in slices if entry["name"] == "n0:n2")
    assert (moved["ts"], moved["dur"]) == (1e6, 1.5e6)
    assert moved["args"] == {
        "request": 0, "group": 0, "critical": moved["args"]["critical"],
        "bytes": 8, "from": "cpu", "to": "gpu",
    }  # fmt: skip
    critical = sum(entry["dur"] for entry in slices if entry["args"].get("critical"))
    assert critical == pytest.approx(simulate(made).latency_s * 1e6)


def test_slices_without_duration_keep_their_own_arrows() -> None:
    problem = Problem.from_arrays(
        [[0.0, 9.0], [2.0, 9.0], [0.0, 0.0], [9.0, 0.0]],
        edges=[(0, 3, 0), (0, 1, 0), (1, 2, 0), (2, 3, 0)],
        devices=("cpu", "gpu"),
    )
    groups = (Group("cpu", (0,)), Group("cpu", (1,)), Group("cpu", (2,)), Group("gpu", (3,)))
    made = Plan(problem, "by hand", groups)
    entries = entries_of(made, simulate(made))
    check(entries)
    tails = {
        bound(entries, tail)["name"]: tail["name"]
        for tail in by_phase(entries, "s")
        if bound(entries, tail)["cat"] == "compute"
    }
    assert tails == {"g0": "n0:n3", "g2": "n2:n3"}


@examples(quick=15, full=250)
@given(dealt_plans(), arrivals())
def test_events_and_the_critical_path_are_the_same(plan: Plan, times: list[float]) -> None:
    laid_out = tasks_of_plan(plan, plan.problem.contention)
    recording = play(laid_out, np.array(times), traced=True)
    order, owner = event_order(recording), request_of(recording)
    task = tasks_of(laid_out, recording, owner)
    plain_owner = plain_timeline.request_of(recording)
    made = build_events(laid_out, recording, order, owner, task)
    plain = plain_timeline.build_events(laid_out, recording, order, plain_owner)
    assert made == plain
    assert tuple(made) == plain
    path = critical_path(laid_out, recording, order, owner, task)
    assert path == plain_timeline.critical_path(laid_out, recording, order, plain_owner)
    # And as the sequence that the tuple is.
    assert [made[at] for at in range(-len(plain), len(plain))] == [*plain, *plain]
    assert made[1:] == plain[1:]
    assert made[::-2] == plain[::-2]
    assert made == Events.of(plain) == Events.of(made)
    assert hash(made) == hash(plain)
    assert repr(made) == repr(plain)
    assert made != plain[1:]
    assert made != (*plain[1:], replace(plain[0], request=7))
    assert made != list(plain)
    for at in (len(plain), -len(plain) - 1):
        with pytest.raises(IndexError):
            made[at]
