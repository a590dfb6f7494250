"""How many requests a second a laptop carries within 5 ms, by device and batching; and a trace."""

import tempfile
from itertools import pairwise
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import hetsim
from hetsim.workload.arrivals import Poisson, Replay
from hetsim.workload.deployment import DynamicBatching, Served


def network(folder: Path) -> str:
    """Three layers of 2048 x 2048 that take any number of rows at a time."""
    names = ["x", "a", "b", "y"]
    weight = np.zeros((2048, 2048), dtype=np.float32)
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", [source, f"w_{target}"], [target])
            for source, target in pairwise(names)
        ],
        "layers",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 2048])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 2048])],
        [numpy_helper.from_array(weight, f"w_{name}") for name in names[1:]],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(made, folder / "layers.onnx")
    return str(folder / "layers.onnx")


with tempfile.TemporaryDirectory() as name:
    folder = Path(name)
    model = network(folder)
    platform = hetsim.load_platform("laptop")
    deployments = {}
    for device in ("gpu", "npu"):
        plain = Served(model, f"single:{device}")
        deployments[device] = hetsim.Deployment((plain,))
        batching = DynamicBatching(8)
        batched = Served(
            model, f"single:{device}", dynamic_batching=batching, batch_sizes=(1, 2, 4, 8)
        )
        deployments[f"{device}, batches"] = hetsim.Deployment((batched,))

    asked = (hetsim.Slo(share=0.99, latency_s=0.005),)
    stream = hetsim.Stream("requests", model, Poisson(1.0), slos=asked)
    workload = hetsim.Workload((stream,), requests=1)
    found = hetsim.capacity(deployments, workload, platform=platform, most_requests=2**17)
    print(f"Poisson arrivals; no plan carries {found.bound_per_s:.0f}/s")
    for row in found.rows:
        print(f"  {row.name:12} {row.highest_per_s:5.0f}/s, {row.utilization:.0%} of its ceiling")
        print(f"    {row.ends}")
    print(f"best: {found.best.name}, which carries 500/s: {found.best.at_rate(500)}")

    came = Replay("traces/AzureLLMInferenceTrace_conv.csv")
    trace = hetsim.Workload((hetsim.Stream("requests", model, came, slos=asked),))
    row = hetsim.capacity(
        hetsim.Deployment((Served(model, "single:cpu"),)), trace, platform=platform
    ).best
    print(f"a trace of {row.sample} requests, on the cpu alone, {row.how}:")
    print(f"  {float(row.factor):.12g} times as fast as it came, {row.highest_per_s:.6g}/s")
