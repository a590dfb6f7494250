"""A small grid: a tiny model on two platforms, alone and under load, with a point that fails."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

from cli.conftest import tiny_model

GRID = """\
models: {model: tiny.onnx, dims: {batch: 2}}
platforms: [laptop, rock-5b]
what_ifs: [{}, npu.speed x2]
strategies: [heft, single:npu]
workloads:
  - none
  - {name: even, arrivals: {constant: {rate_per_s: 1000}}, slos: p99=1ms, requests: 40}
"""


@pytest.fixture
def grid(tmp_path: Path) -> Path:
    """Path of a grid of 16 points, 8 of which have no plan: the npu lacks an op."""
    onnx.save(tiny_model("batch"), tmp_path / "tiny.onnx")
    path = tmp_path / "grid.yaml"
    path.write_text(GRID.replace("models: {", "models: [{").replace("}}\n", "}}]\n", 1))
    return path
