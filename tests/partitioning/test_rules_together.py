"""All rules of a partition at once: it comes to an end, and each rule holds on the result."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

import hetsim
from builders import random_composites
from hetsim.errors import OutOfMemory, UnsupportedNode
from hetsim.graph.dag import Dag
from hetsim.partitioning import flow
from hetsim.partitioning.affinity import Affinity, Exclusion
from hetsim.partitioning.deconflict import Resolution
from hetsim.partitioning.housekeeping import Housekeeping
from hetsim.partitioning.sizes import SizeRules
from hetsim.problem.problem import Problem
from hetsim.problem.validator import problems_of
from sweeps import sweep

PROBLEMS = 400


@dataclass(frozen=True)
class Asked:
    """A problem with pins, exclusions, a priority, housekeeping nodes and size rules."""

    problem: Problem
    method: str
    order: tuple[str, ...]
    pins: dict[int, str]
    exclude: tuple[Exclusion, ...]
    housekeeping: Housekeeping
    sizes: SizeRules

    def made(self) -> hetsim.Partition:
        return hetsim.partition(
            self.problem,
            self.method,
            affinity=Affinity({f"n{v}": name for v, name in self.pins.items()}, self.exclude),
            priority=self.order,
            housekeeping=self.housekeeping,
            sizes=self.sizes,
        )

    def forbidden(self) -> set[tuple[int, str]]:
        """What the exclusions say, in pairs of node and device."""
        return {
            (v, name)
            for wish in self.exclude
            for v in (int(node[1:]) for node in wish.nodes)
            for name in self.problem.devices
            if name == wish.device or (wish.device is None and name != self.order[-1])
            if self.pins.get(v) != name
        }


def random_question(rng: random.Random) -> Asked:
    n, count = rng.randint(3, 14), rng.randint(2, 4)
    edges = {
        (max(0, v - rng.randint(1, n)), v)
        for v in range(1, n)
        for _ in range(rng.choice((0, 1, 1, 2, 3)))
    }
    share, full = rng.random(), rng.random() < 0.8
    alone = [
        [(full and p == count - 1) or rng.random() < share for p in range(count)] for _ in range(n)
    ]
    problem = Problem.from_arrays(
        np.where(alone, 1.0, np.inf),
        [(u, v, 4) for u, v in sorted(edges)],
        composites=list(random_composites(rng, Dag.from_edges(n, edges), count - 1)),
        host=rng.choice((None, count - 1)),
        weight_bytes=[rng.randint(0, 9) for _ in range(n)],
        capacity_bytes=[rng.choice((10, 30, 1000)) for _ in range(count - 1)] + [10_000],
    )
    leaving = set(rng.sample(range(n), rng.randint(0, n // 3)))
    problem = replace(
        problem,
        values=tuple(replace(v, is_output=v.producer in leaving) for v in problem.values),
    )
    names = problem.devices
    few = rng.randint(1, 4)
    return Asked(
        problem,
        rng.choice([info.name for info in hetsim.methods()]),
        rng.choice((names, tuple(rng.sample(names, rng.randint(1, count))))),
        {v: rng.choice(names) for v in range(n) if rng.random() < 0.15},
        tuple(
            Exclusion(
                rng.choice((*names, None)),
                nodes=tuple(f"n{v}" for v in rng.sample(range(n), rng.randint(1, n // 2))),
            )
            for _ in range(rng.choice((0, 0, 1, 2)))
        ),
        Housekeeping(
            rng.choice(("follow", "follow", "default", "assigned")),
            nodes=frozenset(rng.sample(range(n), rng.randint(0, n))),
        ),
        SizeRules(
            few,
            rng.choice((None, None, 1, 2)),
            rng.choice((None, few, few + 2)),
            rng.random() < 0.3,
        ),
    )


@pytest.fixture
def rounds(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """What may still be withdrawn, by round; a round that withdraws nothing is an error."""
    seen: list[int] = []

    def counted(regions: Any, order: Sequence[int], **rest: Any) -> Resolution:
        left = int(regions.alone.sum()) + len(regions.composites)
        assert not seen or left < seen[-1], "a round withdrew nothing: it would never end"
        seen.append(left)
        return real(regions, order, **rest)

    real = flow.resolve
    monkeypatch.setattr(flow, "resolve", counted)
    return seen


@sweep("seed", quick=[12], full=range(10, 20))
def test_it_ends_and_every_rule_holds(seed: int, rounds: list[int]) -> None:
    rng = random.Random(seed)
    met: Counter[str] = Counter()
    for _ in range(PROBLEMS):
        asked = random_question(rng)
        problem, names = asked.problem, asked.problem.devices
        rounds.clear()
        try:
            made = asked.made()
        except (UnsupportedNode, OutOfMemory) as error:
            met[type(error).__name__] += 1
            continue
        met[asked.housekeeping.mode] += 1
        met["several rounds"] += len(rounds) > 2
        composites = [(kernel.device, kernel.nodes) for kernel in problem.composites]
        supported = problem.supported.tolist()
        assert problems_of(problem.dag, made.groups, names, supported, composites=composites) == []
        device_of = {v: group.device for group in made.groups for v in group.nodes}
        assert all(device_of[v] == name for v, name in asked.pins.items())
        forbidden = asked.forbidden()
        assert forbidden.isdisjoint(device_of.items())
        met["exclusions"] += bool(forbidden)
        last = names.index(asked.order[-1])
        for group in made.groups:
            if len(group.nodes) < asked.sizes.min_nodes and group.device in asked.order[:-1]:
                assert any(
                    v in asked.pins or not supported[v][last] or (v, asked.order[-1]) in forbidden
                    for v in group.nodes
                )
    assert min(met[key] for key in ("follow", "default", "several rounds", "exclusions")) > 20


def test_what_its_device_must_give_up_does_not_come_back(rounds: list[int]) -> None:
    # Pieces of two: the one that holds housekeeping nodes alone can go, and follows no more.
    problem = Problem.from_arrays(
        [[1.0, 9.0]] * 4, [(v, v + 1, 4) for v in range(3)], devices=("npu", "cpu"), host=1
    )
    made = hetsim.partition(
        problem,
        affinity=Affinity({"n0": "npu"}),
        housekeeping=Housekeeping("follow", nodes=frozenset({1, 2, 3})),
        sizes=SizeRules(min_nodes=3, max_nodes_per_group=3),
    )
    assert [(group.device, group.nodes) for group in made.groups] == [
        ("npu", (0,)),
        ("cpu", (1, 2, 3)),
    ]
    assert set(made.left) == {1, 2, 3}
    assert "below min_nodes 3" in made.left[1]
