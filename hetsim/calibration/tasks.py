"""What is measured: generated networks to fit on, zoo models and parts of them to be judged by."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from hetsim.calibration.design.networks import networks
from hetsim.graph.extract import extract
from hetsim.graph.loading import load_model, model_of
from hetsim.graph.model import Model
from hetsim.graph.work import graph_work
from hetsim.graph.zoo.models import names as zoo_names

BLOCK = 60
"""Generated networks that are measured one after the other before they are measured again."""

_ROUNDS = 2
_FEWEST_NODES = 3


@dataclass(frozen=True, slots=True)
class Task:
    """A network to measure.

    Attributes
    ----------
    name : str
    load : callable
        Gives it as a Model.
    fitted : bool
        Whether parameters are fitted to it; others judge them.
    """

    name: str
    load: Callable[[], Model]
    fitted: bool


def generated(first: int, last: int) -> tuple[Task, ...]:
    """Return generated networks `first` up to, not with, `last`."""
    return tuple(
        Task(one.name, partial(_generated, one.index), fitted=True)
        for one in networks(last)[first:]
    )


def judged(names: Sequence[str] | None = None) -> tuple[Task, ...]:
    """Return zoo models, and of each the 2 to 5 parts that one cut gives."""
    found: list[Task] = []
    for index, name in enumerate(zoo_names() if names is None else names):
        parts = 2 + index % 4
        found.append(Task(f"zoo:{name}", partial(load_model, f"zoo:{name}"), fitted=False))
        found += [
            Task(
                f"zoo:{name} {part + 1}/{parts}",
                partial(part_of, f"zoo:{name}", part, parts, index),
                fitted=False,
            )
            for part in range(parts)
        ]
    return tuple(found)


def rounds(
    most: int | None = None, names: Sequence[str] | None = None
) -> Iterator[tuple[int, Task]]:
    """Yield (round, task) in the order of measuring, without end unless `most` networks are.

    A block of generated networks, what is judged, both again, then further blocks two times
    each: wherever it is broken off, what was measured has all kinds in it, and most of it was
    measured two times, some time apart.
    """
    first = 0
    while most is None or first < most:
        last = first + BLOCK if most is None else min(first + BLOCK, most)
        for round_ in range(_ROUNDS):
            yield from ((round_, task) for task in generated(first, last))
            if first == 0:
                yield from ((round_, task) for task in judged(names))
        first = last


def part_of(source: str, part: int, parts: int, seed: int) -> Model:
    """Return one of `parts` subgraphs that model `source` is cut into, as a model of its own.

    Cuts are drawn by `seed` in the order of the nodes, where a part has work to do.
    """
    model = load_model(source)
    nodes = _cut(model, parts, seed)[part]
    alone = extract(model, nodes)
    return model_of(
        alone.proto,
        name=f"{source} {part + 1}/{parts}",
        weights_dir=model.weights_dir,
        canonical="none",
    )


def _cut(model: Model, parts: int, seed: int) -> list[tuple[int, ...]]:
    """Runs of the nodes' order, between cuts at drawn shares of the model's work."""
    works = graph_work(model.graph)
    done = np.cumsum([work.flops + work.read_bytes + work.write_bytes for work in works])
    rng = np.random.default_rng([seed, parts])
    shares = np.cumsum(rng.dirichlet(np.full(parts, 4.0)))[:-1]
    ends = [int(np.searchsorted(done, share * done[-1])) for share in shares]
    found: list[tuple[int, ...]] = []
    first = 0
    for index, end in enumerate([*ends, len(works)]):
        left = (parts - 1 - index) * _FEWEST_NODES
        last = min(max(end, first + _FEWEST_NODES), len(works) - left)
        found.append(tuple(range(first, last)))
        first = last
    return found


def _generated(index: int) -> Model:
    one = networks(index + 1)[index]
    return model_of(one.build(), name=one.name)
