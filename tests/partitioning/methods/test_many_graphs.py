"""Every merge method is valid on random problems with overlapping regions: 20,000 in the sweep."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

import hetsim
from builders import random_composites
from hetsim.graph.dag import Dag
from hetsim.partitioning.borders import borders
from hetsim.partitioning.deconflict import deconflict
from hetsim.partitioning.methods.registry import methods
from hetsim.partitioning.regions import annotate
from hetsim.problem.groups import owners
from hetsim.problem.parts import StoredConstant
from hetsim.problem.problem import Problem
from hetsim.problem.validator import problems_of
from sweeps import sweep

PROBLEMS = 20_000
BATCHES = 100


def random_problems(batch: int) -> Iterator[Problem]:
    """Layered graphs, uniformly random ones, and mixes with long edges; 6 to 80 nodes.

    Most are small. One to four kinds of device; the last supports every node, the others some
    nodes alone and some only in composites, which overlap between devices. Constants are
    shared.
    """
    rng = random.Random(f"batch {batch}")
    for _ in range(PROBLEMS // BATCHES):
        n, kinds = 6 + int(75 * rng.random() ** 3), rng.randint(1, 4)
        reach = rng.choice((3, 8, n))
        edges = {
            (max(0, v - rng.randint(1, reach)), v)
            for v in range(1, n)
            for _ in range(rng.choice((0, 1, 1, 2, 3)))
        }
        dag = Dag.from_edges(n, edges)
        share = rng.random()
        alone = np.array(
            [[p == kinds - 1 or rng.random() < share for p in range(kinds)] for _ in range(n)]
        )
        problem = Problem.from_arrays(
            np.where(alone, 1.0, np.inf),
            [(u, v, 4) for u, v in sorted(edges)],
            composites=list(random_composites(rng, dag, kinds - 1)),
        )
        readers = (tuple(sorted(rng.sample(range(n), rng.randint(1, 4)))) for _ in range(n // 4))
        yield replace(
            problem,
            constants=tuple(StoredConstant(f"w{i}", 8, nodes) for i, nodes in enumerate(readers)),
        )


@sweep("batch", quick=[0], full=range(BATCHES))
def test_valid_every_time(batch: int) -> None:
    kept = dropped = 0
    for problem in random_problems(batch):
        solved = deconflict(annotate(problem), problem.devices)
        kept += len(solved.atoms)
        dropped += len(solved.dropped)
        composites = [(kernel.device, kernel.nodes) for kernel in problem.composites]
        supported = problem.supported.tolist()
        for info in methods():
            made = hetsim.partition(problem, info.name, resolution=solved)
            assert (
                problems_of(
                    problem.dag,
                    made.groups,
                    problem.devices,
                    supported,
                    composites=composites,
                    connected="connected" in info.promises,
                )
                == []
            ), info.name
            owner = owners(problem.n, made.groups)
            assert all(len({owner[v] for v in atom}) == 1 for atom in solved.atoms)
            exchanged = borders(problem, made.groups)
            assert sum(len(border.constants) for border in exchanged) == sum(
                len({owner[v] for v in constant.consumers}) for constant in problem.constants
            )
    # Both kinds of case are met often.
    assert kept > 200
    assert dropped > 200
