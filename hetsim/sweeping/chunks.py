"""What is left of a sweep, dealt out in chunks that are worth sending."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from hetsim.sweeping.answering import Shared, broken
from hetsim.sweeping.rows import Row

LEAST_S = 0.05
"""Of work in a chunk: sending one costs a millisecond."""

AIM_S = 0.4
"""Of work in a chunk, as far as is known: what a kill loses, and what the last core waits for."""

MOST = 256
"""Points of a chunk."""

ENDING = 8
"""Chunks a core into which what is left is cut at least, so that all end together."""

Chunk = tuple[int, ...]
Answer = tuple[list[Row], float]


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a sweep is.

    Attributes
    ----------
    done, total : int
        Points, those that were known before among them.
    failed : int
        Of this run, rows with an error.
    left_s : float or None
        Time left by the rate so far; None where nothing is done yet.
    """

    done: int
    total: int
    failed: int
    left_s: float | None


@dataclass(slots=True)
class Dealing:
    """The points that are left, as work that is spread.

    Attributes
    ----------
    shared : Shared
    keys : sequence of str
        By point of the grid.
    keep : callable
        Takes rows as they come.
    tell : callable
        Is told how far it is.
    known : int
        Points that need no answer.
    """

    shared: Shared
    keys: Sequence[str]
    places: deque[int]
    keep: Callable[[Sequence[Row]], None]
    tell: Callable[[Progress], None]
    known: int
    failed: int = 0
    done: int = 0
    seconds_a_point: float = 0.0
    again: deque[Chunk] = field(default_factory=deque)
    began_s: float = field(default_factory=time.monotonic)

    def take(self, cores: int) -> Chunk | None:
        """Return the next chunk: one point until it is known what points take."""
        if self.again:
            return self.again.popleft()
        size = min(self.size(cores), len(self.places))
        return tuple(self.places.popleft() for _ in range(size)) or None

    def size(self, cores: int) -> int:
        """How many points the next chunk has: AIM_S of work, less at the end, LEAST_S at least."""
        if not self.seconds_a_point:
            return 1
        fair = len(self.places) // (ENDING * cores)
        least = int(LEAST_S / self.seconds_a_point) + 1
        wanted = int(AIM_S / self.seconds_a_point) + 1
        return max(1, min(max(min(wanted, fair), least), MOST))

    def give(self, chunk: Chunk, result: Answer) -> None:
        """Keep the rows of a chunk."""
        rows, took_s = result
        own = took_s / len(chunk)
        # Later points tell more: the first of a process read and compile what others have.
        self.seconds_a_point = (
            0.7 * self.seconds_a_point + 0.3 * own if self.seconds_a_point else own
        )
        self._keep(chunk, rows)

    def lost(self, chunk: Chunk, why: str) -> None:
        """Ask the points of a chunk one by one, whose worker died; a single one is a failure."""
        if len(chunk) > 1:
            self.again.extend((place,) for place in chunk)
            return
        self._keep(chunk, [broken(self.shared, chunk[0], f"its process died: {why}")])

    def _keep(self, chunk: Chunk, rows: Sequence[Row]) -> None:
        for place, row in zip(chunk, rows, strict=True):
            row["key"] = self.keys[place]
        self.keep(rows)
        self.done += len(rows)
        self.failed += sum(row["error"] is not None for row in rows)
        total = len(self.keys)
        done = self.known + self.done
        left_s = (time.monotonic() - self.began_s) / self.done * (total - done)
        self.tell(Progress(done, total, self.failed, left_s))
