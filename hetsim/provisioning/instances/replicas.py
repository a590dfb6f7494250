"""Replicas that there may be, in numbers: the work that requests ask of them, and what they hold.

Free of models and plans. A *set* of replicas is a placement: it fits where every device holds what
its replicas have there, and it carries a multiple of the demand, its factor, where each request
may go to whichever replica of its model suits best, in any parts.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from hetsim.problem.parts import Held

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

Chosen = tuple[int, ...]
"""Replicas, ascending."""


@dataclass(frozen=True, slots=True)
class Part:
    """Weights that replicas of one model have in common on one device.

    Attributes
    ----------
    model, device : int
    nbytes : int
        There once, however many of them are there.
    replicas : tuple of int
    """

    model: int
    device: int
    nbytes: int
    replicas: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Replicas:
    """Replicas that there may be of several models.

    A *way* is how requests of one kind run in one replica: in batches of one size. A *kind* is what
    requests of a model that are alike ask for.

    Attributes
    ----------
    model : tuple of int [replicas]
    demand : float array [kinds]
        Requests a second, each above 0.
    kind_model : tuple of int [kinds]
    way_replica, way_kind : int array [ways]
        Every replica has a way for every kind of its model.
    work : float array [ways, resources]
        Seconds of each device and link that a request takes.
    width : float array [resources]
        Seconds a second that there are, each above 0.
    within_s : float array [ways]
        Seconds a request takes of its replica's places: what its batch takes alone, over its size.
    alone_s : float array [ways]
        What its batch takes alone.
    places : float array [replicas]
        Batches that it has under way at most; infinite: any number.
    live : int array [replicas, devices]
        Bytes that its batches have live, of the graph's own types.
    parts : tuple of Part
    room : tuple of int [devices]
        Bytes.
    held : tuple of tuple of Held [models][devices]
        How devices hold a model's types.
    """

    model: tuple[int, ...]
    demand: Floats
    kind_model: tuple[int, ...]
    way_replica: Ints
    way_kind: Ints
    work: Floats
    width: Floats
    within_s: Floats
    alone_s: Floats
    places: Floats
    live: NDArray[np.int64]
    parts: tuple[Part, ...]
    room: tuple[int, ...]
    held: tuple[tuple[Held, ...], ...]

    @property
    def count(self) -> int:
        """Number of replicas."""
        return len(self.model)

    @cached_property
    def models(self) -> tuple[int, ...]:
        """Models that something comes for, ascending."""
        return tuple(sorted(set(self.kind_model)))

    @cached_property
    def ways_of(self) -> tuple[Ints, ...]:
        """By replica: its ways."""
        return tuple(np.flatnonzero(self.way_replica == one) for one in range(self.count))

    @cached_property
    def parts_of(self) -> tuple[tuple[int, ...], ...]:
        """By replica: the parts that it has."""
        found: list[list[int]] = [[] for _ in range(self.count)]
        for at, part in enumerate(self.parts):
            for one in part.replicas:
                found[one].append(at)
        return tuple(map(tuple, found))

    def held_bytes(self, chosen: Iterable[int]) -> list[int]:
        """Return the bytes that a set holds of each device, weights that are shared once."""
        devices = len(self.room)
        stated: dict[int, list[int]] = {}
        parts: set[int] = set()
        for one in chosen:
            mine = stated.setdefault(self.model[one], [0] * devices)
            for p, nbytes in enumerate(self.live[one].tolist()):
                mine[p] += nbytes
            parts.update(self.parts_of[one])
        for at in sorted(parts):
            part = self.parts[at]
            stated[part.model][part.device] += part.nbytes
        return [
            sum(self.held[model][p].nbytes(mine[p]) for model, mine in stated.items())
            for p in range(devices)
        ]

    def fits(self, chosen: Iterable[int]) -> bool:
        """Whether every device holds what a set has there."""
        return all(
            has <= room for has, room in zip(self.held_bytes(chosen), self.room, strict=True)
        )

    def serves_all(self, chosen: Iterable[int]) -> bool:
        """Whether each model has a replica; something comes for each."""
        return {self.model[one] for one in chosen} >= set(self.models)
