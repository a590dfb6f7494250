"""The requests of a workload as asks of a question: all of them, or the first that are drawn."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from hetsim.errors import UsageError
from hetsim.provisioning.platforms.question import Arrivals
from hetsim.statistics.until import FIRST_LOOK
from hetsim.workload.merging import requests_of
from hetsim.workload.workload import Workload


def arrivals_of(workload: Workload) -> Arrivals:
    """Return all requests of a workload that ends.

    Raises UsageError where none comes that counts.
    """
    blocks = list(_asked(workload))
    if not blocks:
        raise UsageError("no request comes", hint="give a rate above 0, or a longer duration")
    found = Arrivals.joined(blocks)
    if not len(found) or found.time_s[-1] < workload.warm_up_s:
        raise UsageError(
            "no request comes after the warm-up",
            hint="write a shorter warm_up_s:, or a longer duration_s:",
        )
    return found


def drawn(workload: Workload, budget: int) -> Iterator[Arrivals]:
    """Yield the first so many requests in blocks, whenever the workload ends."""
    for block in _asked(replace(workload, duration_s=None, requests=budget)):
        for begin in range(0, len(block), FIRST_LOOK):
            piece = slice(begin, begin + FIRST_LOOK)
            yield Arrivals(block.time_s[piece], block.ask[piece])


def _asked(workload: Workload) -> Iterator[Arrivals]:
    """Blocks of requests, each by its ask: those of a stream stand by variant."""
    first = np.cumsum([0] + [len(stream.variants) for stream in workload.streams])
    for block in requests_of(workload):
        yield Arrivals(block.arrival_s, first[block.stream] + block.variant)
