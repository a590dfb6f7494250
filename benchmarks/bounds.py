"""CPU seconds and memory of the latency bound, from 1,000 to 100,000 nodes: one JSON line each.

Random graphs of ``benchmarks/partition.py``, three devices, each node's times drawn apart. Machine
code is compiled,
or loaded, before.
"""

from __future__ import annotations

import json
import random
import resource
import time
from collections.abc import Callable

import numpy as np

from hetsim.graph.dag import Dag
from hetsim.placement.bounds.lower_bound import bound_of
from hetsim.problem.problem import Problem
from partition import random_layered, transformer_like, wide_layered

SIZES = (1_000, 10_000, 32_000, 100_000)
DEVICES = 3


def drawn(dag: Dag) -> Problem:
    """Times of 1 to 40 us, tensors of up to 1 MB, links of 10 GB/s, a dispatch of 20 us."""
    draw = np.random.default_rng(dag.n)
    seconds = draw.uniform(1, 20, (dag.n, 1)) * draw.uniform(0.5, 2, (dag.n, DEVICES)) * 1e-6
    nbytes = draw.integers(1_000, 1_000_000, dag.n).tolist()
    return Problem.from_arrays(
        seconds,
        tensors=[(u, nbytes[u], tuple(dag.succs[u])) for u in range(dag.n)],
        latency_s=1e-6,
        bytes_per_s=1e10,
        dispatch_s=[2e-5] * DEVICES,
    )


def main() -> None:
    """Print a line for each graph and size."""
    kinds: tuple[Callable[[int, random.Random], Dag], ...] = (
        transformer_like,
        random_layered,
        wide_layered,
    )
    bound_of(drawn(transformer_like(SIZES[1], random.Random(0))))
    for kind in kinds:
        for n in SIZES:
            problem = drawn(kind(n, random.Random(n)))
            start = time.process_time()
            bound = bound_of(problem)
            line = {
                "benchmark": "bounds",
                "graph": kind.__name__,
                "nodes": n,
                "bound_ms": round(bound * 1e3, 4),
                "cpu_s": round(time.process_time() - start, 3),
                "most_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10,
            }
            print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
