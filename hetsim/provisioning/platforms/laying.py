"""A placement under a policy as the engine takes it."""

from __future__ import annotations

import functools
from bisect import bisect_left
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np

from hetsim.provisioning.platforms.policies import Placed, Policy, links_of, up_to
from hetsim.provisioning.platforms.question import Question, Way
from hetsim.simulation.clock.playing import Layout
from hetsim.simulation.clock.structure import Part, structure_of
from hetsim.simulation.serving.setup import Model, Source
from hetsim.simulation.serving.tables import loads, seconds_alone

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
    first, links = links_of(question, where.places)
    parts: list[Part] = []
    seconds: list[float] = []
    known: list[tuple[float, float]] = []
    looks = policy.routing == "least_finish"
    models = []
    for model, mine in enumerate(where.instances):
        classes = question.classes_of(model)
        table: list[list[list[int]]] = [[] for _ in classes]
        largest = 1
        for one in mine:
            slots, held = where.slots(one), where.links(question, one, first)
            on = [slots.get(slot, -1) for slot in range(max(slots) + 1)]
            streams = tuple(
                question.types[where.places[at].of_type].streams if at >= 0 else 1 for at in on
            )
            for row, of_class in zip(table, classes, strict=True):
                ways = up_to(where.ways(question, one, of_class), policy.max_batch)
                begin = len(parts)
                for way in ways:
                    part, takes = _part(way)
                    parts.append(
                        Part(
                            # Slot -1, of transfers, is the last.
                            [(*on, -1)[slot] for slot in part.device],
                            part.before,
                            [tuple(sorted(held[link] for link in own)) for own in part.held],
                        )
                    )
                    seconds += takes
                    if looks:
                        known.append(alone_and_load(way, streams))
                largest = max(largest, ways[-1].batch)
                holds = sizes_of(tuple(way.batch for way in ways), policy.max_batch)
                row.append([begin + at for at in holds])
        limits = tuple(
            policy.limit([question.types[where.places[at].of_type].streams for at in one.devices])
            for one in mine
        )
        by_size = np.array(table, dtype=np.int64)[:, :, :largest]
        models.append(Model(by_size, limits, routing=policy.routing))
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


@functools.lru_cache(maxsize=1 << 10)
def sizes_of(sizes: tuple[int, ...], most: int) -> tuple[int, ...]:
    """By requests in a batch, 1 to `most`: the least of the sizes that has room for them.

    What is above the largest that the model takes runs one by one.
    """
    last = len(sizes) - 1
    return tuple(min(bisect_left(sizes, batch), last) for batch in range(1, most + 1))


@functools.lru_cache(maxsize=1 << 14)
def _part(way: Way) -> tuple[Part, list[float]]:
    """A way as a template on its own slots and links, and the seconds of its tasks."""
    part = Part(
        [task.slot for task in way.tasks],
        [task.before for task in way.tasks],
        [task.links for task in way.tasks],
    )
    return part, [task.seconds for task in way.tasks]


@functools.lru_cache(maxsize=1 << 14)
def alone_and_load(way: Way, streams: tuple[int, ...]) -> tuple[float, float]:
    """What a batch takes where nothing else is, and of what it asks the most of."""
    part, takes = _part(way)
    links = 1 + max((link for held in part.held for link in held), default=-1)
    alone: Any = SimpleNamespace(strategy="single")
    layout = Layout(alone, links, structure_of([part], streams))
    seconds = np.array(takes)
    return float(seconds_alone(layout, seconds)[0]), float(loads(layout, seconds)[0])


def _named(question: Question, where: Placed, links: int) -> Any:
    """What engines ask a layout's plan for: what to call things in a message."""
    devices = tuple(f"{question.types[one.of_type].name} {one.unit}" for one in where.places)
    names = tuple(f"link {at}" for at in range(links))
    return SimpleNamespace(
        strategy="single", problem=SimpleNamespace(devices=devices, link_names=names)
    )
