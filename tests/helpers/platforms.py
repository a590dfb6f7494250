"""Platforms that tests of several folders write to a file of their own."""

from __future__ import annotations

CPU_AND_NPU = """\
host: cpu
devices:
  cpu: intel-core-ultra-155h-cpu
  npu: intel-core-ultra-155h-npu
links:
  - {between: [cpu, npu], latency_us: 5, bandwidth_gbytes_s: 10}
"""
"""Two devices of one chip, the CPU the host."""
