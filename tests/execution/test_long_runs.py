"""Faults on a cluster and long lives, as the benchmarks play them, in a smaller number."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sweeps import sweep

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


# Each time a worker dies and an actor hangs in test_recovery, and an actor is killed in
# test_replicas; a node is lost in test_cluster_live, in the sweep.
@pytest.mark.sweep
@pytest.mark.slow
@pytest.mark.group("own_ray")
@pytest.mark.parametrize(("number", "last"), [(0, "node"), (1, "raylet"), (2, "lost")])
def test_faults_on_a_cluster_cost_time_and_no_result(number: int, last: str) -> None:
    given = ("--sessions", "1", "--first", str(number), "--seed", "7")
    _, *faults, closed, summary = lines("faults.py", *given)
    kinds = ["actor", "worker", "abort", "actor", last]
    assert [fault["fault"] for fault in faults] == kinds
    assert all(fault["right"] == 8 for fault in faults)
    assert closed["left_behind"] == 0
    assert (summary["failed"], summary["processes_left"]) == (0, 0)


@pytest.mark.sweep
@pytest.mark.slow
def test_faults_on_threads_cost_time_and_no_result() -> None:
    _, *records, summary = lines("faults.py", "--executor", "threads", "--sessions", "2")
    assert [one["fault"] for one in records if "fault" in one][4::5] == ["lost", "hang"]
    assert summary["requests"] == {"right": 80, "wrong": 0, "lost": 0, "unanswered": 0}
    assert (summary["left_behind"], summary["processes_left"]) == (0, 0)


@sweep("requests", quick=[500], full=[500, 2000])
def test_a_long_life_keeps_order_and_memory(requests: int) -> None:
    *_, summary = lines("soak.py", "--requests", str(requests), "--executor", "threads")
    assert (summary["requests"], summary["wrong"]) == (requests, 0)
    assert summary["growth"]["descriptors"] == summary["growth"]["processes"] == 0


@pytest.mark.sweep
@pytest.mark.slow
@pytest.mark.group("own_ray")
def test_a_long_life_on_ray_holds_no_more_than_a_short_one() -> None:
    *_, summary = lines("soak.py", "--requests", "2000", "--executor", "ray")
    assert (summary["requests"], summary["wrong"]) == (2000, 0)


@pytest.mark.sweep
@pytest.mark.slow
@pytest.mark.group("own_ray")
def test_sessions_leave_nothing_behind() -> None:
    *sessions, summary = lines("sessions.py", "--sessions", "4")
    assert [one["left"] for one in sessions] == [[]] * 4
    assert (summary["sessions"], summary["failed"]) == (4, 0)
