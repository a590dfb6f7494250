"""Outputs of some batches of a long run, spread over all of it, in bounded memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

ROOM_BYTES = 1 << 28


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """A batch that is over.

    Attributes
    ----------
    number : int
    template : int
    requests : tuple of int
    outputs : mapping of str to value
    """

    number: int
    template: int
    requests: tuple[int, ...]
    outputs: Mapping[str, Any]


class Kept:
    """Every batch as long as there is room, then every second of all, every fourth, ..."""

    def __init__(self, room_bytes: int = ROOM_BYTES) -> None:
        self._room = room_bytes
        self._bytes = 0
        self._every = 1
        self.batches: list[Batch] = []

    def offer(self, batch: Batch) -> None:
        """Keep a batch, or not."""
        if batch.number % self._every:
            return
        self.batches.append(batch)
        self._bytes += _bytes(batch)
        while self._bytes > self._room and len(self.batches) > 1:
            self._every *= 2
            self.batches = [one for one in self.batches if one.number % self._every == 0]
            self._bytes = sum(map(_bytes, self.batches))


def _bytes(batch: Batch) -> int:
    return sum(
        value.nbytes if isinstance(value, np.ndarray) else 1 for value in batch.outputs.values()
    )
