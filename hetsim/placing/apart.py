"""How much of what a model's requests take is for the work of the other models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from hetsim.placing.answer import Apart
from hetsim.service.layout import Setup
from hetsim.service.resolving import Resolved
from hetsim.service.service import Service
from hetsim.service.serving import played
from hetsim.workloads.workload import Workload


def apart(
    workload: Workload,
    resolved: Sequence[Resolved],
    setup: Setup,
    together: Service,
    *,
    until_answered: bool,
) -> tuple[Apart, ...]:
    """Return each stream beside itself without the other models; empty where there is one model.

    Their requests come all the same and take no time, so that those of the model are the same.
    Complexity: a run a model.
    """
    if len(resolved) < 2:
        return ()
    found = []
    for at, one in enumerate(resolved):
        alone = played(workload, resolved, without_others(setup, at), until_answered=until_answered)
        for stream, both in zip(alone.streams, together.streams, strict=True):
            if stream.model == one.served.model:
                found.append(Apart(stream.name, stream.model, stream, both))
    order = [stream.name for stream in workload.streams]
    return tuple(sorted(found, key=lambda row: order.index(row.stream)))


def without_others(setup: Setup, model: int) -> Setup:
    """Return the setup where no task of another model takes any time."""
    duration = np.zeros_like(setup.duration)
    for which in np.unique(setup.models[model].template).tolist():
        tasks = slice(setup.layout.first[which], setup.layout.first[which + 1])
        duration[tasks] = setup.duration[tasks]
    return replace(setup, duration=duration)
