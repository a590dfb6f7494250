"""What became of requests under load."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


class Outcomes(NamedTuple):
    """Requests that are over, in the order in which they came.

    Of those that were rejected `sent_s`, `begun_s` and `finish_s` are NaN, the instance -1 and
    the size 0.

    Attributes
    ----------
    arrival_s, sent_s, begun_s, finish_s : float64[requests]
        When each came, went to an instance, had its first task started, and was answered.
    stream, variant, instance : int32[requests]
    size : int32[requests]
        Of the batch that it was in.
    why : int8[requests]
        SERVED, or FULL or EXPIRED: why it was rejected.
    fresh : bool[requests]
        Whether nobody waited when it came, and an instance had nothing to do.
    load_s : float64[requests]
        For how long of ``queue_s`` the weights were loaded that its batch needed.
    """

    arrival_s: Floats
    sent_s: Floats
    begun_s: Floats
    finish_s: Floats
    stream: NDArray[np.int32]
    variant: NDArray[np.int32]
    instance: NDArray[np.int32]
    size: NDArray[np.int32]
    why: NDArray[np.int8]
    fresh: NDArray[np.bool_]
    load_s: Floats

    @property
    def requests(self) -> int:
        """How many."""
        return len(self.arrival_s)

    @property
    def latency_s(self) -> Floats:
        """From arrival to answer."""
        return self.finish_s - self.arrival_s

    @property
    def queue_s(self) -> Floats:
        """From arrival until it went to an instance."""
        return self.sent_s - self.arrival_s

    @property
    def device_s(self) -> Floats:
        """From then until its first task started."""
        return self.begun_s - self.sent_s

    @property
    def service_s(self) -> Floats:
        """From then to the answer."""
        return self.finish_s - self.begun_s

    @classmethod
    def joined(cls, parts: Sequence[Outcomes]) -> Outcomes:
        """Return several that follow each other as one."""
        columns: Any = zip(*parts, strict=True)
        return cls(*(np.concatenate(column) for column in columns))


class Residency(NamedTuple):
    """Of models that take turns in memory: whose weights were there.

    Attributes
    ----------
    loads : int64[models, devices]
        How often they were loaded.
    loading_s : float64[models, devices]
        For how long, queues of links included.
    resident_s : float64[models, devices]
        For how long they had their room, loading included.
    most : int64[devices]
        Bytes that models ever had at once.
    """

    loads: NDArray[np.int64]
    loading_s: Floats
    resident_s: Floats
    most: NDArray[np.int64]


class Lengths(NamedTuple):
    """How many waited, and were inside, over time.

    Attributes
    ----------
    begin_s, window_s : float
        When the first window begins, and how long each is.
    waiting_s, inside_s : float64[windows, models]
        Requests times seconds: in the queue of a model; there or at its instances. The last
        window ends with what was last played.
    at_length_s : float64[models, bins]
        Seconds for which so many waited; in the last bin that many and more.
    """

    begin_s: float
    window_s: float
    waiting_s: Floats
    inside_s: Floats
    at_length_s: Floats
