"""Random templates of tasks, as the clock takes them; of many the order is not certain."""

from __future__ import annotations

from itertools import pairwise
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hetsim.simulation.clock.rules import Structure
from hetsim.simulation.clock.templates import TemplateLayout, flat


class Case(NamedTuple):
    """A layout, and what is played on it."""

    layout: TemplateLayout
    duration: NDArray[np.float64]
    arrival: NDArray[np.float64]
    template: NDArray[np.int64]


class Shape(NamedTuple):
    """A template: subgraphs by device, transfers by links, what each waits for."""

    devices: list[int]
    links: list[tuple[int, ...]]
    before: list[list[int]]


def layout_of(shapes: list[Shape], streams: list[int], links: int) -> TemplateLayout:
    """Put templates one after another."""
    first, device = [0], []
    waits: list[int] = []
    followers: list[list[int]] = []
    turns: list[list[int]] = []
    held: list[tuple[int, ...]] = []
    roots: list[list[int]] = []
    for shape in shapes:
        base, groups = first[-1], len(shape.devices)
        size = groups + len(shape.links)
        first.append(base + size)
        device += [*shape.devices, *[-1] * len(shape.links)]
        roots.append([base + k for k in range(groups, size) if not shape.before[k]])
        waits += [len(before) for before in shape.before]
        followers += [[] for _ in range(size)]
        for task, before in enumerate(shape.before, start=base):
            for other in before:
                followers[base + other].append(task)
        turns += [
            [base + group for group in range(groups) if shape.devices[group] == d]
            for d in range(len(streams))
        ]
        held += [()] * groups + shape.links
    problem = SimpleNamespace(
        devices=tuple(f"d{d}" for d in range(len(streams))),
        link_names=tuple(f"link{k}" for k in range(links)),
        streams=tuple(streams),
    )
    plan: Any = SimpleNamespace(problem=problem, strategy="random")
    structure = Structure(
        first, waits, *flat(followers), device, *flat(turns), streams, *flat(held), *flat(roots)
    )
    return TemplateLayout(plan, links, structure)


def random_case(seed: int, *, most_requests: int = 40) -> Case:
    """Tasks of up to three templates on up to six devices and links.

    A third are tandems, a third have resources that no other task holds, and a third are
    anything: of many of these the order is not certain. Times are whole, with zeros and ties, or
    thirds of them, so that sums round, or of a continuous kind.
    """
    rng = np.random.default_rng(seed)
    kind = rng.integers(3)
    templates = int(rng.choice([1, 1, 2, 3]))
    streams, links = [], 0
    shapes = []
    if kind < 2:
        shared = kind == 1 and rng.random() < 0.5
        for _ in range(templates):
            groups = int(rng.integers(1, 5))
            moves = int(rng.integers(0, 5))
            own = list(range(len(streams), len(streams) + groups))
            streams += [int(rng.choice([1, 1, 1, 2, 3])) for _ in own]
            held = []
            for _ in range(moves):
                count = int(rng.integers(0, 3))
                held.append(tuple(range(links, links + count)))
                links += count
            if kind == 0:
                # Every task after the one before it, subgraphs and transfers in any mixture.
                order = _interleaved(rng, groups, moves)
                before: list[list[int]] = [[] for _ in order]
                for task, following in pairwise(order):
                    before[following] = [task]
            else:
                before = _random_dag(rng, groups, moves)
                if shared and groups > 1:
                    # What follows on a device is there when the one before it ends.
                    again = int(rng.integers(1, groups))
                    own[again] = own[again - 1]
                if shared and moves > 1:
                    held[-1] = held[-2]
                    before[-1] = list(before[-2])
            shapes.append(Shape(own, held, before))
    else:
        streams = [int(rng.integers(1, 4)) for _ in range(rng.integers(1, 4))]
        links = int(rng.integers(0, 4))
        for _ in range(templates):
            groups, moves = int(rng.integers(0, 5)), int(rng.integers(0, 5))
            held = [
                tuple(sorted(rng.permutation(links)[: rng.integers(0, 3)].tolist()))
                for _ in range(moves)
            ]
            own = rng.integers(0, len(streams), groups).tolist()
            shapes.append(Shape(own, held, _random_dag(rng, groups, moves)))
    layout = layout_of(shapes, streams, links)
    requests = int(rng.integers(1, most_requests + 1))
    tasks = layout.first[-1]
    grain = rng.integers(4)
    least = int(rng.integers(2))
    if grain == 3:
        duration = rng.exponential(1.0, tasks)
        gaps = rng.exponential(1.0, requests)
    else:
        duration = rng.integers(least, 5, tasks) / (1.0, 3.0, 7.0)[grain]
        gaps = rng.integers(0, 5, requests) / (1.0, 3.0, 11.0)[grain]
    gaps *= rng.choice([0.0, 0.3, 1.0, 3.0, 10.0])
    arrival = np.cumsum(gaps) + rng.choice([0.0, 1.0, 1e9])
    return Case(layout, duration, arrival, rng.integers(0, templates, requests))


def _interleaved(rng: np.random.Generator, groups: int, moves: int) -> list[int]:
    """Subgraphs in their order and transfers in theirs, mixed."""
    places = rng.permutation([0] * groups + [1] * moves)
    number = [0, groups]
    order = []
    for place in places.tolist():
        order.append(number[place])
        number[place] += 1
    return order


def _random_dag(rng: np.random.Generator, groups: int, moves: int) -> list[list[int]]:
    """What each task waits for; subgraphs come in an order that agrees."""
    order = _interleaved(rng, groups, moves)
    before: list[list[int]] = [[] for _ in order]
    for at, task in enumerate(order):
        count = int(rng.integers(0, 3))
        if task >= groups and rng.random() < 0.7:
            count = min(count, 1)
        before[task] = sorted(rng.permutation(order[:at])[:count].tolist())
    return before
