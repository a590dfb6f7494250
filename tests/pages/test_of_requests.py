"""Requests under load are drawn as they were: on the verb's page, and of the folder it leaves."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest

import hetsim
from answers_on_disk import read_left
from browsing import Open
from builders import BOX
from cli_calls import call
from deployments import deployed, model_at, poisson
from exact_devices import exact
from hetsim.core.text import Record
from hetsim.execution.serving import serve as serving
from hetsim.reporting.pages.answers import island_of
from hetsim.reporting.pages.page import unpacked
from hetsim.reporting.pages.timeline_of_trace import WAITING_MOST, timelines_of_requests
from hetsim.reporting.service_trace import service_trace
from hetsim.simulation.service.serving import serve
from hetsim.workload.deployment import DynamicBatching, Instances, QueuePolicy

Drawn = tuple[int, int, int, str]
"""Start and end in nanoseconds, request, and what it is."""


def drawn(picture: Record) -> dict[str, list[Drawn]]:
    """What a timeline draws, by row."""
    columns = unpacked(picture["tasks"])
    found: dict[str, list[Drawn]] = {track["name"]: [] for track in picture["tracks"]}
    names = list(found)
    order = ("track", "start_ns", "duration_ns", "request", "text")
    for track, start, length, request, label in zip(*(columns[n] for n in order), strict=True):
        said = picture["texts"][label][0]
        found[names[track]].append((start, start + length, request, said))
    return found


WAYS: dict[str, dict[str, object]] = {
    "alone": {},
    "batches": {"dynamic_batching": DynamicBatching(4, (), 200), "instances": (Instances(2),)},
    "a short queue": {"queue_policy": QueuePolicy(3)},
}


@pytest.mark.parametrize("most", [50, 10**6])
@pytest.mark.parametrize("way", list(WAYS))
def test_each_request_is_where_it_was(way: str, most: int, tmp_path: Path) -> None:
    platform = hetsim.load_platform(str(BOX))
    model = model_at(tmp_path, "batch", 64)
    workload = poisson(model, 40_000, 300)
    service = serve(deployed(model, **WAYS[way]), workload, platform, keep=200)
    assert service.kept is not None
    was = service.kept.outcomes
    [picture] = timelines_of_requests(service_trace(service), most=most)
    rows = drawn(picture)
    there = range(min(most, 200))
    served = {row: of for row, of in rows.items() if row.startswith("instance")}
    ns = lambda seconds: round(float(seconds) * 1e9)  # noqa: E731
    known = Counter(
        (ns(was.sent_s[k]), ns(was.finish_s[k]), k, int(was.instance[k]),
         f"batch of {was.size[k]}" if was.size[k] > 1 else "served")
        for k in there if not was.why[k]
    )  # fmt: skip
    assert known == Counter(
        (start, end, request, int(row.split()[1]), label)
        for row, of in served.items()
        for start, end, request, label in of
    )
    # On a row what is drawn never overlaps, but for requests of one batch.
    for of in rows.values():
        spans = sorted({(start, end) for start, end, *_ in of})
        assert all(before[1] <= after[0] for before, after in pairwise(spans))
    waits = [one for row, of in rows.items() if row.startswith("waiting") for one in of]
    assert len([row for row in rows if row.startswith("waiting")]) <= WAITING_MOST
    waited = {
        (ns(was.arrival_s[k]), ns(was.sent_s[k]), k)
        for k in there
        if not was.why[k] and ns(was.sent_s[k]) > ns(was.arrival_s[k])
    }
    rejected = {(ns(was.arrival_s[k]), ns(was.arrival_s[k]), k) for k in there if was.why[k]}
    assert bool(rejected) == (way == "a short queue")
    shown = {one[:3] for one in waits}
    assert shown <= waited | rejected
    left_out = len(waited | rejected) - len(shown)
    assert ("is not shown" in picture["note"]) == (left_out > 0)
    if left_out:
        assert f"waiting time of {left_out} requests" in picture["note"]
    assert (f"he first {most} of 300 requests" in picture["note"]) == (most == 50)
    assert {one[3] for one in waits} <= {"waiting", "rejected: the queue was full"}


def left(folder: Path, *words: object) -> tuple[list[Record], list[Record]]:
    """The timelines of the page that a verb writes, and of the folder that it leaves."""
    result = call(*words, "--report", folder / "p.html", "--out", folder / "out")
    assert result.exit_code in (0, 5, 6), result.stderr
    own = read_left(folder / "p.html").pictures["timeline"]
    return own, island_of(read_left(folder / "out"), ()).pictures["timeline"]


def test_a_folder_shows_what_the_page_does(tmp_path: Path) -> None:
    words = ("--platform", BOX, "--strategy", "single:cpu", "--rate", 5000, "--requests", 300)
    model = model_at(tmp_path, 1, 64)
    own, again = left(
        tmp_path, "simulate", model, *words, "--slo", "p90=9ms", "--inject",
        "kill npu at 1ms for 2ms",
    )  # fmt: skip
    assert own == again
    [(start, end, request, what)] = drawn(own[0])["down: npu"]
    assert (start, end, request, what) == (1_000_000, 3_000_000, -1, "kill")
    assert [one["name"] for one in own] == ["requests, virtual clock"]
    trace = tmp_path / "out" / "trace.json"
    whole = trace.read_text()
    for text in ("{}", whole[:700], whole.replace('"requests":[', '"request":['),
                 whole.replace('"tid"', '"tad"')):  # fmt: skip
        trace.write_text(text)
        result = call("report", tmp_path / "out", "-o", tmp_path / "again.html")
        assert result.exit_code == 3
        assert "trace.json" in result.stderr
        assert "Traceback" not in result.stderr


@pytest.fixture
def run_under_load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[object, ...]:
    """A run of requests on devices and clocks that are exact."""
    exact(monkeypatch)
    monkeypatch.setattr(serving, "roomy", lambda alone, templates, scale, allowed: scale)
    return (
        "run", model_at(tmp_path, "batch", 32), "--platform", BOX, "--executor", "threads",
        "--strategy", "heft", "--emulate", "--rate", "5000", "--requests", "50", "--batching",
        "4:100us", "--slo", "p90=1ms",
    )  # fmt: skip


def test_a_run_is_drawn_by_both_clocks(run_under_load: tuple[object, ...], tmp_path: Path) -> None:
    own, again = left(tmp_path, *run_under_load)
    assert own == again
    assert [one["name"] for one in own] == ["requests, wall clock", "requests, virtual clock"]
    # On devices that are exact the run is what was simulated.
    assert drawn(own[0]) == drawn(own[1])
    island = island_of(read_left(tmp_path / "p.html"), ())
    beside = next(one for one in island.sections[0].tables if "stream" in one.headings)
    mean = next(row[2:] for row in beside.rows if row[1] == ["mean"])
    assert mean[0] == mean[1]
    assert mean[2] == ["+0.0 %"]
    assert "equal to the whole model's" in island.verdict.say


@pytest.mark.sweep
def test_it_is_drawn(run_under_load: tuple[object, ...], tmp_path: Path, opened: Open) -> None:
    left(tmp_path, *run_under_load)
    assert call("report", tmp_path / "out", "-o", tmp_path / "again.html").exit_code == 0
    for page in ("p.html", "again.html"):
        one = opened(tmp_path / page)
        assert {"answer", "timeline", "uses", "queues"} <= set(one.views())
        assert "utilization" not in one.views()
        for view in one.views():
            one.show(view)
            assert "could not show this picture" not in one.page.inner_text(f"#view-{view}")
        one.show("timeline")
        one.page.select_option("#view-timeline select >> nth=1", label="request 3")
        one.page.select_option("#view-timeline select >> nth=0", label="requests, virtual clock")
        one.settle()
