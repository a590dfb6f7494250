"""Tables: what they say, that they fit, and that names cannot steer them."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import Literal

import numpy as np
import pytest
from rich.console import RenderableType

from hetsim.analysis.comparison import compare
from hetsim.core.units import format_bytes, format_seconds
from hetsim.partitioning.flow import partition
from hetsim.placement.planning import plan
from hetsim.problem.problem import Problem
from hetsim.reporting.console import PLAIN_WIDTH, console, whole
from hetsim.reporting.formatting import percent
from hetsim.reporting.tables.comparison import comparison_report, verdict
from hetsim.reporting.tables.plan import outputs_line, partition_report, simulation_report
from hetsim.simulation.simulate import simulate


def drawn(
    report: RenderableType, monkeypatch: pytest.MonkeyPatch, width: int = PLAIN_WIDTH
) -> list[str]:
    monkeypatch.setenv("COLUMNS", str(width))
    return [line.rstrip() for line in whole(console(io.StringIO()), report).splitlines()]


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


@pytest.mark.parametrize("width", [80, 120, 140])
@pytest.mark.parametrize("objective", ["latency", "throughput"])
@pytest.mark.parametrize("wide", [False, True])
def test_the_comparison_loses_no_figure(
    width: int,
    objective: Literal["latency", "throughput"],
    wide: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    problem = three_devices()
    comparison = compare(problem, ["single", "hetero:npu,gpu.0,cpu", "heft"], objective=objective)
    lines = drawn(comparison_report(comparison, wide=wide), monkeypatch, width)
    text = "\n".join(lines)
    assert max(map(len, lines)) <= max(width, 120 if wide else 80)
    assert "…" not in text
    for row in comparison.rows:
        assert any(line.startswith(row.strategy[:7]) for line in lines)
        if row.timeline is None:
            continue
        assert format_seconds(row.timeline.latency_s) in text
        if objective == "throughput":
            assert format_seconds(row.cost_s or 0.0) in text
        held = row.timeline.peak_memory_bytes.values()
        for nbytes in held if wide else [max(held)]:
            assert format_bytes(nbytes) in text
        for device in row.plan.devices_used if row.plan is not None else ():
            share = percent(comparison.busy(row)[device])
            assert (share if wide else f"{device} {share.removesuffix(' %')}") in text
    for word in ("lower bound", "best single", "ceiling", "memory", "busy"):
        assert word in text
    if wide:
        assert "energy" in text
        assert "transfers" in text


def eight_gpus() -> Problem:
    seconds = np.full((3, 9), 1e-3)
    seconds[:, 0] = 9e-3
    return Problem.from_arrays(
        seconds,
        edges=[(0, 1, 10**5), (1, 2, 10**5)],
        devices=("cpu", *(f"gpu.{index}" for index in range(8))),
        latency_s=1e-5,
        bytes_per_s=1e10,
        host=0,
        contention="fifo",
    )


@pytest.mark.parametrize("wide", [False, True])
def test_like_devices_are_one(wide: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = drawn(comparison_report(compare(eight_gpus(), ["single"]), wide=wide), monkeypatch, 120)
    text = "\n".join(lines)
    assert "platform     given as arrays: cpu, gpu.0-7; host cpu" in text
    assert not any(name in text for name in ("gpu.2", "gpu.5", "gpu.7"))
    assert sum(line.startswith("single:") for line in lines) == 2


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
            "Splitting pays: heft takes 2.00 s on a and b and is 2.50x as fast as a alone "
            "(5.00 s), at the lower bound.",
        ),
        (
            two([[1, 4], [2, 1.9]], latency_s=9),
            ["single", "heft"],
            "Splitting does not pay: take a alone, 3.00 s, at the lower bound.",
        ),
        (
            two([[10, 40], [2, 1.9]]),
            ["single", "heft"],
            "Splitting hardly pays: take a alone, 12.0 s, optimality gap 0.8 %. Best split: heft "
            "takes 11.9 s on a and b and is 1.01x as fast as a alone (12.0 s).",
        ),
        (
            two([[1, np.inf], [np.inf, 1]]),
            ["heft"],
            "Best: heft, 2.00 s on a and b, at the lower bound. No device runs the whole model "
            "alone.",
        ),
        (
            two([[1, 4], [4, 1]]),
            ["single"],
            "Best: a alone, 5.00 s, optimality gap 150 %. No strategy that splits was compared.",
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
    assert "p99 " in text
    assert "energy" in text


def test_outputs_line() -> None:
    assert outputs_line(True, ()) == "outputs bitwise equal to the whole model: yes"
    rounded = outputs_line(True, (), precision="device")
    assert rounded == "outputs bitwise equal to the whole model rounded in the same way: yes"
    assert outputs_line(None, ()).endswith("not compared")
    assert outputs_line(False, ("y", "z")).endswith("no (2 outputs differ: y; z)")
