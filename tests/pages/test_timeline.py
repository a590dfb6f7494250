"""The timeline and what is drawn beside it are the events; tasks are told to keys and the mouse."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from browsing import Open
from hetsim.core.text import to_compact_json
from hetsim.placement.planning import plan
from hetsim.problem.plan import Plan
from hetsim.problem.problem import Problem
from hetsim.problem.timeline import Timeline
from hetsim.reporting.pages.answers import answer_island
from hetsim.reporting.pages.page import unpacked, write_page
from hetsim.reporting.pages.timeline import BINS, STEPS_MOST, pictures_of
from hetsim.reporting.tables.plan import simulation_record
from hetsim.simulation.simulate import simulate
from oracles.memory_over_time import memory_profile

REQUESTS = 5


@pytest.fixture(scope="module")
def made() -> Plan:
    rng = np.random.default_rng(7)
    seconds = rng.uniform(1e-4, 3e-3, (14, 3))
    edges = [(u, v, 200_000) for v in range(1, 14) for u in {max(0, v - 1), v // 2}]
    problem = Problem.from_arrays(
        seconds, edges=edges, bytes_per_s=1e9, host=0, streams=[1, 2, 1], name="</script> \u202e"
    )
    return plan(problem, "heft")


@pytest.fixture(scope="module")
def played(made: Plan) -> Timeline:
    return simulate(made, arrivals_s=[1e-3 * turn for turn in range(REQUESTS)])


def test_columns_are_the_events(made: Plan, played: Timeline) -> None:
    picture = pictures_of([("heft", made, played)])["timeline"][0]
    tasks = unpacked(picture["tasks"])
    names = [track["name"] for track in picture["tracks"]]
    columns = (tasks[key] for key in ("track", "start_ns", "duration_ns", "request", "critical"))
    labels = [picture["texts"][text] for text in tasks["text"]]
    drawn = Counter(
        (names[track], *figures, label.partition(": ")[0], " from " in way)
        for track, *figures, (label, way) in zip(*columns, labels, strict=True)
    )
    known: Counter[tuple[object, ...]] = Counter()
    for place, event in enumerate(played.events):
        start_ns, end_ns = round(event.start_s * 1e9), round(event.end_s * 1e9)
        critical = int(place in played.critical_path)
        for track in event.tracks or (f"{event.source}>{event.device}",):
            figures = (start_ns, end_ns - start_ns, event.request, critical)
            known[track, *figures, event.name, bool(event.nbytes)] += 1
    assert drawn == known
    assert picture["note"] == ""


def test_utilization_is_that_of_the_clock(made: Plan, played: Timeline) -> None:
    """The bins of each row add up to how long it was busy, over all of its streams."""
    figure = unpacked(pictures_of([("heft", made, played)])["utilization"][0])
    streams = dict(zip(made.problem.devices, made.problem.streams, strict=True))
    busy = {**played.device_busy_s, **played.link_busy_s}
    traces = [trace for trace in figure["data"] if trace["name"] in busy]
    assert {trace["name"] for trace in traces} == {name for name in busy if busy[name]}
    for trace in traces:
        share = np.array(trace["y"][:-1])
        assert len(share) == BINS
        assert share.max() <= 1
        whole_s = max(event.end_s for event in played.events)
        told_s = share.mean() * whole_s * streams.get(trace["name"], 1)
        assert told_s == pytest.approx(busy[trace["name"]], rel=1e-4)


def test_whole_requests_are_left_out_and_it_is_told(made: Plan, played: Timeline) -> None:
    each = len(played.events) // REQUESTS
    picture = pictures_of([("heft", made, played)], most=3 * each)["timeline"][0]
    assert set(unpacked(picture["tasks"])["request"]) == {0, 1, 2}
    assert picture["note"].startswith(f"{3 * each} of {5 * each} tasks are shown")
    both = pictures_of([("a", made, played), ("b", made, played)], most=len(played.events))
    (one,) = both["timeline"]
    assert one["name"] == "a"
    assert one["note"].endswith("the timelines of b.")


UNITS = {" B": 1, " KiB": 2**10, " MiB": 2**20, " GiB": 2**30}


def held(plan: Plan, timeline: Timeline) -> dict[str, tuple[list[float], list[float], str]]:
    """Times, bytes, and the note of what is drawn of memory, by device."""
    figure = unpacked(pictures_of([("x", plan, timeline)])["memory"][0])
    found = {}
    for trace in figure["data"]:
        if "name" in trace:
            axis = figure["layout"]["yaxis" + trace["yaxis"][1:]]
            step = UNITS[axis["ticksuffix"]]
            found[trace["name"]] = (trace["x"][:-1], [one * step for one in trace["y"][:-1]],
                                    figure["note"])  # fmt: skip
    return found


def test_memory_is_that_of_the_clock(made: Plan, played: Timeline) -> None:
    drawn = held(made, played)
    for device, (times, amounts) in memory_profile(made, played).items():
        times_s, nbytes, _ = drawn[device]
        places = np.searchsorted(times_s, np.array(times) + 2e-9, side="right") - 1
        told = [nbytes[place] for place in places]
        # Where two instants are closer than a trace tells apart, the last counts.
        apart = [*(np.diff(times) > 4e-9).tolist(), True]
        for one, other, alone in zip(told, amounts, apart, strict=True):
            assert not alone or one == pytest.approx(other, rel=1e-4)


def test_of_many_steps_of_memory_the_highest_stay() -> None:
    problem = Problem.from_arrays(
        np.full((2, 2), 1e-3), edges=[(0, 1, 1000)], bytes_per_s=1e9, host=0
    )
    one = plan(problem, "single:d0")
    many = simulate(one, arrivals_s=[3e-3 * turn for turn in range(STEPS_MOST)])
    _, nbytes, note = held(one, many)["d0"]
    assert "peaks" in note
    assert len(nbytes) == STEPS_MOST
    assert max(nbytes) == pytest.approx(many.peak_memory_bytes["d0"], rel=1e-4)


@pytest.fixture(scope="module")
def report(made: Plan, played: Timeline, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("timeline") / "report.html"
    record = json.loads(to_compact_json(simulation_record(made, played)))
    pictures = pictures_of([("heft", made, played)])
    write_page(answer_island(record, ("hetsim", "simulate"), pictures), path)
    return path


def test_tasks_are_told_to_keys_and_the_mouse_and_one_request_is_picked(
    report: Path, opened: Open, played: Timeline, made: Plan
) -> None:
    one = opened(report)
    page = one.page
    one.show("timeline")
    chart = page.locator("#view-timeline .js-plotly-plot")

    def drawn(opacity: float) -> int:
        """Tasks that are drawn so bright: four corners each."""
        return int(page.evaluate(
            "opacity => document.querySelector('#view-timeline .js-plotly-plot').data"
            ".filter(one => one.opacity === opacity).reduce((sum, one) => sum + one.x.length, 0)",
            opacity,
        )) // 4  # fmt: skip

    marks = sum(max(1, len(event.tracks)) for event in played.events)
    assert (drawn(0.9), drawn(0.25)) == (marks, 0)
    page.select_option("#view-timeline .tools .tools select, #view-timeline .tools select",
                       label="request 2")  # fmt: skip
    page.wait_for_function(
        "() => document.querySelector('#view-timeline .js-plotly-plot').data[0].opacity === 0.25"
    )
    assert drawn(0.9) == marks // REQUESTS
    chart.focus()
    page.keyboard.press("ArrowRight")
    first = page.inner_text(".detail")
    page.keyboard.press("ArrowRight")
    assert page.inner_text(".detail") != first
    assert "request 2" in first
    page.select_option("#view-timeline .tools select", label="all tasks")
    page.wait_for_function(
        "() => document.querySelector('#view-timeline .js-plotly-plot').data[0].opacity === 0.9"
    )
    event = max((each for each in played.events if each.kind == "compute"),
                key=lambda each: each.end_s - each.start_s)  # fmt: skip
    at = page.evaluate(
        "([when, name]) => { const { tracks } = hetsim.island.pictures.timeline[0];"
        " const chart = document.querySelector('#view-timeline .js-plotly-plot');"
        " const {xaxis, yaxis} = chart._fullLayout; const box = chart.getBoundingClientRect();"
        " const row = tracks.length - 1 - tracks.findIndex(one => one.name === name);"
        " return [box.left + xaxis._offset + xaxis.c2p(when),"
        " box.top + yaxis._offset + yaxis.c2p(row + 0.4)]; }",
        [(event.start_s + event.end_s) / 2, event.tracks[0]],
    )
    page.mouse.move(*at)
    assert page.inner_text(".detail").startswith(f"{event.name}: ")
    assert f"on {event.tracks[0]}" in page.inner_text(".detail")
