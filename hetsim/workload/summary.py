"""What came, stream by stream: how many requests, how fast, how unevenly."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from hetsim.workload.merging import requests_of
from hetsim.workload.workload import Stream, Workload

MOST = 10_000_000
"""Requests that are drawn for a summary."""


@dataclass(frozen=True, slots=True)
class Came:
    """The requests of one stream.

    Attributes
    ----------
    stream : Stream
    requests : int
    last_s : float
        When the last one came; 0 where none did.
    rate_per_s : float
        Requests a second until the end of the workload; 0 where none came.
    gap_cv : float
        Coefficient of variation of the gaps between them; NaN of fewer than two gaps, or where
        all came at once.
    by_variant : tuple of int
        Requests of each of the stream's ``variants``.
    """

    stream: Stream
    requests: int
    last_s: float
    rate_per_s: float
    gap_cv: float
    by_variant: tuple[int, ...]


@dataclass(slots=True)
class _Sums:
    variants: np.ndarray
    requests: int = 0
    first_s: float = 0.0
    last_s: float = 0.0
    squares: float = 0.0

    def add(self, times: np.ndarray, variant: np.ndarray) -> None:
        if not times.size:
            return
        gaps = np.diff(times, prepend=self.last_s if self.requests else times[0])
        if not self.requests:
            self.first_s = float(times[0])
        self.squares += float(gaps @ gaps)
        self.requests += times.size
        self.last_s = float(times[-1])
        self.variants += np.bincount(variant, minlength=self.variants.size)

    @property
    def gap_cv(self) -> float:
        gaps = self.requests - 1
        mean = (self.last_s - self.first_s) / gaps if gaps > 1 else 0.0
        return math.sqrt(max(self.squares / gaps / mean**2 - 1, 0)) if mean else math.nan


def summary(workload: Workload) -> tuple[tuple[Came, ...], bool]:
    """Return what comes by itself, of every stream, and whether it ended before MOST requests.

    Complexity: linear in the requests, memory for a block of each stream.
    """
    sums = [_Sums(np.zeros(len(stream.variants), dtype=np.int64)) for stream in workload.streams]
    drawn, ended = 0, True
    for block in requests_of(workload):
        for at, one in enumerate(sums):
            mine = block.stream == at
            one.add(block.arrival_s[mine], block.variant[mine])
        drawn += len(block)
        if drawn >= MOST:
            ended = False
            break
    until = max((one.last_s for one in sums), default=0.0)
    if ended and workload.duration_s is not None and workload.requests is None:
        until = workload.duration_s
    came = tuple(
        Came(
            stream,
            one.requests,
            one.last_s,
            one.requests / until if until else 0.0,
            one.gap_cv,
            tuple(int(count) for count in one.variants),
        )
        for stream, one in zip(workload.streams, sums, strict=True)
    )
    return came, ended
