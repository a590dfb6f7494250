"""Random deployments: one to three models on shared devices, with anything in front of them."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hetsim.simulation.serving.engine import Serving
from hetsim.simulation.serving.setup import Clients, ModelSetup, Outcomes, RequestSource
from hetsim.workload.deployment import ROUTINGS
from oracles.random_layouts import Case, random_case

CASES = 40
"""Seeds of a chunk."""
CLIENTS = 3


class Deployed(NamedTuple):
    """A case of the clock, and what stands in front of it."""

    case: Case
    models: list[ModelSetup]
    sources: list[RequestSource]
    stream: NDArray[np.int64]
    variant: NDArray[np.int64]
    requests: int | None


def deployed(seed: int) -> Deployed:
    """One to three models, whose batches run any of the templates."""
    rng = np.random.default_rng([seed, 19])
    case = random_case(seed)
    templates = len(case.layout.first) - 1
    models, sources = [], []
    for at in range(int(rng.integers(1, 4))):
        variants, instances, largest = (int(k) for k in rng.integers(1, 4, 3))
        levels = int(rng.integers(1, 3))
        models.append(
            ModelSetup(
                rng.integers(0, templates, (variants, instances, largest)),
                tuple(rng.integers(0, 3, instances).tolist()),
                routing=ROUTINGS[rng.integers(3)],
                ranks=tuple(range(levels)),
                max_queue_size=(None, None, 0, 3)[rng.integers(4)],
                timeout_s=float(rng.choice([math.inf, 2.0, 7.0])),
                timeout_action="reject" if rng.random() < 0.5 else "delay",
                preferred=(1,) if rng.random() < 0.2 else (),
                delay_s=float(rng.choice([0.0, 0.0, 1.0, 5.0])),
            )
        )
        sources += [RequestSource(at, level) for level in range(levels)]
    count = len(case.arrival)
    stream = rng.integers(0, len(sources), count)
    variant = [int(rng.integers(models[sources[k].model].template.shape[0])) for k in stream]
    closed = rng.random() < 0.4
    return Deployed(
        case, models, sources, stream, np.array(variant), count + 30 if closed else None
    )


def think(block: int) -> NDArray[np.float64]:
    """How long clients think, in whole seconds."""
    return np.random.default_rng([20, block]).integers(1, 5, (4, CLIENTS)).astype(float)


def played(given: Deployed, pieces: int, machine_code: bool) -> tuple[Outcomes, Serving]:
    """Play it in so many blocks."""
    serving = Serving(
        given.case.layout,
        given.case.duration,
        given.models,
        given.sources,
        [Clients(0, CLIENTS, think)] if given.requests else [],
        requests=given.requests,
        machine_code=machine_code,
    )
    told = [
        serving.serve(given.case.arrival[part], given.stream[part], given.variant[part])
        for part in np.array_split(np.arange(len(given.case.arrival)), pieces)
    ]
    return Outcomes.joined([*told, serving.close()]), serving
