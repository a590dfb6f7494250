"""Platforms that tests of several folders write to a file of their own."""

from __future__ import annotations

from pathlib import Path

from hetsim.hardware.catalog import load_platform
from hetsim.hardware.spec import Platform

CPU_AND_NPU = """\
host: cpu
devices:
  cpu: intel-core-ultra-155h-cpu
  npu: intel-core-ultra-155h-npu
links:
  - {between: [cpu, npu], latency_us: 5, bandwidth_gbytes_s: 10}
"""
"""Two devices of one chip, the CPU the host."""


def cpu_and_npu(folder: Path) -> Platform:
    path = folder / "pair.yaml"
    path.write_text(CPU_AND_NPU)
    return load_platform(path)
