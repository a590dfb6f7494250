"""``hetsim simulate --max-rate``: its table, its record, and how it ends."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cli_calls import call, ok, record_of

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


def test_a_table_and_a_record(asked: tuple[object, ...]) -> None:
    shown = ok(*asked, "--slo", "p90=1ms")
    for words in ("objectives ", "bound ", "misses", "peak", "Best: single:cpu sustains "):
        assert words in shown.stdout
    assert "Plan for " in shown.stdout
    assert "bottleneck" in shown.stdout
    found: dict[str, Any] = record_of(*asked, "--slo", "p90=1ms")
    assert found["schema"] == "hetsim-capacity/1"
    [row] = found["rows"]
    assert (row["name"], row["how"], row["answer"]) == ("single:cpu", "verdicts", "meets")
    assert 0 < row["highest_per_s"] < row["ceiling_per_s"] <= found["bound_per_s"] * (1 + 1e-9)
    assert row["utilization"] == pytest.approx(row["highest_per_s"] / row["ceiling_per_s"])
    assert row["at"]["streams"][0]["objectives"][0]["verdict"] == "meets"


def test_how_it_ends(asked: tuple[object, ...]) -> None:
    words = (*asked, "--slo", "p90=1ms")
    [row] = record_of(*words)["rows"]
    [rates] = row["rates"]
    undecided = (rates["high_per_s"] + rates["misses_above_per_s"]) / 2
    for target, code, says in (
        (rates["high_per_s"], 0, ""),
        (rates["misses_above_per_s"], 5, "missed at"),
        (undecided, 6, "undecided"),
        (1e12, 4, "no plan sustains more than"),
    ):
        result = call(*words, "--target-rate", repr(target))
        assert result.exit_code == code, (target, result.stderr)
        assert says in result.stderr
    # More requests do not bring these two rates nearer to each other.
    words = (*words, "--arrivals", "constant")
    [rates] = record_of(*words)["rows"][0]["rates"]
    between = (rates["high_per_s"] + rates["misses_above_per_s"]) / 2
    assert "simulate this rate alone" in call(*words, "--target-rate", repr(between)).stderr
    never = call(*asked, "--slo", "p90=1ns")
    assert never.exit_code == 4
    assert "takes less than" in never.stderr
    assert "No rate meets the objectives" in never.stdout


def test_a_trace_is_answered_exactly(
    dynamic_model: Path, platform: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = dynamic_model.parent
    monkeypatch.chdir(folder)
    (folder / "trace.csv").write_text(TRACE)
    (folder / "w.yaml").write_text(WORKLOAD)
    words = (
        f"simulate --max-rate --workload w.yaml --platform {platform} --strategy single:cpu".split()
    )
    result = ok(*words, "--batching", "2", "--json")
    rows = {row["name"]: row for row in json.loads(result.stdout)["rows"]}
    assert set(rows) == {"single:cpu", "single:cpu, batches of 2"}
    alone = rows["single:cpu"]
    assert (alone["how"], alone["one_span"], alone["sample"]) == ("exact", True, 12)
    top, bottom = map(int, alone["exact_factor"])
    assert alone["highest_per_s"] == pytest.approx(
        top / bottom * json.loads(result.stdout)["rate_per_s"]
    )
    assert rows["single:cpu, batches of 2"]["how"] == "scan"
    shown = call(*words).stdout
    assert "any above" in shown
    assert "exactly" in shown
    # A short trace comes faster than it is answered, so what holds in the long run is no bound.
    (folder / "w.yaml").write_text(WORKLOAD.replace("200us", "10ms"))
    shown = call(*words).stdout
    assert "Best: single:cpu sustains any rate." in shown
    assert "bound" not in shown
    assert "inf" not in shown
