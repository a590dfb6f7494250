"""The fewest replica-seconds of any scaling of a model that keeps its objectives.

What somebody who knows all that comes cannot go below, either: whoever starts and stops replicas
at whatever moments, sends each request, in batches or alone, to whatever instance, and lets those
be late, or be rejected, that cost most, as many as the objectives allow. It is a bound on work, not
a schedule; none may reach it.

**Work.** For each instance one thing is chosen that a replica there has so much of in a second: a
device's streams, a link, or its batches at a time, of which each takes at least as long as its plan
where nothing is in its way. A replica does at most a second of that in a second that it is alive;
so the least share of it that a request of a batch asks, of all instances and sizes, is a part of
replica-seconds that nobody spares: the *work* of the request. Any choice holds; taken is what makes
it the most. Three bounds follow, and the largest is given.

1. *All work*: of every request that must be answered.
2. *Silence*: requests with an objective come in clusters: what comes within the latency after one
   is of its cluster. Between the end of a cluster, by which it is answered, and the begin of the
   next, either some replica is alive all the time, or one starts before the first request of the
   next is answered that is on time. So it costs the lesser of the silence and of a start, and no
   work of requests that are on time is done in either; what lies between two ends of clusters is
   apart from what lies between two others. Clusters of which all requests are late cost nothing:
   those are taken off that cost most for the requests they have, the last one in part.
3. *Peaks beyond the fewest*: ``min_replicas`` are alive until the last request comes. What comes
   from a to b, and is on time, is done from a until the latency after b. Where its work exceeds
   what the fewest replicas do in that time, others do the rest. A queue of fluid of what they do,
   cut at the latency, finds such times, apart from each other: a cycle from an empty queue
   to its last cut; what is cut in it is the rest. Late requests do at most their own work less.

Where 3. with ``max_replicas`` leaves more than late requests may do, no scaling keeps the
objectives, and the bound is infinite.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from hetsim.workload.autoscaling import Autoscaling

Array: TypeAlias = np.ndarray[Any, Any]

ROUNDING = 1e-9
"""Of sums: what of a bound is not claimed."""


@dataclass(frozen=True, slots=True)
class Fewest:
    """What no scaling goes below.

    Attributes
    ----------
    replica_s : float
        Infinite where no scaling keeps the objectives.
    work_s : float
        Of all requests that must be answered.
    binds : "work", "silence", "peaks" or "objectives"
        Which bound it is; the last where no scaling keeps them.
    """

    replica_s: float
    work_s: float
    binds: str


@dataclass(frozen=True, slots=True, eq=False)
class Asked:
    """Requests of which the same is asked.

    Attributes
    ----------
    arrival_s, work_s : float64[requests]
        Ascending; and the replica-seconds that each asks at least.
    late : int
        How many may be late, or rejected; all where nothing is asked.
    latency_s : float
        What the others take at most; infinite where nothing is asked.
    """

    arrival_s: Array
    work_s: Array
    late: int
    latency_s: float

    @property
    def spared_s(self) -> float:
        """The most work that those do which are late."""
        return _largest(self.work_s, self.late)


def fewest(asked: Sequence[Asked], config: Autoscaling, start_s: float, *, rejects: bool) -> Fewest:
    """Return what no scaling goes below.

    Parameters
    ----------
    asked : sequence of Asked
        All requests of a model, each once.
    config : Autoscaling
    start_s : float
        What a start takes at least.
    rejects : bool
        Whether requests may be rejected; else each is answered, late or not.

    Complexity: O(n log n) for n requests.
    """
    bound = [one for one in asked if one.latency_s < math.inf]
    timely_s = sum(float(one.work_s.sum()) - one.spared_s for one in bound)
    all_s = timely_s if rejects else sum(float(one.work_s.sum()) for one in asked)
    found = {"work": all_s}
    last_s = max((float(one.arrival_s[-1]) for one in asked if len(one.arrival_s)), default=0.0)
    found["peaks"] = config.min_replicas * last_s
    if bound and sum(len(one.arrival_s) for one in bound):
        arrival = np.concatenate([one.arrival_s for one in bound])
        order = np.argsort(arrival, kind="stable")
        arrival, work = arrival[order], np.concatenate([one.work_s for one in bound])[order]
        latency_s = max(one.latency_s for one in bound)
        spared_s = sum(one.spared_s for one in bound)
        late = sum(one.late for one in bound)
        if beyond(arrival, work, latency_s, config.max_replicas) * (1 - ROUNDING) > spared_s:
            return Fewest(math.inf, all_s * (1 - ROUNDING), "objectives")
        found["silence"] = timely_s + silences(arrival, latency_s, start_s, late)
        peaks_s = beyond(arrival, work, latency_s, config.min_replicas) - spared_s
        found["peaks"] += max(peaks_s, 0.0)
    binds = max(found, key=lambda name: found[name])
    return Fewest(found[binds] * (1 - ROUNDING), all_s * (1 - ROUNDING), binds)


def silences(arrival_s: Array, latency_s: float, start_s: float, late: int) -> float:
    """Return what it costs at least to be there after each silence; `late` requests are late."""
    quiet_s = np.diff(arrival_s) - latency_s
    begins = np.flatnonzero(quiet_s > 0) + 1
    cost = np.minimum(quiet_s[begins - 1], start_s)
    sizes = np.diff(np.append(begins, len(arrival_s)))
    # Those that cost most a request are late: at least as much as any choice of whole clusters.
    for at in np.argsort(-cost / sizes, kind="stable"):
        if late <= 0:
            break
        taken = min(late, sizes[at])
        late -= taken
        cost[at] *= 1 - taken / sizes[at]
    return float(cost.sum())


def beyond(arrival_s: Array, work_s: Array, latency_s: float, replicas: int) -> float:
    """Return the work that so many replicas cannot do in time, a second of it in a second each."""
    room_s = replicas * latency_s
    queue_s = cut_s = 0.0
    before_s = -math.inf
    for at_s, more_s in zip(arrival_s.tolist(), work_s.tolist(), strict=True):
        queue_s = max(queue_s - replicas * (at_s - before_s), 0.0) if replicas else 0.0
        queue_s += more_s
        if queue_s > room_s:
            cut_s += queue_s - room_s
            queue_s = room_s
        before_s = at_s
    return cut_s


def _largest(values: Array, count: int) -> float:
    """The sum of so many of the largest."""
    if count <= 0:
        return 0.0
    return float(np.sort(values)[-count:].sum())
