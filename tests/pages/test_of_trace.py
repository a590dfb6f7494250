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
from hetsim.core.text import Record
from hetsim.placement.planning import plan
from hetsim.problem.problem import Problem
from hetsim.reporting.pages.answers import island_of
from hetsim.reporting.pages.page import unpacked
from hetsim.reporting.pages.reading import LIMIT_BYTES, read_left
from hetsim.reporting.pages.timeline import pictures_of
from hetsim.reporting.pages.timeline_of_trace import pictures_of_trace
from hetsim.reporting.result import simulation_record
from hetsim.reporting.trace import trace_json
from hetsim.simulation.simulate import simulate

NEAR_NS = 1
"""Ends are rounded to nanoseconds in a trace, lengths in a page."""


def tasks_of(picture: Record) -> Counter[tuple[Any, ...]]:
    """What is drawn and said of each task on each row, but for its length."""
    columns = unpacked(picture["tasks"])
    names = ("track", "start_ns", "request", "text", "critical")
    return Counter(
        (picture["tracks"][track]["name"], *said, *picture["texts"][text], critical)
        for track, *said, text, critical in zip(*(columns[name] for name in names), strict=True)
    )


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
    known = pictures_of([("heft", made, played)])
    [mine], [other] = found["timeline"], known["timeline"]
    assert tasks_of(mine) == tasks_of(other)
    assert mine["tracks"] == other["tracks"]
    lengths = lengths_of(other)
    for key, length in lengths_of(mine).items():
        assert abs(length - lengths[key]) <= NEAR_NS
    for view in ("utilization", "memory"):
        check_lines(unpacked(found[view][0]), unpacked(known[view][0]))


def check_lines(mine: Record, known: Record) -> None:
    """Both figures say the same of every instant, but for what rounding moves."""
    assert [one.get("name") for one in mine["data"]] == [one.get("name") for one in known["data"]]
    for one, other in zip(mine["data"], known["data"], strict=True):
        for at in (np.array(one["x"]) + 2 * NEAR_NS * 1e-9).tolist()[:-1]:
            held = [each["y"][int(np.searchsorted(each["x"], at, side="right")) - 1]
                    for each in (one, other)]  # fmt: skip
            assert held[0] == pytest.approx(held[1], rel=1e-3, abs=1e-3)


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
    mine = island.pictures["timeline"]
    assert [one["name"] for one in mine] == [one["name"] for one in known["timeline"]][: len(mine)]
    assert len(mine) == (2 if case == "run" else 1)
    for one, other in zip(mine, known["timeline"], strict=False):
        assert tasks_of(one) == tasks_of(other)
    # What is held while devices fail is not counted in a trace.
    assert bool(island.pictures["memory"]) == (case != "failed")


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
    assert "timeline" not in island.pictures
    [told] = [section.caption for section in island.sections if section.view == "timeline"]
    assert "larger than 64.0 MiB" in told
