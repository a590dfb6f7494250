"""CPU seconds and groups of every merge method, beside torch.fx where it is installed.

JSON lines out. Supported nodes are drawn at 70 % with a fixed seed. torch.fx's
CapabilityBasedPartitioner gets the same DAG and mask, in its vertical mode; where it is not
installed a line says so.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

from hetsim.graph.dag import Dag
from hetsim.partitioning.methods import methods
from hetsim.partitioning.partition import order_groups

SUPPORTED_SHARE = 0.7
PEER_BUDGET_NODES = 1_000


def random_layered(n: int, rng: random.Random) -> Dag:
    """Nodes with one or two inputs from the 16 nodes before them."""
    return Dag.from_edges(
        n,
        {
            (max(0, v - rng.randint(1, 16)), v)
            for v in range(1, n)
            for _ in range(rng.choice((1, 1, 2)))
        },
    )


def transformer_like(n: int, rng: random.Random) -> Dag:
    """Blocks of ten: three parallel projections, a join, a tail, and two residual edges."""
    edges: set[tuple[int, int]] = set()
    for base in range(0, n - 10, 10):
        edges |= {(base, base + k) for k in (1, 2, 3)}
        edges |= {(base + 1, base + 4), (base + 2, base + 4), (base + 3, base + 5)}
        edges |= {(base + k, base + k + 1) for k in range(4, 10)}
        edges |= {(base, base + 6), (base + 6, base + 9)}
    return Dag.from_edges(n, edges)


def inception_like(n: int, rng: random.Random) -> Dag:
    """Blocks of twelve: four branches of different length and a join."""
    edges: set[tuple[int, int]] = set()
    for base in range(0, n - 12, 12):
        at = base + 1
        for length in (1, 2, 3, 4):
            edges.add((base, at))
            edges |= {(at + k, at + k + 1) for k in range(length - 1)}
            edges.add((at + length - 1, base + 11))
            at += length
        edges.add((base + 11, base + 12))
    return Dag.from_edges(n, edges)


def alternating_chain(n: int, rng: random.Random) -> Dag:
    """A chain; its nodes take turns on the two devices."""
    return Dag.from_edges(n, {(v, v + 1) for v in range(n - 1)})


def uniform_random(n: int, rng: random.Random) -> Dag:
    """Two edges a node between any two nodes: the worst case for ordered searches."""
    edges = {(min(p), max(p)) for p in (rng.sample(range(n), 2) for _ in range(2 * n))}
    return Dag.from_edges(n, edges)


SHAPES: dict[str, Callable[[int, random.Random], Dag]] = {
    "random layered": random_layered,
    "transformer-like": transformer_like,
    "inception-like": inception_like,
    "alternating chain": alternating_chain,
    "uniform random": uniform_random,
}
SIZES: dict[str, tuple[int, ...]] = {
    "compact": (1_000, 10_000, 30_000, 100_000),
    "stage": (1_000, 10_000, 30_000, 100_000),
    "convex": (1_000, 10_000),
    "boundary": (1_000, 10_000),
    "greedy": (1_000, 2_000),
}


def instance(shape: str, n: int) -> tuple[Dag, list[int]]:
    """The DAG of a shape and the device of each node: 0 the accelerator, 1 the host."""
    rng = random.Random(f"{shape} {n}")
    dag = SHAPES[shape](n, rng)
    if shape == "alternating chain":
        return dag, [v % 2 for v in range(n)]
    return dag, [int(rng.random() >= SUPPORTED_SHARE) for _ in range(n)]


def timed(call: Callable[[], Sequence[int]]) -> tuple[float, int]:
    """CPU seconds of a merge, and how many groups it made."""
    began = time.process_time()
    labels = call()
    return time.process_time() - began, len(set(labels))


def torch_fx(dag: Dag, device_of: Sequence[int]) -> tuple[float, int, bool]:
    """CPU seconds, accelerator partitions, and validity of torch.fx in its vertical mode."""
    import torch
    from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
    from torch.fx.passes.operator_support import OperatorSupportBase

    graph = torch.fx.Graph()
    source = graph.placeholder("x")
    made: list[Any] = []
    for v in range(dag.n):
        arguments = tuple(made[u] for u in dag.preds[v]) or (source,)
        made.append(graph.call_function(_joined, arguments))
    graph.output(tuple(made[v] for v in range(dag.n) if not dag.succs[v]))
    on_device = {node.name for v, node in enumerate(made) if device_of[v] == 0}

    class Mask(OperatorSupportBase):  # type: ignore[misc, unused-ignore]
        def is_node_supported(self, submodules: Any, node: Any) -> bool:
            return node.name in on_device

    module = torch.fx.GraphModule(torch.nn.Module(), graph)
    partitioner = CapabilityBasedPartitioner(
        module, Mask(), allows_single_node_partition=True, skip_horizontal_fusion=True
    )
    began = time.process_time()
    found = partitioner.propose_partitions()
    seconds = time.process_time() - began
    labels = [-1 - v for v in range(dag.n)]
    for index, part in enumerate(found):
        for v, node in enumerate(made):
            if node in part.nodes:
                labels[v] = index
    return seconds, len(found), order_groups(dag, labels) is not None


def _joined(*values: Any) -> Any:
    return values[0]


def emit(**record: Any) -> None:
    """Print one JSON line."""
    print(json.dumps({"benchmark": "partition", **record}), flush=True)


def main() -> None:
    """Every method on every shape at its sizes, then torch.fx beside compact."""
    for info in methods():
        merge = import_module(info.module).merge
        for shape in SHAPES:
            for n in SIZES.get(info.name, (1_000,)):
                if shape == "uniform random" and n > 30_000:
                    continue
                dag, device_of = instance(shape, n)
                seconds, groups = timed(lambda: merge(dag, device_of))  # noqa: B023
                emit(method=info.name, shape=shape, nodes=n, cpu_s=round(seconds, 4), groups=groups)
    try:
        import_module("torch")
    except ImportError:
        emit(method="torch.fx", absent="pip install torch==2.13.0 to compare with it")
        return
    compact = import_module("hetsim.partitioning.compact").merge
    for shape in SHAPES:
        dag, device_of = instance(shape, PEER_BUDGET_NODES)
        seconds, groups, valid = torch_fx(dag, device_of)
        # torch.fx leaves host nodes single: so do we here, each on a device of its own.
        apart = [0 if device == 0 else 1 + v for v, device in enumerate(device_of)]
        began = time.process_time()
        labels = compact(dag, apart)
        ours = time.process_time() - began
        accelerated = len({labels[v] for v in range(dag.n) if device_of[v] == 0})
        emit(
            method="torch.fx",
            shape=shape,
            nodes=dag.n,
            cpu_s=round(seconds, 4),
            groups=groups,
            acyclic=valid,
            compact_cpu_s=round(ours, 4),
            compact_groups=accelerated,
            ratio=round(seconds / ours, 1),
        )


if __name__ == "__main__":
    main()
