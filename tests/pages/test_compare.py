"""The report of ``hetsim compare``, in a browser."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from browsing import Axe, Open
from hetsim.analysis.comparison import compare
from hetsim.core.text import to_compact_json
from hetsim.problem.problem import Problem
from hetsim.reporting.pages.answers import answer_island
from hetsim.reporting.pages.page import write_page
from hetsim.reporting.pages.timeline import pictures_of, played_of
from hetsim.reporting.tables.comparison import comparison_record


def three_devices() -> Problem:
    """Twelve nodes, of which the third device lacks one."""
    rng = np.random.default_rng(0)
    seconds = rng.uniform(1e-4, 3e-3, (12, 3))
    seconds[3, 2] = np.inf
    edges = [
        (u, v, int(rng.integers(10**5, 10**6)))
        for u in range(12)
        for v in range(u + 1, 12)
        if v - u < 3
    ]
    return Problem.from_arrays(seconds, edges=edges, bytes_per_s=1e9, host=0)


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A comparison of which one strategy has no plan."""
    found = compare(three_devices(), ["single", "heft", "auto"])
    record = json.loads(to_compact_json(comparison_record(found)))
    pictures = pictures_of(played_of(found))
    path = tmp_path_factory.mktemp("compare") / "report.html"
    write_page(answer_island(record, ("hetsim", "compare", "x"), pictures), path)
    return path


def test_the_verdict_and_the_tables_are_there_without_scripts(report: Path, opened: Open) -> None:
    one = opened(report, java_script_enabled=False)
    said = one.page.inner_text("main")
    assert one.page.inner_text(".say") in said
    assert "Scripts are off" in said
    assert one.page.locator("#view-strategies table").first.is_visible()
    assert "'d2' does not support" in said


def test_every_view_is_drawn_can_be_read_and_is_printed_in_the_light(
    report: Path, opened: Open, axe: Axe
) -> None:
    one = opened(report, color_scheme="dark", eager=True)
    assert axe(one) == []
    assert one.views()[0] == "strategies"
    one.show("timeline")
    assert one.too_wide() <= 0
    one.ready_to_print()
    one.page.emulate_media(media="print")
    one.page.wait_for_selector(".printed")
    one.settle()
    assert one.page.locator("details:not([open])").count() == 0
    assert one.page.locator(".view:visible").count() == len(one.views())
    # Each view was drawn without being clicked.
    assert one.page.locator(".js-plotly-plot:visible").count() == 4
    assert one.page.locator("button:visible").count() == 0
    assert one.page.evaluate("getComputedStyle(document.body).backgroundColor") == (
        "rgb(255, 255, 255)"
    )
    one.page.emulate_media(media="screen")
    one.page.wait_for_selector("html:not(.printed)")
    assert one.page.locator(".view:visible").count() == 1
    assert one.page.evaluate("hetsim.dark()")
