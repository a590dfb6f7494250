"""Moves of a local search: each changes a draft a little and can be taken back."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np

from hetsim.placement.listing.room import Room
from hetsim.placement.search.evaluation import Draft
from hetsim.problem.problem import Problem

Undo = Callable[[], None]


class Mover:
    """Draws moves at random from one generator.

    Moves are: a node to another device; a node with a neighbour, or with all that follow it
    on one path, to one device; a node to another place in the order; both; and, where
    subgraphs matter, a cut set or taken away. None overfills a device with weights.
    """

    def __init__(
        self,
        problem: Problem,
        draft: Draft,
        rng: random.Random,
        *,
        cuts: bool,
        room: Room | None = None,
    ) -> None:
        """`room`, where memory counts, has every node where the draft has it."""
        self._room = room
        self._dag, self._draft, self._rng, self._cuts = problem.dag, draft, rng, cuts
        self._able = [np.flatnonzero(row).tolist() for row in problem.supported]
        self._place = [0] * problem.n
        for index, v in enumerate(draft.order):
            self._place[v] = index
        self._movable = [v for v, devices in enumerate(self._able) if len(devices) > 1]

    def propose(self) -> Undo | None:
        """Change the draft and return what takes the change back; None where nothing changed."""
        rng = self._rng
        kind = rng.random()
        if self._cuts and kind < 0.15:
            return self._flip_cut()
        if not self._movable or kind < 0.45:
            return self._shift(rng.randrange(len(self._draft.order)))
        node = self._movable[rng.randrange(len(self._movable))]
        if kind < 0.70:
            return self._assign([node], self._other(node))
        if kind < 0.85:
            return self._assign(self._path(node), self._other(node))
        first = self._assign([node], self._other(node))
        second = self._shift(node)
        if first is None or second is None:
            return first or second

        def undo() -> None:
            assert first is not None
            assert second is not None
            second()
            first()

        return undo

    def _other(self, node: int) -> int:
        """A device that takes `node`, other than its own."""
        devices, own = self._able[node], self._draft.device[node]
        chosen: int = devices[self._rng.randrange(len(devices) - 1)]
        return devices[-1] if chosen == own else chosen

    def _path(self, node: int) -> list[int]:
        """Some nodes that follow `node`, or go before it, one by one."""
        rng = self._rng
        edges = self._dag.succs if rng.random() < 0.5 else self._dag.preds
        path = [node]
        for _ in range(rng.randint(1, 6)):
            ahead = edges[path[-1]]
            if not ahead:
                break
            path.append(ahead[rng.randrange(len(ahead))])
        return path

    def _assign(self, nodes: list[int], target: int) -> Undo | None:
        device, room = self._draft.device, self._room
        changed = [(v, device[v]) for v in nodes if device[v] != target and target in self._able[v]]
        if not changed:
            return None
        for v, own in changed:
            device[v] = target
            if room is not None:
                room.move(v, own, target)

        def undo() -> None:
            for v, own in changed:
                device[v] = own
                if room is not None:
                    room.move(v, target, own)

        if room is not None and room.left[target] < 0:
            undo()
            return None
        return undo

    def _shift(self, node: int) -> Undo | None:
        """Move a node in the order, between those that feed it and those that it feeds."""
        place, order = self._place, self._draft.order
        low = max((place[u] for u in self._dag.preds[node]), default=-1) + 1
        high = min((place[v] for v in self._dag.succs[node]), default=len(order)) - 1
        source = place[node]
        if low >= high:
            return None
        target = low + self._rng.randrange(high - low)
        if target >= source:
            target += 1
        self._put(source, target)
        return lambda: self._put(target, source)

    def _put(self, source: int, target: int) -> None:
        place, order = self._place, self._draft.order
        order.insert(target, order.pop(source))
        for index in range(min(source, target), max(source, target) + 1):
            place[order[index]] = index

    def _flip_cut(self) -> Undo:
        cut = self._draft.cut
        node = self._rng.randrange(len(cut))
        cut[node] = not cut[node]

        def undo() -> None:
            cut[node] = not cut[node]

        return undo
