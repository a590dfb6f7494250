"""What faults are tried on: a chain cut into six subgraphs, and a Ray cluster of three nodes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper

import hetsim
from hetsim.backend import like_devices

DEVICES = ("cpu", "gpu", "npu")
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

    def process(self, kind: str, device: str) -> int:
        """Return the id of a device's raylet, or of the cluster's GCS."""
        if kind == "gcs":
            head: Any = self._cluster.head_node
            found = head.all_processes["gcs_server"]
        else:
            found = self._of[device].all_processes["raylet"]
        return int(found[0].process.pid)

    def close(self) -> None:
        """End all nodes."""
        self._cluster.shutdown()  # type: ignore[no-untyped-call]
