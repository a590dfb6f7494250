"""What failures cost for real: random kills on a three-node Ray cluster, eight requests in flight.

Every run opens a session on three devices, each bound to a node of its own, submits eight
requests, and kills at a random moment, in turn, a device's actor, its worker process, or its
node. All outputs must be those of the whole model to the last bit, within the deadline, and no
process may be left. JSON lines on stdout, one a run and one in sum; exit code 1 where a run
was not right:

    python benchmarks/faults.py [--runs N] [--seed S]
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper

import hetsim
from hetsim.backend.cuts import like_devices
from hetsim.errors import HetsimError
from hetsim.execution.devices.weights import staged
from hetsim.execution.equality import differences
from hetsim.execution.run import run_whole
from hetsim.execution.transports.ray_connection.processes import command_line, descendants, end_all
from hetsim.graph.inputs.samples import random_inputs

DEVICES = ("cpu", "gpu", "npu")
KILLS = ("actor", "worker", "node")
REQUESTS = 8
DEADLINE_S = 60.0
HANG_S = 20.0
SIZE = 256
STORE_BYTES = 96 * 2**20
HEALTH = {
    "health_check_initial_delay_ms": 0,
    "health_check_period_ms": 300,
    "health_check_timeout_ms": 2000,
    "health_check_failure_threshold": 3,
}


def model_file(folder: Path) -> Path:
    """Write a chain of matrix products with a skip; what crosses is too large to go inline."""
    rng = np.random.default_rng(11)
    nodes, weights = [], []
    for k in range(10):
        array = rng.standard_normal((SIZE, SIZE)).astype(np.float32) / np.float32(SIZE)
        weights.append(onnx.numpy_helper.from_array(array, f"w{k}"))
        nodes.append(helper.make_node("MatMul", [f"v{k}", f"w{k}"], [f"m{k}"], name=f"mul{k}"))
        other = f"v{k - 4}" if k == 6 else f"m{k}"
        nodes.append(helper.make_node("Add", [f"m{k}", other], [f"v{k + 1}"], name=f"add{k}"))
    shape = [SIZE, SIZE]
    graph = helper.make_graph(
        nodes,
        "chain",
        [helper.make_tensor_value_info("v0", onnx.TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("v10", onnx.TensorProto.FLOAT, shape)],
        weights,
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    path = folder / "chain.onnx"
    onnx.save(proto, path)
    return path


def plan_of(path: Path) -> hetsim.Plan:
    """Cut the chain into six subgraphs on three devices that all support everything."""
    model = hetsim.load_model(str(path), canonical="none")
    cuts = ((0, 0, 4), (1, 4, 8), (2, 8, 11), (1, 11, 15), (2, 15, 18), (0, 18, 20))
    groups = tuple(hetsim.Group(DEVICES[d], tuple(range(a, b))) for d, a, b in cuts)
    return hetsim.Plan(like_devices(model, DEVICES), "by hand", groups)


class Nodes:
    """The cluster: a head with the host's device, and a node for each of the others."""

    def __init__(self) -> None:
        from ray.cluster_utils import Cluster

        self._cluster = Cluster(
            initialize_head=True,
            head_node_args={
                "num_cpus": 1,
                "resources": {"hetsim_cpu": 1},
                "object_store_memory": STORE_BYTES,
                "include_dashboard": False,
                "_system_config": HEALTH,
            },
        )
        self._of: dict[str, Any] = {}
        self.complete()
        self.address: str = self._cluster.address

    def complete(self) -> None:
        """Start the nodes that are not there."""
        for device in DEVICES[1:]:
            if device not in self._of:
                self._of[device] = self._cluster.add_node(
                    num_cpus=1,
                    resources={f"hetsim_{device}": 1},
                    object_store_memory=STORE_BYTES,
                    include_dashboard=False,
                )
        self._cluster.wait_for_nodes()

    def kill(self, device: str) -> None:
        """End a device's node with all its processes, at once."""
        self._cluster.remove_node(self._of.pop(device), allow_graceful=False)

    def close(self) -> None:
        """End all nodes."""
        self._cluster.shutdown()  # type: ignore[no-untyped-call]


def workers() -> dict[int, str]:
    """Process ids of the device actors."""
    return {
        process.pid: line
        for process in descendants(os.getpid())
        if "DeviceActor" in (line := command_line(process))
    }


def strike(kind: str, device: str, session: hetsim.Session, nodes: Nodes, pid: int) -> None:
    """Kill something."""
    if kind == "actor":
        session.inject([hetsim.Failure(device, 0.0, "kill", 0.0)])
    elif kind == "worker":
        os.kill(pid, signal.SIGKILL)
    else:
        nodes.kill(device)


def one_run(
    index: int, plan: hetsim.Plan, nodes: Nodes, wanted: list[Any], span_s: float, seed: int
) -> dict[str, Any]:
    """Run eight requests through a session in which something dies; return what happened."""
    rng = np.random.default_rng((seed, index))
    kind = KILLS[index % len(KILLS)]
    device = str(rng.choice(DEVICES[1:] if kind == "node" else DEVICES))
    at_s = float(rng.uniform(0, span_s))
    record: dict[str, Any] = {"run": index, "kill": kind, "device": device, "at_s": round(at_s, 4)}
    right = 0
    began = time.monotonic()
    with hetsim.Session(
        plan, "ray", address=nodes.address, timeout_s=DEADLINE_S, hang_s=HANG_S
    ) as session:
        pids = session.processes()
        opened = time.monotonic()
        timer = threading.Timer(at_s, strike, (kind, device, session, nodes, pids[device]))
        timer.start()
        requests = [session.run_async(seed=s) for s in range(REQUESTS)]
        for request, expected in zip(requests, wanted, strict=True):
            try:
                right += not differences(request.result(DEADLINE_S), expected)
            except HetsimError as error:
                record["error"] = str(error)
        ended = time.monotonic()
        timer.join()
        record["recoveries"] = [
            {"device": r.device, "kind": r.kind, "how": r.how, "s": round(r.seconds, 3),
             "requests": len(r.requests)}
            for r in session.recoveries
        ]  # fmt: skip
    deadline = time.monotonic() + 5.0
    while workers() and time.monotonic() < deadline:
        time.sleep(0.05)
    record |= {
        "right": right,
        "open_s": round(opened - began, 3),
        "requests_s": round(ended - opened, 3),
        "left_behind": len(workers()),
    }
    nodes.complete()
    return record


def lines() -> Callable[[str], None]:
    """Return what writes a line to stdout, which is closed to everybody else: Ray reports there."""
    stream = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def emit(line: str) -> None:
        stream.write(line + "\n")
        stream.flush()

    return emit


def main() -> int:
    """Run the benchmark; return its exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    os.environ |= {
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_AUTH_MODE": "disabled",
        "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    }
    emit = lines()
    started = descendants(os.getpid())
    failed = 0
    recovered: list[float] = []
    with tempfile.TemporaryDirectory(prefix="hetsim-") as folder:
        plan = plan_of(model_file(Path(folder)))
        assert plan.problem.model is not None
        with staged(plan.problem.model) as model:
            wanted = [run_whole(model, random_inputs(model, seed)) for seed in range(REQUESTS)]
        nodes = Nodes()
        try:
            with hetsim.Session(plan, "ray", address=nodes.address) as session:
                session.run()
                began = time.monotonic()
                for request in [session.run_async(seed=s) for s in range(REQUESTS)]:
                    request.result()
                span_s = time.monotonic() - began
            emit(json.dumps({"calm_s": round(span_s, 3), "requests": REQUESTS}))
            for index in range(options.runs):
                record = one_run(index, plan, nodes, wanted, span_s, options.seed)
                failed += record["right"] < REQUESTS or record["left_behind"] > 0
                recovered += [entry["s"] for entry in record["recoveries"]]
                emit(json.dumps(record))
        finally:
            import ray

            below = descendants(os.getpid())
            ray.shutdown()
            nodes.close()
            end_all([process for process in below if process not in started], 10.0)
    summary = {
        "runs": options.runs,
        "failed": failed,
        "recoveries": len(recovered),
        "recovery_median_s": round(statistics.median(recovered), 3) if recovered else None,
        "recovery_max_s": round(max(recovered), 3) if recovered else None,
        "processes_left": len([p for p in descendants(os.getpid()) if p not in started]),
    }
    emit(json.dumps(summary))
    return 1 if failed or summary["processes_left"] else 0


if __name__ == "__main__":
    sys.exit(main())
