"""A folder of ``--out`` shows the timeline that its trace holds: what ``--report`` shows of it."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from browsing import Open
from cli_calls import call
from hetsim.base.text import Record
from hetsim.placement.planning import plan
from hetsim.problem.problem import Problem
from hetsim.reporting.pages.islands.of_left import island_of
from hetsim.reporting.pages.packing import unpacked
from hetsim.reporting.pages.pictures.memory import memory_picture
from hetsim.reporting.pages.reading import LIMIT_BYTES, read_left
from hetsim.reporting.pages.timeline import timeline_picture
from hetsim.reporting.pages.timeline_of_trace import pictures_of_trace
from hetsim.reporting.result import simulation_record
from hetsim.reporting.trace import trace_json
from hetsim.simulation.simulate import simulate

NEAR_NS = 1
"""Ends are rounded to nanoseconds in a trace, lengths in a page."""


def tasks_of(picture: Record) -> Counter[tuple[Any, ...]]:
    """Tasks by what is said of each, times within ``NEAR_NS``; on all tracks that each holds."""
    columns = unpacked(picture["tasks"])
    path = unpacked(picture["path"])
    tracks: dict[int, list[str]] = {}
    said: dict[int, tuple[Any, ...]] = {}
    names = [*picture["devices"], ""]
    for row in zip(*columns.values(), strict=True):
        one = dict(zip(columns, row, strict=True))
        tracks.setdefault(one["task"], []).append(picture["tracks"][one["track"]]["name"])
        said[one["task"]] = (
            one["start_ns"], one["request"], picture["labels"][one["label"]], names[one["from"]],
            names[one["to"]], one["nbytes"], one["lost"], one["task"] in path,
        )  # fmt: skip
    return Counter((*said[task], *sorted(on)) for task, on in tracks.items())


def lengths_of(picture: Record) -> dict[tuple[int, int], int]:
    """How long each task takes, by its start and track."""
    columns = unpacked(picture["tasks"])
    of = zip(columns["start_ns"], columns["track"], columns["duration_ns"], strict=True)
    return {(start, track): length for start, track, length in of if length}


@pytest.mark.parametrize("seed", range(4))
def test_a_trace_draws_what_the_page_does(seed: int) -> None:
    rng = np.random.default_rng(seed)
    seconds = rng.uniform(1e-5, 3e-3, (12, 3))
    edges = [(v, w, int(rng.integers(1, 10**6))) for v in range(12) for w in (v + 1, v + 3)
             if w < 12]  # fmt: skip
    problem = Problem.from_arrays(seconds, edges=edges, bytes_per_s=1e9, host=0, contention="fifo")
    made = plan(problem, "heft")
    played = simulate(made, arrivals_s=np.sort(rng.uniform(0, 5e-3, 6)).tolist())
    record = json.loads(json.dumps(simulation_record(made, played)))
    found = pictures_of_trace(json.loads(trace_json(made, played)), "heft", record["timeline"])
    [mine], known = found["timelines"], timeline_picture(made, played, "heft")
    assert tasks_of(mine) == tasks_of(known)
    assert mine["tracks"] == known["tracks"]
    assert mine["streams"] == known["streams"]
    assert (mine["requests"], mine["latency_s"]) == (known["requests"], known["latency_s"])
    lengths = lengths_of(known)
    for key, length in lengths_of(mine).items():
        assert abs(length - lengths[key]) <= NEAR_NS
    order = [unpacked(mine["tasks"])["start_ns"][task] for task in unpacked(mine["path"])]
    assert order == sorted(order)
    check_memory(found["memories"], memory_picture(made, played, "heft"))


def check_memory(memories: list[Record], picture: Record | None) -> None:
    """Both say the same of every instant."""
    assert picture is not None
    mine, known = unpacked(memories[0]["devices"]), unpacked(picture["devices"])
    assert (mine["device"], mine["weight_bytes"]) == (known["device"], known["weight_bytes"])
    for place in range(len(mine["device"])):
        changes = [np.array([one["time_ns"][place], one["nbytes"][place]]) for one in (mine, known)]
        ends = sorted(set(changes[0][0]) | set(changes[1][0]))
        for at in ends:
            held = [one[1][np.searchsorted(one[0], at, side="right") - 1] for one in changes]
            assert held[0] == held[1]


ASKED = ("zoo:squeezenet", "--platform", "rock-5b", "--strategy", "heft")
VERBS = {
    "simulate": ("simulate", *ASKED, "--requests", 3),
    "failed": ("simulate", *ASKED, "--inject", "kill npu at 0.5ms for 1ms"),
    "compare": ("compare", *ASKED, "--strategy", "single"),
    "run": ("run", *ASKED, "--executor", "threads"),
}


def left(case: str, folder: Path) -> tuple[Path, Record]:
    """The folder that a verb leaves, and the pictures of the page that it writes beside it."""
    result = call(*VERBS[case], "--out", folder / "out", "--report", folder / "report.html")
    assert result.exit_code == 0, result.stderr
    return folder / "out", dict(read_left(folder / "report.html").pictures)


@pytest.mark.parametrize("case", list(VERBS))
def test_a_folder_shows_the_timelines_of_its_verb(case: str, tmp_path: Path) -> None:
    out, known = left(case, tmp_path)
    island = island_of(read_left(out), ())
    mine = island.pictures["timelines"]
    assert [one["name"] for one in mine] == [one["name"] for one in known["timelines"]][: len(mine)]
    assert len(mine) == (2 if case == "run" else 1)
    assert [one["clock"] for one in mine] == ["virtual", "wall"][: len(mine)]
    for one, other in zip(mine, known["timelines"], strict=False):
        assert tasks_of(one) == tasks_of(other)
    # What is held while devices fail is not counted in a trace.
    assert bool(island.pictures["memories"]) == (case != "failed")


@pytest.mark.sweep
@pytest.mark.parametrize("case", list(VERBS))
def test_it_is_drawn(case: str, tmp_path: Path, opened: Open) -> None:
    out, _ = left(case, tmp_path)
    page = tmp_path / "again.html"
    assert call("report", out, "-o", page).exit_code == 0
    one = opened(page)
    assert {"timeline", "utilization"} <= set(one.views())
    for view in one.views():
        one.show(view)
        assert "could not be drawn" not in one.page.inner_text(f"#view-{view}")
    assert one.page.locator(".timeline-canvas").count() == 1


def test_a_trace_that_is_damaged_or_too_large_is_told(tmp_path: Path) -> None:
    out, _ = left("simulate", tmp_path)
    trace = out / "trace.json"
    whole = trace.read_text()
    for text in ("", "[]", "{}", whole[:500], whole.replace('"tid"', '"tad"'),
                 whole.replace('"ts":0.0', '"ts":1e999')):  # fmt: skip
        trace.write_text(text)
        result = call("report", out, "-o", tmp_path / "page.html")
        assert result.exit_code == 3
        assert "trace.json" in result.stderr
        assert "Traceback" not in result.stderr
    with trace.open("w") as stream:
        stream.truncate(LIMIT_BYTES + 1)
    island = island_of(read_left(out), ())
    assert "timelines" not in island.pictures
    [told] = [section.caption for section in island.sections if section.view == "timeline"]
    assert "larger than 64.0 MiB" in told
