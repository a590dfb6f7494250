"""Seconds to split a model of 2.5 GB of weights, and the memory in which three devices run it.

A chain of MatMul and Relu whose weights, external data of random numbers, every run reads in
full. Memory is the proportional set size (a page that several processes share counts once) of
this process and all below it, Ray's among them, sampled while the plan runs and while the whole
model runs for comparison; `growth_ratio` is what it grew by in that time, by the bytes of the
weights. A Ray is started before that. JSON lines on stdout:

    python benchmarks/big_weights.py [--megabytes N] [--rows N] [--executor threads|ray]
        [--level none|basic]
"""

from __future__ import annotations

import argparse
import json
import math
import os
import tempfile
import threading
import time
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx

import hetsim
from hetsim.backend import Split, split
from hetsim.execution.program import assemble
from hetsim.execution.transports.processes import command_line, descendants
from hetsim.execution.transports.ray_connection import ray_connection
from hetsim.graph.model import Model
from hetsim.problem.plan import Plan

LAYERS = 30
DEVICES = 3
_PERIOD_S = 0.02
_BLOCK = 1 << 20


def generate(folder: Path, weight_bytes: int, rows: int) -> tuple[Path, int]:
    """Write the model into `folder`; return its path and the bytes of its weights."""
    side = 16 * math.ceil(math.sqrt(weight_bytes / LAYERS / 4) / 16)
    tensor_bytes = 4 * side * side
    generator = np.random.Generator(np.random.SFC64(1))
    with (folder / "weights.bin").open("wb") as file:
        for _ in range(LAYERS):
            left = side * side
            while left:
                block = generator.random(min(_BLOCK, left), dtype=np.float32)
                block -= np.float32(0.5)
                block *= np.float32(math.sqrt(24 / side))
                file.write(block.data)
                left -= block.size
    nodes, weights, value = [], [], "x"
    for layer in range(LAYERS):
        weight = onnx.TensorProto(
            name=f"w{layer}", data_type=onnx.TensorProto.FLOAT, dims=[side, side]
        )
        weight.data_location = onnx.TensorProto.EXTERNAL
        for key, text in (
            ("location", "weights.bin"),
            ("offset", str(layer * tensor_bytes)),
            ("length", str(tensor_bytes)),
        ):
            weight.external_data.add(key=key, value=text)
        weights.append(weight)
        nodes.append(onnx.helper.make_node("MatMul", [value, f"w{layer}"], [f"h{layer}"]))
        value = "y" if layer == LAYERS - 1 else f"r{layer}"
        nodes.append(onnx.helper.make_node("Relu", [f"h{layer}"], [value]))
    row = [
        onnx.helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, [rows, side]) for n in "xy"
    ]
    graph = onnx.helper.make_graph(nodes, "big", row[:1], row[1:], weights)
    proto = onnx.helper.make_model(
        graph, opset_imports=[onnx.helper.make_opsetid("", 20)], ir_version=9
    )
    path = folder / "big.onnx"
    path.write_bytes(proto.SerializeToString())
    return path, LAYERS * tensor_bytes


def thirds(model: Model) -> Plan:
    """Return the plan that gives each of three devices one run of consecutive nodes."""
    plan = split(model, Split(devices=DEVICES))
    count = len(model.graph.nodes)
    bounds = [count * k // DEVICES for k in range(DEVICES + 1)]
    groups = tuple(
        hetsim.Group(device, tuple(range(start, end)))
        for device, start, end in zip(plan.problem.devices, bounds, bounds[1:], strict=False)
    )
    return replace(plan, groups=groups)


def proportional_bytes() -> tuple[int, int]:
    """Return proportional set sizes in bytes: of this process and all below it, and without Ray's
    spare workers, of which there are now more and now fewer.
    """
    total = _proportional(os.getpid())
    spare = 0
    for process in descendants(os.getpid()):
        nbytes = _proportional(process.pid)
        total += nbytes
        command = command_line(process)
        if command.startswith("ray::IDLE") or "default_worker.py" in command:
            spare += nbytes
    return total, total - spare


def _proportional(pid: int) -> int:
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:  # it has ended
        return 0
    return sum(1024 * int(line.split()[1]) for line in text.splitlines() if line[:4] == "Pss:")


class Peak:
    """The most that `proportional_bytes` gave twice in a row while the context lasted.

    Processes are read one after another: one sample may count a page twice that becomes shared.
    """

    def __enter__(self) -> Peak:
        self.before, self.busy = proportional_bytes()
        self.nbytes = self.before
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        last = self.before, self.busy
        while not self._stop.wait(_PERIOD_S):
            now = proportional_bytes()
            self.nbytes = max(self.nbytes, min(last[0], now[0]))
            self.busy = max(self.busy, min(last[1], now[1]))
            last = now


def measure(path: Path, weight_bytes: int, executor: str, level: str) -> dict[str, object]:
    """Split and run the model at `path`; return the figures."""
    began = time.perf_counter()
    model = hetsim.load_model(path, canonical=level)  # type: ignore[arg-type]
    plan = thirds(model)
    program = assemble(plan, model)
    split_s = time.perf_counter() - began
    del program
    with ray_connection() if executor == "ray" else nullcontext(), Peak() as peak:
        began = time.perf_counter()
        done = hetsim.run(plan, executor=executor, seed=1)  # type: ignore[arg-type]
        run_s = time.perf_counter() - began
    return {
        "benchmark": "big_weights",
        "executor": executor,
        "level": level,
        "weight_bytes": weight_bytes,
        "split_s": round(split_s, 3),
        "run_s": round(run_s, 3),
        "peak_pss_bytes": peak.nbytes,
        "busy_pss_bytes": peak.busy,
        "peak_ratio": round(peak.nbytes / weight_bytes, 3),
        "growth_ratio": round((peak.nbytes - peak.before) / weight_bytes, 3),
        "bitwise_equal": done.bitwise_equal,
        "finite": bool(np.isfinite(done.outputs["y"]).all() and done.outputs["y"].any()),
    }


def main() -> None:
    """Print a line for each executor, all on one model."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=float, default=2500.0)
    parser.add_argument("--rows", type=int, default=4, help="of the input: more compute longer")
    parser.add_argument("--executor", choices=("threads", "ray"))
    parser.add_argument("--level", choices=("none", "basic"), default="basic")
    given = parser.parse_args()
    executors = ("threads", "ray") if given.executor is None else (given.executor,)
    with tempfile.TemporaryDirectory(prefix="hetsim-big-") as folder:
        path, weight_bytes = generate(Path(folder), int(given.megabytes * 10**6), given.rows)
        for executor in executors:
            print(json.dumps(measure(path, weight_bytes, executor, given.level)), flush=True)


if __name__ == "__main__":
    main()
