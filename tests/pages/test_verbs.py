"""``--report`` of compare, simulate and run: what the file says, and when it is refused."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import Result

from browsing import WIDTHS, Axe, Open
from cli_calls import call
from onnx_builders import make_model, op, save, value
from platforms import CPU_AND_NPU

MARKUP = "</script><img src=x onerror=alert(1)>"

WORDS: dict[str, tuple[str, ...]] = {
    "compare": ("compare", "--strategy", "single", "--strategy", "heft"),
    "tried": ("compare", "--strategy", "heft", "--explain", "--sensitivities", "--draws", "20"),
    "supposed": ("compare", "--strategy", "heft", "--what-if", "npu.memory x2"),
    "throughput": ("compare", "--strategy", "multi", "--objective", "throughput", "--run",
                   "--executor", "threads"),
    "simulate": ("simulate", "--requests", "3", "--target-ms", "1000"),
    "many": ("simulate", "--requests", "1200", "--draws", "0"),
    "failed": ("simulate", "--inject", "kill npu at 0.01ms for 1ms"),
    "run": ("run", "--executor", "threads"),
    "lint": ("lint", "--strategy", "heft"),
    "nodes": ("nodes",),
    "nodes of a plan": ("nodes", "--strategy", "heft"),
}  # fmt: skip


VIEWS = {
    "lint": {"findings", "provenance"},
    "nodes": {"units", "provenance"},
    "nodes of a plan": {"units", "subgraphs", "provenance"},
}
"""Views of those that play nothing."""


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
    return str(save(proto, folder)), "--platform", str(platform)


def made(asked: tuple[str, ...], case: str, path: Path) -> Result:
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
    result = call(verb, *asked, *options, "--json", "--report", path)
    assert result.exit_code == 0, result.stderr
    island = data(path)
    assert island["record"] == json.loads(result.stdout)
    assert island["kind"] == verb
    assert str(path) in island["command"]
    assert f"wrote the report to {path}" in result.stderr
    assert "<img" not in path.read_text("utf-8")


def test_what_may_not_be_written_is_said_before_the_work(
    asked: tuple[str, ...], tmp_path: Path
) -> None:
    path = tmp_path / "report.html"
    path.write_text("mine")
    result = made(asked, "compare", path)
    assert (result.exit_code, result.stdout, path.read_text()) == (2, "", "mine")
    assert "give --force" in result.stderr
    nowhere = made(asked, "run", tmp_path / "none" / "report.html")
    assert (nowhere.exit_code, nowhere.stdout) == (2, "")
    assert "there is no folder" in nowhere.stderr


@pytest.mark.sweep
@pytest.mark.parametrize("case", list(WORDS))
def test_every_view_of_it_is_drawn(
    asked: tuple[str, ...], case: str, tmp_path: Path, opened: Open
) -> None:
    path = tmp_path / "report.html"
    assert made(asked, case, path).exit_code == 0
    one = opened(path)
    assert VIEWS.get(case, {"timeline", "utilization", "memory", "provenance"}) <= set(one.views())
    for view in one.views():
        one.show(view)
        assert "could not be drawn" not in one.page.inner_text(f"#view-{view}")
    assert one.page.locator("img").count() == 0


@pytest.mark.sweep
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("case", list(WORDS))
def test_all_can_read_it_at_every_width_in_either_light(
    asked: tuple[str, ...], case: str, width: int, tmp_path: Path, opened: Open, axe: Axe
) -> None:
    path = tmp_path / "report.html"
    assert made(asked, case, path).exit_code == 0
    for scheme in ("light", "dark"):
        one = opened(path, width=width, color_scheme=scheme)
        for view in one.views():
            one.show(view)
            one.screenshot(f"{case}-{view}-{width}-{scheme}")
            assert one.too_wide() <= 0, view
            assert one.cut_off() == [], view
            assert axe(one) == []
