"""Reports of the zoo on all platforms: bytes, seconds to make, and until a browser paints.

    .venv/bin/python benchmarks/reports.py [models and platforms...]

A line a report of ``hetsim compare``: bytes; CPU seconds that ``--report`` adds, pictures and page;
the browser's own ``first-contentful-paint`` after it begins to load the file; milliseconds that
plotly takes to zoom the timeline; of both the least of five openings, as what else the machine does
only adds to them. Without Chromium they are null. The last line sums up.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import hetsim
from hetsim.core.text import to_compact_json
from hetsim.graph.zoo import models as zoo
from hetsim.hardware.catalog import platform_names
from hetsim.reporting.pages.answers import answer_island
from hetsim.reporting.pages.page import page
from hetsim.reporting.pages.timeline import pictures_of, played_of
from hetsim.reporting.tables.comparison import comparison_record

STRATEGIES = ("single", "hetero", "heft")
OPENINGS = 5
SPREADS = ("bytes", "cpu_s", "paint_ms", "zoom_ms")
PAINTED = "performance.getEntriesByType('paint').map(entry => [entry.name, entry.startTime])"
ZOOM = """async () => {
  const chart = document.querySelector("#view-timeline .js-plotly-plot"), start = performance.now();
  for (let turn = 1; turn <= 5; turn += 1) {
    await Plotly.relayout(chart, {"xaxis.range": [0, chart.layout.xaxis.range[1] / 1.2]});
  }
  return (performance.now() - start) / 5;
}"""


def chromium() -> str | None:
    """The path of an installed Chromium; None where there is none."""
    names = ("chromium", "chromium-browser", "google-chrome")
    return next((path for name in names if (path := shutil.which(name))), None)


@contextmanager
def browser() -> Iterator[Any]:
    """Chromium, or None."""
    found = chromium()
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        found = None
    if found is None:
        yield None
        return
    with sync_playwright() as driver:
        one = driver.chromium.launch(executable_path=found, args=["--no-sandbox", "--disable-gpu"])
        yield one
        one.close()


def painted(one: Any, text: str) -> tuple[float, float]:
    """Milliseconds until the first content is painted, and that a zoom of the timeline takes.

    The least of some openings: what else the machine does only adds to them.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "report.html"
        path.write_text(text, encoding="utf-8")
        paints, zooms = zip(*(opened(one, path) for _ in range(OPENINGS)), strict=True)
    return min(paints), min(zooms)


def opened(one: Any, path: Path) -> tuple[float, float]:
    """Open it once."""
    tab = one.new_page(viewport={"width": 1280, "height": 900})
    tab.goto(path.as_uri())
    tab.wait_for_function(f"() => {PAINTED}.length > 1")
    paints = dict(tab.evaluate(PAINTED))
    tab.click("#tab-timeline")
    tab.wait_for_function("() => hetsim.settled()")
    zoom = float(tab.evaluate(ZOOM))
    tab.close()
    return float(paints["first-contentful-paint"]), zoom


def report(model: hetsim.Model, platform: str) -> tuple[dict[str, Any], str]:
    """What a report of the model on the platform is, and the report."""
    found = hetsim.compare(
        hetsim.Problem.of(model, hetsim.load_platform(platform)), STRATEGIES, samples=20
    )
    record = json.loads(to_compact_json(comparison_record(found)))
    begun_s = time.process_time()
    pictures = pictures_of(played_of(found))
    text = page(answer_island(record, ("hetsim", "compare"), pictures))
    spent_s = time.process_time() - begun_s
    row = {"model": model.name, "platform": platform, "bytes": len(text.encode()), "cpu_s": spent_s}
    return row, text


def main(chosen: list[str]) -> None:
    """Print a line a report, then one for all."""
    models = [name for name in zoo.names() if name in chosen] or zoo.names()
    platforms = [name for name in platform_names() if name in chosen] or platform_names()
    rows = []
    with browser() as one:
        for name in models:
            model = hetsim.load_model(f"zoo:{name}")
            for platform in platforms:
                row, text = report(model, platform)
                row["paint_ms"], row["zoom_ms"] = painted(one, text) if one else (None, None)
                rows.append(row)
                print(json.dumps(row), flush=True)
    print(json.dumps({"reports": len(rows), **{key: spread(rows, key) for key in SPREADS}}))


def spread(rows: list[dict[str, Any]], key: str) -> list[float] | None:
    """Median, and most."""
    found = [row[key] for row in rows if row[key] is not None]
    return [median(found), max(found)] if found else None


if __name__ == "__main__":
    main(sys.argv[1:])
