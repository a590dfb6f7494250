"""``--report`` of every verb: what the file says, how it can be read, and when it is refused."""

from __future__ import annotations

import json
import re
from contextlib import chdir
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import Result

from browsing import WIDTHS, Axe, Open
from cli_calls import call, ok, refused
from hetsim.reporting.pages.page import BYTES_MOST
from onnx_builders import make_model, op, save, value
from platforms import CPU_AND_NPU
from sweeps import sweep

MARKUP = "</script><img src=x onerror=alert(1)>"

WORDS: dict[str, tuple[str, ...]] = {
    "compare": ("compare", "--strategy", "single", "--strategy", "heft"),
    "tried": ("compare", "--strategy", "heft", "--explain", "--sensitivities", "--samples", "20"),
    "supposed": ("compare", "--strategy", "heft", "--what-if", "npu.memory x2"),
    "throughput": ("compare", "--strategy", "multi", "--objective", "throughput", "--run",
                   "--executor", "threads"),
    "simulate": ("simulate", "--requests", "3", "--target", "1000ms"),
    "many": ("simulate", "--requests", "1200", "--samples", "0"),
    "failed": ("simulate", "--inject", "kill npu at 0.01ms for 1ms"),
    "run": ("run", "--executor", "threads"),
    "lint": ("inspect", "--lint", "--strategy", "heft"),
    "nodes": ("inspect", "--nodes"),
    "nodes of a plan": ("inspect", "--nodes", "--strategy", "heft"),
}  # fmt: skip


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
ZOO = ("zoo:squeezenet", "--platform", "rock-5b")
UNDER_LOAD: dict[str, tuple[object, ...]] = {
    "load": ("simulate", *ZOO, "--rate", 200, "--slo", "p99=20ms", "--requests", 2000),
    "capacity": ("simulate", "--max-rate", *ZOO, "--slo", "p99=20ms", "--strategy", "heft",
                 "--batching", "4:2000us", "--requests", 16384),
    "recommend": ("recommend", "--workload", "busy.yaml", "--catalog", "rock-5b,jetson-orin-nano",
                  "--price", "rock-5b=0.05/h", "--price", "jetson-orin-nano=0.12/h"),
    "load test": ("run", *ZOO, "--strategy", "single:cpu", "--rate", 30, "--requests", 40,
                  "--executor", "threads", "--batching", "4:2000us", "--slo", "p90=500ms"),
    "place": ("recommend", "--workload", "two.yaml", "--platform", "rock-5b", "--placements", 2),
    "sweep": ("sweep", "grid.yaml", "-o", "rows", "--executor", "threads", "--front",
              "latency_s,energy_j"),
}  # fmt: skip

VIEWS = {
    "failed": {"timeline", "utilization", "provenance"},
    "lint": {"findings", "provenance"},
    "nodes": {"units", "provenance"},
    "nodes of a plan": {"units", "subgraphs", "provenance"},
}
"""Views of those that play nothing, or where failures leave unknown what memory holds."""


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    """A model, one of whose nodes is named by markup, and a platform of two devices."""
    folder = tmp_path_factory.mktemp("asked")
    weights = np.random.default_rng(0).standard_normal((8, 8)).astype(np.float32)
    nodes = [
        op("MatMul", "x w", "a", name=MARKUP),
        op("Relu", "a", "b", name="\u202erelu"),
        op("Greater", "b z", "c", name="compare"),
        op("Where", "c b a", "d", name="choose"),
        op("MatMul", "d w", "y", name="last"),
    ]
    zero = np.zeros((), np.float32)
    proto = make_model(nodes, [value("x", (2, 8))], [value("y", (2, 8))], {"w": weights, "z": zero})
    platform = folder / "pair.yaml"
    platform.write_text(CPU_AND_NPU)
    for name, text in (("busy", WORKLOAD), ("two", TWO), ("grid", GRID)):
        (folder / f"{name}.yaml").write_text(text)
    return str(save(proto, folder)), "--platform", str(platform)


def made(asked: tuple[str, ...], case: str, path: Path) -> Result:
    if case in UNDER_LOAD:
        with chdir(Path(asked[0]).parent):
            return call(*UNDER_LOAD[case], "--report", path)
    verb, *options = WORDS[case]
    return call(verb, *asked, *options, "--report", path)


def data(path: Path) -> dict[str, Any]:
    found = re.search(r'id="hetsim-data">(.*?)</script>', path.read_text("utf-8"), re.S)
    assert found is not None
    read: dict[str, Any] = json.loads(found[1])
    return read


@pytest.mark.parametrize("case", ["compare", "simulate", "run", "lint", "nodes", "nodes of a plan"])
def test_the_island_holds_what_the_verb_prints_as_json(
    asked: tuple[str, ...], case: str, tmp_path: Path
) -> None:
    path = tmp_path / "report.html"
    verb, *options = WORDS[case]
    result = ok(verb, *asked, *options, "--json", "--report", path)
    island = data(path)
    assert island["record"] == json.loads(result.stdout)
    assert island["kind"] == case.partition(" ")[0]
    assert str(path) in island["command"]
    assert f"wrote the report to {path}" in result.stderr
    assert "<img" not in path.read_text("utf-8")


def test_what_may_not_be_written_is_said_before_the_work(
    asked: tuple[str, ...], tmp_path: Path
) -> None:
    path = tmp_path / "report.html"
    path.write_text("mine")
    refused(made(asked, "compare", path), 2, "give --force")
    assert path.read_text() == "mine"
    refused(made(asked, "run", tmp_path / "none" / "report.html"), 2, "there is no folder")


CASES = (*WORDS, *UNDER_LOAD)


@sweep(
    "case, width",
    quick=[("sweep", 1280)],
    full=[(case, width) for case in CASES for width in WIDTHS],
)
def test_all_can_read_it_at_every_width_in_either_light(
    asked: tuple[str, ...], case: str, width: int, tmp_path: Path, opened: Open, axe: Axe
) -> None:
    path = tmp_path / "report.html"
    assert made(asked, case, path).exit_code == 0
    assert path.stat().st_size <= BYTES_MOST
    for scheme in ("light", "dark"):
        one = opened(path, width=width, color_scheme=scheme)
        if case in WORDS:
            plays = {"timeline", "utilization", "memory", "provenance"}
            assert VIEWS.get(case, plays) <= set(one.views())
        for view in one.views():
            one.show(view)
            one.screenshot(f"{case}-{view}-{width}-{scheme}")
            assert "could not show this picture" not in one.page.inner_text(f"#view-{view}")
            assert one.too_wide() <= 0, view
            assert one.cut_off() == [], view
            assert axe(one) == []
        assert one.page.locator("img").count() == 0
        if case == "load":
            one.show("load")
            answer = one.page.locator("#view-load .answer")
            before = answer.inner_text()
            one.page.locator("#view-load input[type=range]").first.focus()
            one.page.keyboard.press("ArrowRight")
            assert answer.inner_text() != before
