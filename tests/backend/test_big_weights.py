"""Weights in files are in memory once, however many processes run the parts that read them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "big_weights.py"


def measured(megabytes: int) -> dict[str, dict[str, float]]:
    """The benchmark's figures by executor."""
    command = [sys.executable, str(BENCHMARK), f"--megabytes={megabytes}", "--rows=64"]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return {line["executor"]: line for line in map(json.loads, output.splitlines())}


@pytest.mark.slow
def test_memory_grows_by_the_weights_once() -> None:
    small, large = measured(2), measured(200)
    for executor in ("threads", "ray"):
        assert large[executor]["bitwise_equal"] is True
        assert large[executor]["finite"] is True
        one, other = small[executor], large[executor]
        weights = other["weight_bytes"] - one["weight_bytes"]
        grown = (other["busy_pss_bytes"] - one["busy_pss_bytes"]) / weights
        # Below the lower end nothing would have been measured while the weights were mapped.
        assert 0.5 < grown < 1.3, executor
