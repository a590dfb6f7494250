"""CPU seconds and groups of every merge method, beside torch.fx and OpenVINO if installed.

JSON lines out. First what ``hetsim.partition`` takes as a whole from 1,000 to 100,000 nodes, of a
problem at hand: `cpu_s` as it stands, `plain_s` with plain loops in place of machine
code, whose partitions are the same (where one is not, the benchmark ends), and the exponent e of
n^e by which each grows from the first size to the last. Machine code is loaded before; `loading_s`
says what that takes, compiling apart where it is kept already.

Then the methods alone. Supported nodes are drawn at 70 % with a fixed seed. torch.fx's
CapabilityBasedPartitioner (in its vertical mode) and OpenVINO's HETERO plugin get the same DAG
and mask; where one is not installed a line says so. A peer's `ratio_*` is its CPU seconds over
those of the method named; `acyclic` says whether its groups can be run one after another, and
`groups_are_same` whether our boundary method gives the same groups.
"""

from __future__ import annotations

import gc
import json
import math
import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any
from unittest import mock

import numpy as np

from hetsim.core import compile_threshold
from hetsim.graph.dag import Dag
from hetsim.partitioning import scans
from hetsim.partitioning.flow import partition
from hetsim.partitioning.methods.registry import methods
from hetsim.partitioning.partition import Partition
from hetsim.problem.groups import order_groups
from hetsim.problem.problem import Problem
from peers import openvino_hetero, torch_fx

SUPPORTED_SHARE = 0.7
PEER_NODES = 1_000


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


def wide_layered(n: int, rng: random.Random) -> Dag:
    """Layers of 30; one or two inputs from the layer before, some from up to 20 layers before."""
    width = 30
    edges: set[tuple[int, int]] = set()
    for v in range(width, n):
        layer = v // width
        for _ in range(rng.randint(1, 2)):
            back = rng.randint(1, min(20, layer)) if rng.random() < 0.05 else 1
            edges.add(((layer - back) * width + rng.randrange(width), v))
    return Dag.from_edges(n, edges)


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
    "wide layered": wide_layered,
    "transformer-like": transformer_like,
    "inception-like": inception_like,
    "alternating chain": alternating_chain,
    "uniform random": uniform_random,
}
VERB_SHAPES = ("random layered", "wide layered", "transformer-like", "uniform random")
UNIFORM_TOO = ("byoc", "compact", "convex", "stage")
"""Methods that large graphs of edges between any nodes are for."""

VERB_SIZES = (1_000, 10_000, 100_000)
SIZES: dict[str, tuple[int, ...]] = {
    "compact": (1_000, 10_000, 30_000, 100_000),
    "stage": (1_000, 10_000, 30_000, 100_000),
    "convex": (1_000, 10_000, 30_000, 100_000),
    "boundary": (1_000, 10_000, 30_000, 100_000),
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
    gc.collect()  # what others left behind is not a part of it
    began = time.process_time()
    labels = call()
    return time.process_time() - began, len(set(labels))


def emit(**record: Any) -> None:
    """Print one JSON line."""
    print(json.dumps({"benchmark": "partition", **record}), flush=True)


def main() -> None:
    """Every method on every shape at its sizes, then the peers beside boundary and compact."""
    verbs()
    for info in methods():
        merge = import_module(f"hetsim.partitioning.methods.{info.name}").merge
        for shape in SHAPES:
            for n in SIZES.get(info.name, (1_000,)):
                if shape == "uniform random" and n > 30_000 and info.name not in UNIFORM_TOO:
                    continue
                dag, device_of = instance(shape, n)
                seconds, groups = timed(lambda: merge(dag, device_of))  # noqa: B023
                emit(method=info.name, shape=shape, nodes=n, cpu_s=round(seconds, 4), groups=groups)
    compare_torch()
    compare_openvino()


def verbs() -> None:
    """``hetsim.partition`` by every method, beside plain loops, and how both grow."""
    dag, device_of = instance("random layered", scans.COMPILE_FROM)
    for name in ("compact", "convex"):
        merge = import_module(f"hetsim.partitioning.methods.{name}").merge
        first, again = (timed(lambda: merge(dag, device_of))[0] for _ in range(2))  # noqa: B023
        emit(verb="loading", method=name, loading_s=round(first - again, 2))
    for shape in VERB_SHAPES:
        taken: dict[str, list[tuple[float, float]]] = {}
        for n in VERB_SIZES:
            dag, device_of = instance(shape, n)
            seconds = np.ones((n, 2))
            seconds[np.array(device_of) == 1, 0] = np.inf
            edges = [(u, v, 8) for u, v in dag.edges()]
            gc.collect()
            began = time.process_time()
            problem = Problem.from_arrays(seconds, edges, devices=("npu", "cpu"), host=1)
            made_s = time.process_time() - began
            problem.dag  # noqa: B018 what stands in the problem is made once
            emit(verb="from_arrays", shape=shape, nodes=n, cpu_s=round(made_s, 4))
            for info in methods():
                if shape == "uniform random" and info.name not in UNIFORM_TOO:
                    continue
                quick_s, groups = spent(lambda: partition(problem, info.name))  # noqa: B023
                with plain_loops():
                    plain_s, same = spent(lambda: partition(problem, info.name))  # noqa: B023
                if groups != same:
                    raise SystemExit(f"{info.name} of {shape}, {n} nodes: partitions differ")
                taken.setdefault(info.name, []).append((quick_s, plain_s))
                emit(
                    verb="partition", method=info.name, shape=shape, nodes=n,
                    cpu_s=round(quick_s, 4), plain_s=round(plain_s, 4), groups=len(groups.groups),
                )  # fmt: skip
        growth = math.log(VERB_SIZES[-1] / VERB_SIZES[0])
        for name, times in taken.items():
            quick, plain = (math.log(times[-1][k] / times[0][k]) / growth for k in range(2))
            emit(
                verb="partition", method=name, shape=shape, exponent=round(quick, 2),
                plain_exponent=round(plain, 2),
            )  # fmt: skip


def spent(call: Callable[[], Partition]) -> tuple[float, Partition]:
    """CPU seconds of a partition, of short ones the best of three, and the partition."""
    best = math.inf
    for _ in range(3):
        gc.collect()
        began = time.process_time()
        made = call()
        best = min(best, time.process_time() - began)
        if best > 0.5:
            break
    return best, made


@contextmanager
def plain_loops() -> Iterator[None]:
    """No machine code, whatever the size."""
    with mock.patch.object(compile_threshold, "pays", return_value=False):
        yield


def compare_torch() -> None:
    """torch.fx beside boundary and compact: groups of the accelerator, host nodes left single."""
    if absent("torch.fx", "torch", "2.13.0"):
        return
    for shape in SHAPES:
        dag, device_of = instance(shape, PEER_NODES)
        # torch.fx leaves host nodes single: so do we here, each on a device of its own.
        apart = [0 if device == 0 else 1 + v for v, device in enumerate(device_of)]
        seconds, labels = torch_fx.split(dag, device_of)
        beside("torch.fx", shape, dag, apart, seconds, labels, on_host=device_of.count(1))


def compare_openvino() -> None:
    """OpenVINO's HETERO plugin beside boundary and compact: groups of both devices."""
    if absent("OpenVINO HETERO", "openvino", "2026.4.1"):
        return
    for shape in SHAPES:
        # Where groups are entangled, 10,000 nodes take it minutes.
        sizes = (1_000,) if shape in ("wide layered", "uniform random") else (1_000, 10_000)
        for n in sizes:
            dag, device_of = instance(shape, n)
            seconds, labels = openvino_hetero.split(dag, device_of)
            own = openvino_hetero.groups_by_its_rule(dag, device_of)
            same = len({*zip(own, labels, strict=True)}) == len({*own}) == len({*labels})
            beside("OpenVINO HETERO", shape, dag, device_of, seconds, labels, groups_are_same=same)


def absent(peer: str, package: str, version: str) -> bool:
    """Whether a peer is not installed; where it is not, a line says so."""
    try:
        import_module(package)
    except ImportError:
        emit(method=peer, absent=f"pip install {package}=={version} to compare with it")
        return True
    return False


def beside(
    peer: str,
    shape: str,
    dag: Dag,
    device_of: Sequence[int],
    seconds: float,
    labels: list[int],
    *,
    on_host: int = 0,
    **more: Any,
) -> None:
    """Emit what a peer found beside our methods, less the `on_host` groups that are one node."""
    for name in ("boundary", "compact"):
        merge = import_module(f"hetsim.partitioning.methods.{name}").merge
        ours, groups = timed(lambda: merge(dag, device_of))  # noqa: B023
        more[f"{name}_cpu_s"] = round(ours, 4)
        more[f"{name}_groups"] = groups - on_host
        more[f"ratio_{name}"] = round(seconds / ours, 1)
    emit(
        method=peer,
        shape=shape,
        nodes=dag.n,
        cpu_s=round(seconds, 4),
        groups=len(set(labels)) - on_host,
        acyclic=order_groups(dag, labels) is not None,
        **more,
    )


if __name__ == "__main__":
    main()
