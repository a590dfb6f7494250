"""Requests as they came once, and how many of them are late where they come faster or slower."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from decimal import Decimal

import numpy as np
from numpy.typing import NDArray

from hetsim.simulation.service.figures import latencies
from hetsim.simulation.service.layout import Setup
from hetsim.simulation.service.running import blocks_of
from hetsim.simulation.serving.engine import Serving
from hetsim.simulation.serving.setup import Outcomes
from hetsim.workload.requests import Requests
from hetsim.workload.workload import Slo, Workload

WINDOW_S = 1e9


@dataclass(frozen=True, slots=True, eq=False)
class Objective:
    """What is asked of the requests of one stream.

    Attributes
    ----------
    stream : int
        Of the workload.
    slo : Slo
    which : int array
        The requests that count, ascending.
    most_late : int
        How many of them may take longer, by the percentile as reports have it.
    """

    stream: int
    slo: Slo
    which: NDArray[np.int64]
    most_late: int


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """Requests on one path of all that chance could do.

    Attributes
    ----------
    arrival_s : float array [requests]
        As the workload says; a factor makes them come in so much less of the time.
    stream, variant : int array [requests]
        The variant is that of the model.
    objectives : tuple of Objective
    """

    arrival_s: NDArray[np.float64]
    stream: NDArray[np.int64]
    variant: NDArray[np.int64]
    objectives: tuple[Objective, ...]

    def __len__(self) -> int:
        return len(self.arrival_s)


def sample_of(workload: Workload, setup: Setup, requests: int | None = None) -> Sample:
    """Return the requests of a workload, or its first `requests`, whenever it ends."""
    if requests is not None:
        workload = replace(workload, duration_s=None, requests=requests)
    none = np.zeros(0, dtype=np.int64)
    blocks = [Requests(np.zeros(0), none, none), *blocks_of(workload, setup)]
    arrival_s = np.concatenate([block.arrival_s for block in blocks])
    stream = np.concatenate([block.stream for block in blocks])
    variant = np.concatenate([block.variant for block in blocks])
    objectives = []
    for at, said in enumerate(workload.streams):
        which = np.flatnonzero((stream == at) & (arrival_s >= workload.warm_up_s))
        if len(which):
            objectives += [
                Objective(at, slo, which, most_late(slo, len(which))) for slo in said.slos
            ]
    return Sample(arrival_s, stream, variant, tuple(objectives))


def most_late(slo: Slo, requests: int) -> int:
    """Return how many of so many requests may be late.

    >>> most_late(Slo(0.99, 1.0), 250)
    2
    """
    return math.floor(requests * (1 - Decimal(repr(slo.share))))


def too_many(setup: Setup, sample: Sample, factor: float, *, machine_code: bool = True) -> int:
    """Return how many more are late than may be, of the objective that is missed most.

    At most 0 where all are met. Complexity: that of playing the requests.
    """
    engine = Serving(
        setup.layout,
        setup.duration,
        setup.models,
        setup.sources,
        # How long queues are is not asked: one window has all the time there is.
        window_s=WINDOW_S,
        turns=setup.turns,
        machine_code=machine_code,
    )
    told = [engine.serve(sample.arrival_s / factor, sample.stream, sample.variant), engine.close()]
    latency_s = latencies(Outcomes.joined(told))
    return max(
        int(np.count_nonzero(latency_s[one.which] > one.slo.latency_s)) - one.most_late
        for one in sample.objectives
    )
