"""Models that take turns in the memory of devices, against a transcription of the rules."""

from __future__ import annotations

from collections import OrderedDict
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hetsim.simulation.serving.engine import Serving
from hetsim.simulation.serving.setup import ModelSetup, Outcomes, RequestSource, Turns
from oracles import turns_in_memory as told_again
from oracles.random_layouts import Shape, layout_of
from sweeps import sweep

CASES = 20
"""Seeds of a chunk."""


class Given(NamedTuple):
    """Models in both tellings, and requests: ticks and models."""

    serving: Serving
    oracle: told_again.Turns
    arrival: NDArray[np.float64]
    model: NDArray[np.int64]


def case(seed: int, machine_code: bool = False) -> Given:
    """Up to four models with up to three instances on up to three devices and two links."""
    rng = np.random.default_rng([seed, 44])
    devices, links = int(rng.integers(1, 4)), int(rng.integers(1, 3))
    count = int(rng.integers(2, 5))
    shapes: list[Shape] = []
    seconds: list[float] = []
    models, twins = [], []
    weight = np.zeros((count, devices), dtype=np.int64)
    fetch = np.full((count, devices), -1)
    for m in range(count):
        largest = int(rng.integers(1, 4))
        instances, table, places = [], [], []
        for _ in range(int(rng.integers(1, 4))):
            used = rng.permutation(devices)[: int(rng.integers(1, devices + 1))].tolist()
            chain = [("device", p) for p in used]
            for _ in range(int(rng.integers(0, 2))):
                chain.insert(int(rng.integers(0, len(chain))), ("link", int(rng.integers(links))))
            steps, row = [], []
            for _ in range(largest):
                ticks = rng.integers(1, 9, len(chain)).tolist()
                steps.append([(*step, t) for step, t in zip(chain, ticks, strict=True)])
                row.append(len(shapes))
                order = {at: k for k, at in enumerate(_subgraphs_first(chain))}
                before: list[list[int]] = [[] for _ in chain]
                for at in range(1, len(chain)):
                    before[order[at]] = [order[at - 1]]
                taken = [0.0] * len(chain)
                for at, t in enumerate(ticks):
                    taken[order[at]] = float(t)
                shapes.append(
                    Shape(
                        [where for kind, where in chain if kind == "device"],
                        [(where,) for kind, where in chain if kind == "link"],
                        before,
                    )
                )
                seconds += taken
            table.append(row)
            places.append(tuple(used))
            instances.append(told_again.Instance(tuple(used), steps, int(rng.integers(1, 3))))
        nbytes = {p: int(rng.integers(1, 6)) for each in places for p in each}
        load = {}
        for p, size in nbytes.items():
            weight[m, p] = size
            if rng.random() < 0.9:
                load[p] = (int(rng.integers(links)), int(rng.integers(1, 15)))
        models.append((table, [one.limit for one in instances], places))
        twins.append(told_again.Model(instances, largest, nbytes, load))
    for m, twin in enumerate(twins):
        for p, (link, ticks) in twin.load.items():
            fetch[m, p] = len(shapes)
            shapes.append(Shape([], [(link,)], [[]]))
            seconds.append(float(ticks))
    budget = [
        int(max(weight[:, p].max(), 1) + rng.integers(0, weight[:, p].sum() + 1))
        for p in range(devices)
    ]
    serving = Serving(
        layout_of(shapes, [1] * devices, links),
        np.array(seconds),
        [ModelSetup(np.array([table]), tuple(limits)) for table, limits, _ in models],
        [RequestSource(m) for m in range(count)],
        turns=Turns(tuple(budget), weight, fetch, tuple(tuple(places) for _, _, places in models)),
        machine_code=machine_code,
    )
    requests = int(rng.integers(1, 60))
    arrival = np.cumsum(rng.integers(0, int(rng.choice([2, 6, 20])), requests)).astype(float)
    return Given(
        serving, told_again.Turns(twins, budget), arrival, rng.integers(0, count, requests)
    )


def _subgraphs_first(chain: list[tuple[str, int]]) -> list[int]:
    return sorted(range(len(chain)), key=lambda at: (chain[at][0] == "link", at))


def played(given: Given) -> Outcomes:
    """In two blocks."""
    half = len(given.arrival) // 2
    parts = [
        given.serving.serve(given.arrival[part], given.model[part])
        for part in (slice(half), slice(half, None))
    ]
    return Outcomes.joined([*parts, given.serving.close()])


@sweep("chunk", quick=[0], full=range(500))
def test_who_is_loaded_when_is_as_told_again(chunk: int) -> None:
    loads = 0
    for seed in range(CASES * chunk, CASES * (chunk + 1)):
        given = case(seed)
        found = played(given)
        given.oracle.play(
            list(zip(given.arrival.astype(int).tolist(), given.model.tolist(), strict=True))
        )
        for at in range(len(given.arrival)):
            sent, finish, instance, load = given.oracle.told[at]
            said = (found.sent_s[at], found.finish_s[at], found.instance[at], found.load_s[at])
            assert said == (sent, finish, instance, load), (seed, at)
        counted = given.serving.residency.loads
        for (m, p), cell in given.oracle.cells.items():
            assert counted[m, p] == cell.loads, seed
        loads += int(counted.sum())
        if seed % 4 == 0:
            again = played(case(seed, machine_code=True))
            for one, column in zip(found, again, strict=True):
                assert one.tobytes() == column.tobytes(), seed
    assert loads > 0


SERVICE_S, LOAD_S = 3.0, 10.0


def one_device(models: int, budget: int, **changes: object) -> Serving:
    """Models of one byte, each with an instance on one device, loaded over one link."""
    given: dict[str, object] = {"limits": (1,), **changes}
    return Serving(
        layout_of(
            [Shape([0], [], [[]]) for _ in range(models)]
            + [Shape([], [(0,)], [[]]) for _ in range(models)],
            [1],
            1,
        ),
        np.array([SERVICE_S] * models + [LOAD_S] * models),
        [ModelSetup(np.array([[[m]]]), **given) for m in range(models)],  # type: ignore[arg-type]
        [RequestSource(m) for m in range(models)],
        turns=Turns(
            (budget,),
            np.ones((models, 1), dtype=np.int64),
            np.arange(models, 2 * models)[:, None],
            (((0,),),) * models,
        ),
        machine_code=False,
    )


def far_apart(serving: Serving, model: list[int], gap_s: float = 100.0) -> Outcomes:
    """What becomes of requests of these models, in order."""
    arrival = gap_s * np.arange(len(model))
    told = serving.serve(arrival, np.array(model))
    return Outcomes.joined([told, serving.close()])


def test_loads_are_the_misses_of_a_cache() -> None:
    model = np.random.default_rng(9).integers(0, 6, 500).tolist()
    serving = one_device(6, 3)
    found = far_apart(serving, model)
    # What is there at first was never used: the first that is written goes first.
    cache = OrderedDict.fromkeys([0, 1, 2])
    missed = []
    for one in model:
        missed.append(one not in cache)
        if one in cache:
            cache.move_to_end(one)
        else:
            cache.popitem(last=False)
            cache[one] = None
    assert (found.load_s > 0).tolist() == missed
    assert serving.residency.loads.sum() == sum(missed)
