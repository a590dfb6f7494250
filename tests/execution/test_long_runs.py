"""Faults on a cluster and long lives, as the benchmarks play them, in a smaller number."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def lines(name: str, *arguments: str) -> list[dict[str, Any]]:
    done = subprocess.run(
        [sys.executable, str(BENCHMARKS / name), *arguments],
        capture_output=True,
        text=True,
        timeout=420,
    )
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0, (found, done.stderr[-2000:])
    return found


# Each time a worker dies and an actor hangs in test_recovery, an actor is killed in test_replicas,
# and a node is lost in test_cluster_live.
@pytest.mark.sweep
@pytest.mark.slow
def test_kills_on_a_cluster_cost_time_and_no_result() -> None:
    _, *runs, summary = lines("faults.py", "--runs", "3", "--seed", "7")
    assert [run["kill"] for run in runs] == ["actor", "worker", "node"]
    for run in runs:
        assert run["right"] == 8
        assert run["left_behind"] == 0
    assert summary["failed"] == 0
    assert summary["processes_left"] == 0


@pytest.mark.slow
def test_a_long_life_keeps_order_and_memory() -> None:
    *_, summary = lines("soak.py", "--requests", "2000", "--executor", "threads")
    assert (summary["requests"], summary["wrong"]) == (2000, 0)
