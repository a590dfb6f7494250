"""torch.fx's CapabilityBasedPartitioner on a DAG and a mask."""

from __future__ import annotations

import gc
import time
from collections.abc import Sequence
from typing import Any

from hetsim.graph.dag import Dag


def split(dag: Dag, device_of: Sequence[int]) -> tuple[float, list[int]]:
    """CPU seconds and a label a node, in the vertical mode; device 0 is the accelerator.

    What it leaves on the host it leaves in no partition: there each node has its own label.
    """
    import torch
    from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
    from torch.fx.passes.operator_support import OperatorSupportBase

    graph = torch.fx.Graph()
    source = graph.placeholder("x")
    made: list[Any] = []
    for preds in dag.preds:
        made.append(graph.call_function(_joined, tuple(made[u] for u in preds) or (source,)))
    graph.output(tuple(made[v] for v in range(dag.n) if not dag.succs[v]))
    on_device = {node.name for v, node in enumerate(made) if device_of[v] == 0}

    class Mask(OperatorSupportBase):  # type: ignore[misc, unused-ignore]
        def is_node_supported(self, submodules: Any, node: Any) -> bool:
            return node.name in on_device

    module = torch.fx.GraphModule(torch.nn.Module(), graph)
    partitioner = CapabilityBasedPartitioner(
        module, Mask(), allows_single_node_partition=True, skip_horizontal_fusion=True
    )
    gc.collect()
    began = time.process_time()
    found = partitioner.propose_partitions()
    seconds = time.process_time() - began
    labels = list(range(dag.n))
    id_of = {node: v for v, node in enumerate(made)}
    for index, part in enumerate(found):
        for node in part.nodes:
            labels[id_of[node]] = dag.n + index
    return seconds, labels


def _joined(*values: Any) -> Any:
    return values[0]
