"""Commands that a signal ends at any moment, as the benchmark plays them, in a smaller number."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

SIGNALS = Path(__file__).parents[2] / "benchmarks" / "signals.py"


@pytest.mark.sweep
@pytest.mark.slow
@pytest.mark.group("own_ray")
@pytest.mark.parametrize("executor", ["threads", "ray"])
def test_nothing_is_left_whatever_ends_a_command_whenever(executor: str) -> None:
    done = subprocess.run(
        [sys.executable, str(SIGNALS), "--runs", "2", "--seed", "7", "--executor", executor],
        capture_output=True,
        text=True,
        timeout=1200,
    )
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0, ([row for row in rows if row.get("complaints")], done.stderr)
    sums = [row for row in rows if "runs" in row]
    assert [row["signal"] for row in sums] == ["SIGTERM", "SIGINT", "SIGHUP", "SIGKILL"]
    for row in sums:
        assert row["runs"] == 2
        assert row["left_by_the_next"] == 0
        if row["signal"] != "SIGKILL":
            assert (row["left_processes"], row["left_files"]) == (0, 0)
