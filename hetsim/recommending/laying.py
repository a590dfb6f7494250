"""A placement under a policy as the engine takes it."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np

from hetsim.recommending.policies import Placed, Policy, links_of, up_to
from hetsim.recommending.question import Question, Task
from hetsim.simulation.clock.playing import Layout
from hetsim.simulation.clock.structure import Part, structure_of
from hetsim.simulation.serving.flattening import loads, seconds_alone
from hetsim.simulation.serving.setup import Model, Source

Seconds = np.ndarray[Any, np.dtype[np.float64]]


@dataclass(frozen=True, slots=True, eq=False)
class Laid:
    """What the engine takes; `known`: seconds alone and loads of templates, where asked for."""

    layout: Layout
    seconds: Seconds
    models: tuple[Model, ...]
    sources: tuple[Source, ...]
    known: tuple[Seconds, Seconds] | None


def laid(question: Question, where: Placed, policy: Policy) -> Laid:
    """Lay the deployment out for the engine. O(devices, classes, sizes and their tasks)."""
    _, links = links_of(question, where.places)
    parts: list[Part] = []
    seconds: list[float] = []
    known: list[tuple[float, float]] = []
    looks = policy.routing == "least_finish"
    models = []
    for model, mine in enumerate(where.instances):
        classes = question.classes_of(model)
        table = np.empty((len(classes), len(mine), policy.max_batch), dtype=np.int64)
        largest = 1
        for column, one in enumerate(mine):
            slots, held = where.slots(one), where.links(question, one)
            streams = tuple(
                question.types[where.places[slots[slot]].of_type].streams if slot in slots else 1
                for slot in range(max(slots) + 1)
            )
            for row, of_class in enumerate(classes):
                ways = up_to(where.ways(question, one, of_class), policy.max_batch)
                numbers = []
                for way in ways:
                    numbers.append(len(parts))
                    parts.append(
                        Part(
                            [slots[task.slot] if task.slot >= 0 else -1 for task in way.tasks],
                            [task.before for task in way.tasks],
                            [
                                tuple(sorted(held[link] for link in task.links))
                                for task in way.tasks
                            ],
                        )
                    )
                    seconds += [task.seconds for task in way.tasks]
                    if looks:
                        known.append(_known(way.tasks, streams))
                sizes = [way.batch for way in ways]
                largest = max(largest, sizes[-1])
                holds = np.searchsorted(sizes, np.arange(1, policy.max_batch + 1))
                # What is above the largest that the model takes runs one by one.
                table[row, column] = np.array(numbers)[np.minimum(holds, len(sizes) - 1)]
        limits = tuple(
            policy.limit([question.types[where.places[at].of_type].streams for at in one.devices])
            for one in mine
        )
        models.append(Model(table[:, :, :largest], limits, routing=policy.routing))
    of_all = [question.types[place.of_type].streams for place in where.places]
    layout = Layout(_named(question, where, links), links, structure_of(parts, of_all))
    return Laid(
        layout,
        np.array(seconds),
        tuple(models),
        tuple(Source(stream.model) for stream in question.streams),
        (np.array([one for one, _ in known]), np.array([one for _, one in known]))
        if looks
        else None,
    )


@functools.lru_cache(maxsize=1 << 14)
def _known(tasks: tuple[Task, ...], streams: tuple[int, ...]) -> tuple[float, float]:
    """What a batch takes where nothing else is, and of what it asks the most of."""
    part = Part(
        [task.slot for task in tasks],
        [task.before for task in tasks],
        [task.links for task in tasks],
    )
    links = 1 + max((link for task in tasks for link in task.links), default=-1)
    alone: Any = SimpleNamespace(strategy="single")
    layout = Layout(alone, links, structure_of([part], streams))
    seconds = np.array([task.seconds for task in tasks])
    return float(seconds_alone(layout, seconds)[0]), float(loads(layout, seconds)[0])


def _named(question: Question, where: Placed, links: int) -> Any:
    """What engines ask a layout's plan for: what to call things in a message."""
    devices = tuple(f"{question.types[one.of_type].name} {one.unit}" for one in where.places)
    names = tuple(f"link {at}" for at in range(links))
    return SimpleNamespace(
        strategy="single", problem=SimpleNamespace(devices=devices, link_names=names)
    )
