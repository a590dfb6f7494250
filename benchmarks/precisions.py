"""What a whole network takes on each device of the catalog in each precision, alone.

A line a device and network: milliseconds in float32 and float16, as if executed so, and of the
network quantized with conversions (QDQ) as ONNX Runtime's tools make it. Where a narrower precision
is dearer than float32 the line ends with the reason that its hardware or measurements give; one
that has none is marked, and ends the run with exit code 1.
"""

from __future__ import annotations

import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hetsim.errors import HetsimError
from hetsim.graph.loading import load_model
from hetsim.graph.model import Model
from hetsim.graph.zoo.models import materialise
from hetsim.hardware.catalog import device_names, load_platform
from hetsim.hardware.spec import DeviceSpec, Platform
from hetsim.placement.planning import plan
from hetsim.problem.problem import Problem
from hetsim.simulation.simulate import simulate

NETWORKS = ("resnet50", "mobilenet_v2", "bert_small")
SAME = 1.005
"""Times that are nearer than this are the same."""
UNEXPLAINED = "NO REASON KNOWN"


@dataclass(frozen=True, slots=True)
class Line:
    """One network on one device, in seconds; None where the device does not support it."""

    device: str
    network: str
    float32_s: float | None
    float16_s: float | None
    int8_s: float | None

    def inversions(self) -> list[str]:
        """Return what is dearer than float32, and why."""
        found = []
        (spec,) = load_platform(self.device).devices.values()
        for name, took_s in (("float16", self.float16_s), ("int8", self.int8_s)):
            if self.float32_s and took_s and took_s > SAME * self.float32_s:
                ratio = took_s / self.float32_s
                found.append(f"{name} {ratio:.2f} x: {reason(spec, self.network, name)}")
        return found


def reason(spec: DeviceSpec, network: str, precision: str) -> str:
    """Return why a device is slower in a narrower precision than in float32."""
    if precision == "int8" and "int8" not in spec.flops_per_s:
        return "no products of bytes: it computes in floats, and conversions come on top"
    told = _MEASURED.get((spec.name, precision)) or _MEASURED.get((spec.runtime, precision))
    return told if told is not None else UNEXPLAINED


_MEASURED: dict[tuple[str, str], str] = {
    (
        "nvidia-t4",
        "float16",
    ): "bound by launches: rows of narrow networks have 0.92 to 0.95 of float32",
    ("intel-xeon-8480plus", "int8"): "bound by launches at batch 1, and conversions come on top",
    ("amd-epyc-9654", "int8"): "ncnn's int8 rows are of five CNNs: its rate of MatMul is a prior",
    (
        "amlogic-s922x-gpu",
        "int8",
    ): "rows of Arm NN have int8 at 2.4 to 3.2 times EfficientNet-Lite's",
    (
        "rockchip-rk3399-gpu",
        "int8",
    ): "rows of Arm NN have int8 at 1.3 times EfficientNet-Lite's",
    (
        "rockchip-rk3588-gpu",
        "int8",
    ): "not the hardware: rows have 0.7 times; conversions are dear here",
}
"""Why, by device or runtime and precision, where rows show it."""


def quantized(network: str, folder: Path) -> Model:
    """Return a network of the zoo as ONNX Runtime's tools quantize it, with conversions."""
    from onnxruntime import quantization as q

    graph = load_model(f"zoo:{network}").graph
    rng = np.random.default_rng(1)
    feed: dict[str, Any] = {}
    for name in graph.inputs:
        tensor = graph.tensors[name]
        shape = tensor.static_shape
        ids = tensor.dtype == "int64"
        feed[name] = rng.integers(0, 2, shape) if ids else rng.random(shape, dtype=np.float32)

    class Once(q.CalibrationDataReader):  # type: ignore[misc]
        feeds = iter([feed])

        def get_next(self) -> dict[str, Any] | None:
            return next(self.feeds, None)

    made = folder / f"{network}.onnx"
    q.quantize_static(materialise(network), made, Once(), quant_format=q.QuantFormat.QDQ)
    return load_model(str(made))


def alone_s(model: Model, platform: Platform, precision: str | None) -> float | None:
    """Return what `simulate` says of a model on the one device of a platform."""
    (name,) = platform.devices
    try:
        problem = Problem.of(model, platform, execute={name: precision} if precision else {})
        return simulate(plan(problem, "single")).latency_s
    except HetsimError:
        return None


def line(platform: Platform, network: str, floats: Model, integers: Model) -> Line:
    """Return the line of a network, in floats and quantized, on the one device of a platform."""
    return Line(
        device=platform.name,
        network=network,
        float32_s=alone_s(floats, platform, "float32"),
        float16_s=alone_s(floats, platform, "float16"),
        int8_s=alone_s(integers, platform, None),
    )


def main(devices: list[str]) -> int:
    """Print the table of all devices, or those of `devices`."""
    with tempfile.TemporaryDirectory() as folder:
        models = [(n, load_model(f"zoo:{n}"), quantized(n, Path(folder))) for n in NETWORKS]
        table = [
            line(load_platform(device), *model)
            for device in devices or device_names()
            for model in models
        ]
    print("| device | network | float32, ms | float16, ms | QDQ int8, ms | dearer than float32 |")
    print("|---|---|---|---|---|---|")
    unexplained = 0
    for one in table:
        cells = [
            "-" if took_s is None else f"{1e3 * took_s:.3g}"
            for took_s in (one.float32_s, one.float16_s, one.int8_s)
        ]
        dearer = one.inversions()
        unexplained += sum(UNEXPLAINED in told for told in dearer)
        print(f"| {one.device} | {one.network} | {' | '.join(cells)} | {'; '.join(dearer)} |")
    return 1 if unexplained else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
