"""What if the accelerator sat on a faster link? Describe a platform, change a figure, compare."""

import tempfile
from pathlib import Path

import hetsim
from hetsim.core.units import format_seconds

BOARD = """
name: my-board
host: cpu
devices:
  cpu: {{device: rockchip-rk3588-cpu}}
  npu: {{device: rockchip-rk3588-npu}}
links:
  - {{between: [cpu, npu], latency_us: 20, bandwidth_gbytes_s: {bandwidth}}}
"""

model = hetsim.load_model("zoo:mobilenet_v2")
for bandwidth in (0.3, 3.0, 30.0):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "my-board.yaml")
        path.write_text(BOARD.format(bandwidth=bandwidth))
        problem = hetsim.Problem.of(model, hetsim.load_platform(path))
    best = hetsim.compare(problem).rows[0]
    assert best.latency_s is not None
    print(f"{bandwidth:4} GB/s: {best.strategy:10} {format_seconds(best.latency_s)}")
