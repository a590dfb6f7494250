"""States of which one is proved to be no better than another: fewer servers of one line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from hetsim.service.layout import Setup
from hetsim.service.resolving import Resolved
from hetsim.sizing.monotone import why_not


class Pools(NamedTuple):
    """Of each model: how many servers alike its requests wait for, and their seconds."""

    servers: tuple[int, ...]
    seconds: tuple[bytes, ...]


def pools_of(resolved: Sequence[Resolved], setup: Setup) -> Pools | None:
    """Return the servers of each model, where they are that alone.

    Instances that are alike, each on devices and links of its own, that take one request at a time
    off one line. Of two such the one with fewer servers of each has each request later, or as late,
    on the same arrivals: by induction over requests the k-th server that is free is so no sooner
    (J. Kiefer and J. Wolfowitz, On the theory of queues with many servers, Transactions of the AMS
    78 (1955), https://doi.org/10.1090/S0002-9947-1955-0066408-3).
    """
    if any(limit != 1 for model in setup.models for limit in model.limits):
        return None
    if why_not(resolved, setup) is not None:
        return None
    return Pools(
        tuple(len(model.limits) for model in setup.models),
        tuple(alone_s[:, 0, 0].tobytes() for alone_s in setup.alone_s),
    )


def no_better(one: Pools | None, than: Pools | None) -> bool:
    """Whether one system is proved to answer nothing sooner than another."""
    return (
        one is not None
        and than is not None
        and one.seconds == than.seconds
        and all(a <= b for a, b in zip(one.servers, than.servers, strict=True))
    )
