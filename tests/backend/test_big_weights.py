"""Weights in files are in memory once, however many processes run the parts that read them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
MEASURED = """
import json, sys, tempfile
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from big_weights import generate, measure
from hetsim.execution.transports.ray_connection import ray_connection
with ray_connection(), tempfile.TemporaryDirectory() as folder:
    made = []
    for megabytes in (2, 250):
        own = Path(folder, str(megabytes))
        own.mkdir()
        made.append(generate(own, megabytes * 10**6, rows=256))
    for executor in ("threads", "ray"):
        for one in made:
            print(json.dumps(measure(*one, executor, "basic")), flush=True)
"""
"""The benchmark in a process of its own, whose memory nobody else changes."""


@pytest.mark.group("own_ray")
@pytest.mark.slow
@pytest.mark.sweep
def test_memory_grows_by_the_weights_once() -> None:
    command = [sys.executable, "-c", MEASURED, str(BENCHMARKS)]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    figures = [json.loads(line) for line in output.splitlines()]
    for executor in ("threads", "ray"):
        small, large = (line for line in figures if line["executor"] == executor)
        assert large["bitwise_equal"] is True
        assert large["finite"] is True
        weights = large["weight_bytes"] - small["weight_bytes"]
        grown = (large["busy_pss_bytes"] - small["busy_pss_bytes"]) / weights
        # Below the lower end nothing would have been measured while the weights were mapped.
        assert 0.5 < grown < 1.3, executor
