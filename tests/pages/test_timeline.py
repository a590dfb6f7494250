"""The timeline: its columns are the events, and it is walked by keys, the wheel and the mouse."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from browsing import Open
from hetsim.base.text import to_compact_json
from hetsim.placement.planning import plan
from hetsim.plans.plan import Plan
from hetsim.plans.timeline import Timeline
from hetsim.problem.problem import Problem
from hetsim.reporting.pages.islands.plan import simulation_island
from hetsim.reporting.pages.packing import unpacked
from hetsim.reporting.pages.page import write_page
from hetsim.reporting.pages.pictures.memory import STEPS_MOST, memory_picture
from hetsim.reporting.pages.pictures.of_plans import pictures_of
from hetsim.reporting.pages.timeline import timeline_picture
from hetsim.reporting.result import simulation_record
from hetsim.simulation.clock.memory import memory_profile
from hetsim.simulation.simulate import simulate

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
    picture = timeline_picture(made, played, "heft")
    tasks = unpacked(picture["tasks"])
    tracks = [track["name"] for track in picture["tracks"]]
    found: dict[int, set[str]] = {}
    for entry, task in enumerate(tasks["task"]):
        event = played.events[task]
        found.setdefault(task, set()).add(tracks[tasks["track"][entry]])
        assert tasks["start_ns"][entry] == round(event.start_s * 1e9)
        assert tasks["duration_ns"][entry] == round((event.end_s - event.start_s) * 1e9)
        assert tasks["request"][entry] == event.request
        assert tasks["nbytes"][entry] == event.nbytes
        assert picture["labels"][tasks["label"][entry]].startswith(event.name)
        assert picture["devices"][tasks["to"][entry]] == event.device
    assert found.keys() == set(range(len(played.events)))
    for task, names in found.items():
        event = played.events[task]
        assert names == set(event.tracks or (f"{event.source}>{event.device}",))
    assert unpacked(picture["path"]) == list(played.critical_path)
    assert picture["cut"] == ""


def test_whole_requests_are_left_out_and_it_is_told(made: Plan, played: Timeline) -> None:
    each = len(played.events) // REQUESTS
    picture = timeline_picture(made, played, "heft", most=3 * each)
    assert set(unpacked(picture["tasks"])["request"]) == {0, 1, 2}
    assert picture["cut"].startswith(f"{3 * each} of {5 * each} tasks are drawn")
    both = pictures_of([("a", made, played), ("b", made, played)], most=len(played.events))
    assert [one["name"] for one in both["timelines"]] == ["a"]
    assert both["left_out"] == ["b"]


def test_memory_is_that_of_the_clock(made: Plan, played: Timeline) -> None:
    picture = memory_picture(made, played, "heft")
    assert picture is not None
    columns = unpacked(picture["devices"])
    for device, (times, amounts) in memory_profile(made, played).items():
        place = columns["device"].index(device)
        assert columns["nbytes"][place] == amounts.tolist()
        assert columns["time_ns"][place] == [round(float(at) * 1e9) for at in times]
        assert max(columns["nbytes"][place]) == played.peak_memory_bytes[device]


def test_of_many_steps_of_memory_the_highest_stay() -> None:
    problem = Problem.from_arrays(
        np.full((2, 2), 1e-3), edges=[(0, 1, 1000)], bytes_per_s=1e9, host=0
    )
    one = plan(problem, "single:d0")
    many = simulate(one, arrivals_s=[2e-3 * turn for turn in range(STEPS_MOST)])
    picture = memory_picture(one, many, "x")
    assert picture is not None
    assert "highest" in picture["cut"]
    columns = unpacked(picture["devices"])
    assert len(columns["nbytes"][0]) == STEPS_MOST
    assert max(columns["nbytes"][0]) == many.peak_memory_bytes["d0"]


@pytest.fixture(scope="module")
def report(made: Plan, played: Timeline, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("timeline") / "report.html"
    record = json.loads(to_compact_json(simulation_record(made, played)))
    pictures = pictures_of([("heft", made, played)])
    write_page(simulation_island(record, ("hetsim", "simulate"), pictures), path)
    return path


def test_it_is_walked_by_keys_the_wheel_and_the_mouse(
    report: Path, opened: Open, played: Timeline
) -> None:
    one = opened(report)
    page = one.page
    one.show("timeline")

    def shown() -> tuple[float, float]:
        found = page.evaluate(
            "(({state}) => [state.from, state.to])"
            "(document.querySelector('#view-timeline .picture').timeline)"
        )
        return float(found[0]), float(found[1])

    def tasks() -> int:
        told = page.inner_text("#view-timeline .picture summary small")
        return int(re.findall(r"\d+", told)[-1])

    assert tasks() == len(played.events)
    start, end = shown()
    assert start <= 0
    assert end >= played.makespan_s * 1e9
    canvas = page.locator(".timeline-canvas")
    canvas.focus()
    page.keyboard.press("+")
    closer = shown()
    assert end - start > closer[1] - closer[0]
    page.keyboard.press("ArrowRight")
    assert shown()[0] > closer[0]
    page.keyboard.press("0")
    assert shown() == (start, end)

    # Task by task, read aloud; then its request alone.
    page.keyboard.press("n")
    first = page.inner_text("#live")
    page.keyboard.press("n")
    assert page.inner_text("#live") != first
    assert re.search(r"g\d+: Task", first)
    assert "request 1" in first
    page.keyboard.press("ArrowDown")
    assert " on d1/" in page.inner_text("#live")
    page.keyboard.press("Enter")
    assert tasks() == len(played.events) // REQUESTS
    page.keyboard.press("Escape")
    assert tasks() == len(played.events)
    page.select_option("#timeline-request", "2")
    assert tasks() == len(played.events) // REQUESTS
    page.select_option("#timeline-request", "-1")
    page.click("text=Critical path")
    assert page.get_attribute("text=Critical path", "aria-pressed") == "true"

    # The wheel zooms where the timeline has the focus, a drag moves, hovering tells.
    canvas.focus()
    box = canvas.bounding_box()
    assert box is not None
    middle = (box["x"] + box["width"] * 0.6, box["y"] + 42)
    page.mouse.move(*middle)
    page.mouse.wheel(0, -300)
    page.wait_for_function("() => true")
    assert shown()[1] - shown()[0] < end - start
    before = shown()
    page.mouse.down()
    page.mouse.move(middle[0] - 80, middle[1])
    page.mouse.up()
    assert shown()[0] > before[0]
    page.keyboard.press("0")
    page.evaluate(
        "(view => { const {tasks, ofTrack} = view.state.picture.open;"
        " view.focusOn(ofTrack[0].marks[0]); })"
        "(document.querySelector('#view-timeline .picture').timeline)"
    )
    assert "d0/0" in page.inner_text(".detail")
