"""Tables: what they say, that they fit, and that names cannot steer them."""

from __future__ import annotations

import io
from dataclasses import replace

import numpy as np
import pytest
from rich.console import RenderableType

from hetsim.comparison import compare
from hetsim.partitioning.flow import partition
from hetsim.placement.registry import plan
from hetsim.problem import Problem
from hetsim.reporting.console import PLAIN_WIDTH, console
from hetsim.reporting.plan_table import outputs_line, partition_report, simulation_report
from hetsim.reporting.table import comparison_report, verdict
from hetsim.simulation.clock import simulate


def drawn(
    report: RenderableType, monkeypatch: pytest.MonkeyPatch, width: int = PLAIN_WIDTH
) -> list[str]:
    monkeypatch.setenv("COLUMNS", str(width))
    stream = io.StringIO()
    console(stream).print(report)
    return stream.getvalue().splitlines()


def three_devices() -> Problem:
    rng = np.random.default_rng(0)
    seconds = rng.uniform(1e-4, 3e-3, (12, 3))
    seconds[3, 2] = np.inf
    problem = Problem.from_arrays(
        seconds,
        edges=[
            (u, v, int(rng.integers(10**5, 10**6)))
            for u in range(12)
            for v in range(u + 1, 12)
            if rng.random() < 0.25
        ],
        devices=("cpu", "gpu.0", "npu"),
        latency_s=1e-5,
        bytes_per_s=1e10,
        weight_bytes=[10**6] * 12,
        capacity_bytes=[10**9] * 3,
        host=0,
        contention="fifo",
        name="twelve nodes",
    )
    return replace(problem, idle_w=(1.0, 0.2, 0.1), busy_w=(20.0, 30.0, 5.0))


@pytest.mark.parametrize("width", [100, 120, 140])
def test_the_comparison_fits_and_loses_no_figure(
    width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    comparison = compare(three_devices(), ["single", "hetero:npu,gpu.0,cpu", "heft"])
    lines = drawn(comparison_report(comparison), monkeypatch, width)
    text = "\n".join(lines)
    assert max(map(len, lines)) <= width
    assert "…" not in text
    for row in comparison.rows:
        assert any(line.startswith(row.strategy[:7]) for line in lines)
        if row.timeline is not None:
            for nbytes in row.timeline.peak_memory_bytes.values():
                assert f"{nbytes / 2**20:.3g}"[:3] in text
    for word in ("lower bound", "best single", "ceiling", "energy", "transfers", "memory"):
        assert word in text


def test_the_best_row_comes_first_and_the_infeasible_is_explained(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    comparison = compare(three_devices())
    lines = drawn(comparison_report(comparison), monkeypatch)
    rows = [
        line.split()[0] for line in lines if line.startswith(("single:", "hetero ", "heft", "auto"))
    ]
    assert rows[0] == comparison.rows[0].strategy
    assert "single:npu: infeasible: 'npu' does not support: Task (1)" in map(str.rstrip, lines)


def test_markup_and_control_characters_are_printed_as_they_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    evil = ("[bold]a[/bold]", "[/red]", "\x1b[2J", ":smile:")
    base = Problem.from_arrays(
        [[1.0]] * 4,
        edges=[(0, 1, 1), (1, 2, 1), (2, 3, 1)],
        devices=("[/blue]",),
        name="[link=x]m[/link]",
    )
    problem = replace(base, node_names=evil, op_types=("[/bold]", "Relu", "Relu", "Relu"))
    made = plan(problem, "heft")
    text = "\n".join(
        line
        for report in (
            comparison_report(compare(problem)),
            partition_report(partition(problem)),
            simulation_report(made, simulate(made)),
        )
        for line in drawn(report, monkeypatch)
    )
    assert "[link=x]m[/link]" in text
    assert "[/blue]" in text
    assert "[bold]a[/bold]" in text
    assert "[/bold] 1" in text
    assert "\x1b" not in text


def two(seconds: list[list[float]], latency_s: float = 0.0) -> Problem:
    return Problem.from_arrays(seconds, edges=[(0, 1, 1)], devices=("a", "b"), latency_s=latency_s)


@pytest.mark.parametrize(
    ("problem", "strategies", "says"),
    [
        (
            two([[1, 4], [4, 1]]),
            ["single", "heft"],
            "Best: heft, 2.00 s, 2.50x over a alone, at the lower bound.",
        ),
        (
            two([[1, 4], [2, 1.9]], latency_s=9),
            ["single", "heft"],
            "Splitting does not pay here: nothing beats a alone, 3.00 s",
        ),
        (
            two([[1, 4], [2, 1.9]], latency_s=9),
            ["hetero:b,a"],
            "Splitting does not pay here: nothing beats a alone, 3.00 s",
        ),
        (
            two([[10, 40], [2, 1.9]]),
            ["single", "heft"],
            "Splitting hardly pays here: heft, 11.9 s, 1.01x over a alone, at the lower bound.",
        ),
        (
            two([[1, np.inf], [np.inf, 1]]),
            ["heft"],
            "Best: heft, 2.00 s, at the lower bound; no device runs the whole model alone.",
        ),
        (
            two([[1, 4], [4, 1]]),
            ["single"],
            "Best: single:a, 5.00 s, 150 % above the lower bound; no strategy that splits",
        ),
        (two([[1, 1], [np.inf, np.inf]]), ["heft"], "No strategy found a feasible plan."),
    ],
)
def test_verdict(problem: Problem, strategies: list[str], says: str) -> None:
    assert verdict(compare(problem, strategies)).startswith(says)


def test_width_without_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    assert console(io.StringIO()).width == PLAIN_WIDTH
    monkeypatch.setenv("COLUMNS", "77")
    assert console(io.StringIO()).width == 77


def test_simulation_report_of_many_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    made = plan(three_devices(), "heft")
    text = "\n".join(drawn(simulation_report(made, simulate(made, 20)), monkeypatch))
    assert "20 in " in text
    assert "99 % within" in text
    assert "energy" in text


def test_outputs_line() -> None:
    assert outputs_line(True, ()) == "outputs bitwise equal to the whole model: yes"
    assert outputs_line(None, ()).endswith("not compared")
    assert outputs_line(False, ("y", "z")).endswith("no (2 outputs differ: y; z)")
