"""``hetsim simulate --max-rate``: its table, its record, and how it ends."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cli_calls import Cli

TRACE = "time\n" + "".join(f"{0.001 * k * k}\n" for k in range(12))
WORKLOAD = """\
streams:
  all:
    model: dynamic.onnx
    arrivals: {replay: {path: trace.csv, column: time}}
    slos: [p50=200us]
"""


@pytest.fixture
def asked(model: Path, platform: Path) -> tuple[object, ...]:
    return (
        *("simulate", "--max-rate", model, "--platform", platform, "--strategy", "single:cpu"),
        *("--requests", 4_000),
    )


def test_a_table_and_a_record(cli: Cli, asked: tuple[object, ...]) -> None:
    shown = cli(*asked, "--slo", "p90=1ms")
    assert shown.exit_code == 0, shown.stderr
    for words in (
        "objectives ",
        "bound ",
        "misses",
        "peak",
        "bottleneck",
        "Best: single:cpu sustains ",
    ):
        assert words in shown.stdout
    assert "Plan for " in shown.stdout
    found: dict[str, Any] = json.loads(cli(*asked, "--slo", "p90=1ms", "--json").stdout)
    assert found["schema"] == "hetsim-capacity/1"
    [row] = found["rows"]
    assert (row["name"], row["how"], row["answer"]) == ("single:cpu", "verdicts", "meets")
    assert 0 < row["highest_per_s"] < row["ceiling_per_s"] <= found["bound_per_s"] * (1 + 1e-9)
    assert row["utilization"] == pytest.approx(row["highest_per_s"] / row["ceiling_per_s"])
    assert row["at"]["streams"][0]["objectives"][0]["verdict"] == "meets"


def test_how_it_ends(cli: Cli, asked: tuple[object, ...]) -> None:
    words = (*asked, "--slo", "p90=1ms")
    [row] = json.loads(cli(*words, "--json").stdout)["rows"]
    [rates] = row["rates"]
    undecided = (rates["high_per_s"] + rates["misses_above_per_s"]) / 2
    for target, code, says in (
        (rates["high_per_s"], 0, ""),
        (rates["misses_above_per_s"], 5, "missed at"),
        (undecided, 6, "undecided"),
        (1e12, 4, "no plan sustains more than"),
    ):
        result = cli(*words, "--target-rate", repr(target))
        assert result.exit_code == code, (target, result.stderr)
        assert says in result.stderr
    never = cli(*asked, "--slo", "p90=1ns")
    assert never.exit_code == 4
    assert "takes less than" in never.stderr
    assert "No rate meets the objectives" in never.stdout


def test_a_trace_is_answered_exactly(
    cli: Cli, dynamic_model: Path, platform: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = dynamic_model.parent
    monkeypatch.chdir(folder)
    (folder / "trace.csv").write_text(TRACE)
    (folder / "w.yaml").write_text(WORKLOAD)
    words = (
        "simulate",
        "--max-rate",
        "--workload",
        "w.yaml",
        "--platform",
        platform,
        "--strategy",
        "single:cpu",
    )
    result = cli(*words, "--batching", "2", "--json")
    assert result.exit_code == 0, result.stderr
    rows = {row["name"]: row for row in json.loads(result.stdout)["rows"]}
    assert set(rows) == {"single:cpu", "single:cpu, batches of 2"}
    alone = rows["single:cpu"]
    assert (alone["how"], alone["one_span"], alone["sample"]) == ("exact", True, 12)
    top, bottom = map(int, alone["exact_factor"])
    assert alone["highest_per_s"] == pytest.approx(
        top / bottom * json.loads(result.stdout)["rate_per_s"]
    )
    assert rows["single:cpu, batches of 2"]["how"] == "scan"
    shown = cli(*words).stdout
    assert "any above" in shown
    assert "exactly" in shown


@pytest.mark.parametrize(
    ("more", "code", "says"),
    [
        ((), 2, "--max-rate needs an objective"),
        (("--slo", "p90=1ms", "--arrivals", "often"), 2, "no kind of arrivals"),
        (("--slo", "fast"), 3, "is not an objective"),
        (("--slo", "p90=1ms", "--batching", "x"), 2, "MAX[:TIME]"),
        (("--slo", "p90=1ms", "--batching", "4"), 3, "cannot run batches"),
        (("--slo", "p90=1ms", "--strategy", "hefd"), 2, "did you mean 'heft'"),
        (("--slo", "p90=1ms", "--target-rate", "0"), 2, "target-rate"),
    ],
)
def test_what_is_wrong_is_told(
    more: tuple[str, ...], code: int, says: str, cli: Cli, asked: tuple[object, ...]
) -> None:
    result = cli(*asked, *more)
    assert (result.exit_code, result.stdout) == (code, "")
    assert says in result.stderr
