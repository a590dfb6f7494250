"""Reports of answers under load, in a browser: every view, width and scheme, and who cannot see."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest
from click.testing import CliRunner

from browsing import WIDTHS, Axe, Open
from hetsim.cli.main import main
from hetsim.reporting.pages.page import BYTES_MOST
from sweeps import sweep

MODEL = ("zoo:squeezenet", "--platform", "rock-5b")
WORKLOAD = """\
streams:
  busy: {model: 'zoo:squeezenet', arrivals: {constant: {rate_per_s: 600}}, slos: p99=20ms}
requests: 400
"""
TWO = """\
streams:
  busy: {model: 'zoo:squeezenet', arrivals: {constant: {rate_per_s: 40}}, slos: p99=50ms}
  calm: {model: 'zoo:alexnet', arrivals: {constant: {rate_per_s: 9}}, slos: p99=90ms}
requests: 400
"""
GRID = """\
models: [zoo:squeezenet]
platforms: [rock-5b, jetson-orin-nano]
strategies: [heft, 'single:gpu']
"""
KINDS = {
    "simulate": (*MODEL, "--rate", 200, "--slo", "p99=20ms", "--requests", 2000),
    "capacity": (*MODEL, "--slo", "p99=20ms", "--strategy", "heft", "--batching", "4:2000",
                 "--requests", 16384),
    "recommend": ("--workload", "busy.yaml", "--catalog", "rock-5b,jetson-orin-nano",
                  "--price", "rock-5b=0.05/h", "--price", "jetson-orin-nano=0.12/h"),
    "run": (*MODEL, "--strategy", "single:cpu", "--rate", 30, "--requests", 40, "--executor",
            "threads", "--batching", "4:2000", "--slo", "p90=500ms"),
    "place": ("--workload", "two.yaml", "--platform", "rock-5b", "--placements", 2),
    "sweep": ("grid.yaml", "-o", "rows", "--executor", "threads",
              "--front", "latency_s,energy_j"),
}  # fmt: skip


def report(kind: str, folder: Path) -> Path:
    path = folder / f"{kind}.html"
    if not path.exists():
        words = [kind, *map(str, KINDS[kind]), "--report", str(path)]
        result = CliRunner().invoke(main, words)
        assert result.exit_code == 0, result.stderr
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("reports")
    (folder / "busy.yaml").write_text(WORKLOAD)
    (folder / "two.yaml").write_text(TWO)
    (folder / "grid.yaml").write_text(GRID)
    return folder


@sweep(
    "kind, width, scheme",
    quick=[("sweep", 1280, "light")],
    full=list(product(KINDS, WIDTHS, ("light", "dark"))),
)
def test_every_view_is_drawn_and_all_can_read_it(
    kind: str, width: int, scheme: str, folder: Path, opened: Open, axe: Axe,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(folder)
    path = report(kind, folder)
    assert path.stat().st_size <= BYTES_MOST
    one = opened(path, width=width, color_scheme=scheme)
    for view in one.views():
        one.show(view)
        assert one.too_wide() <= 0, view
        assert one.cut_off() == [], view
        assert "could not be drawn" not in one.page.inner_text("main")
        one.screenshot(f"{kind}-{view}-{width}-{scheme}")
    assert axe(one) == []


@pytest.mark.sweep
def test_the_tables_are_there_without_scripts(
    folder: Path, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    one = opened(report("sweep", folder), java_script_enabled=False)
    said = one.page.inner_text("main")
    assert "4 of 4 points answered" in said
    assert "Scripts are off" in said


@pytest.mark.sweep
def test_sliders_move_by_keys(folder: Path, opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    one = opened(report("simulate", folder))
    one.show("load")
    before = one.page.locator("#view-load .answer").inner_text()
    one.page.locator("#view-load input[type=range]").first.focus()
    one.page.keyboard.press("ArrowRight")
    assert one.page.locator("#view-load .answer").inner_text() != before
    one.page.keyboard.press("ArrowLeft")
    assert one.page.locator("#view-load .answer").inner_text() == before
