"""A folder of ``--out`` shows the timeline that its trace holds: what ``--report`` shows of it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from answers_on_disk import read_left
from browsing import Open
from cli_calls import call, ok
from hetsim.core.text import Record
from hetsim.reporting.pages.answers import island_of
from hetsim.reporting.pages.page import unpacked
from hetsim.reporting.pages.saved import LIMIT_BYTES


def tasks_of(picture: Record) -> Counter[tuple[Any, ...]]:
    """What is drawn and said of each task on each row, but for its length."""
    columns = unpacked(picture["tasks"])
    names = ("track", "start_ns", "request", "text", "critical")
    return Counter(
        (picture["tracks"][track]["name"], *said, *picture["texts"][text], critical)
        for track, *said, text, critical in zip(*(columns[name] for name in names), strict=True)
    )


ASKED = ("zoo:squeezenet", "--platform", "rock-5b", "--strategy", "heft")
VERBS = {
    "simulate": ("simulate", *ASKED, "--requests", 3),
    "failed": ("simulate", *ASKED, "--inject", "kill npu at 0.5ms for 1ms"),
    "compare": ("compare", *ASKED, "--strategy", "single"),
    "run": ("run", *ASKED, "--executor", "threads"),
}


def left(case: str, folder: Path) -> tuple[Path, Record]:
    """The folder that a verb leaves, and the pictures of the page that it writes beside it."""
    ok(*VERBS[case], "--out", folder / "out", "--report", folder / "report.html")
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
    ok("report", out, "-o", page)
    one = opened(page)
    assert {"timeline", "utilization"} <= set(one.views())
    for view in one.views():
        one.show(view)
        assert "could not show this picture" not in one.page.inner_text(f"#view-{view}")


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
