"""CPU seconds and memory of the latency bound, from 1,000 to 100,000 nodes: one JSON line each.

Random graphs of ``benchmarks/partition.py``, three devices, each node's times drawn apart. Machine
code is compiled, or loaded, before; each bound is found in a process of its own. `answer` is the
bound in seconds.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Callable
from functools import partial

import numpy as np

from growth import itself, measured
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
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--nodes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--limit", type=int, default=100, metavar="SECONDS")
    asked = parser.parse_args()
    kinds: tuple[Callable[[int, random.Random], Dag], ...] = (
        transformer_like,
        random_layered,
        wide_layered,
    )
    bound_of(drawn(transformer_like(SIZES[1], random.Random(0))))
    for kind in kinds:
        for n in asked.nodes:
            call = partial(bound_of, drawn(kind(n, random.Random(n))))
            line = {"benchmark": "bounds", "graph": kind.__name__, "nodes": n}
            print(json.dumps(line | measured(partial(itself, call), asked.limit)), flush=True)


if __name__ == "__main__":
    main()
