"""Several models on shared devices, with anything in front of them: what always holds."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from hetsim.errors import UsageError
from hetsim.simulation.serving.engine import Serving
from hetsim.simulation.serving.outcomes import Outcomes
from hetsim.simulation.serving.setup import ROUTINGS, Clients, Model, Source
from hetsim.simulation.serving.tables import EXPIRED, FULL, SERVED
from oracles.random_layouts import Case, random_case
from sweeps import sweep

CASES = 40
"""Seeds of a chunk."""
CLIENTS = 3


class Deployed(NamedTuple):
    """A case of the clock, and what stands in front of it."""

    case: Case
    models: list[Model]
    sources: list[Source]
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
            Model(
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
        sources += [Source(at, level) for level in range(levels)]
    count = len(case.arrival)
    stream = rng.integers(0, len(sources), count)
    variant = [int(rng.integers(models[sources[k].model].template.shape[0])) for k in stream]
    closed = rng.random() < 0.4
    return Deployed(
        case, models, sources, stream, np.array(variant), count + 30 if closed else None
    )


def played(given: Deployed, pieces: int, machine_code: bool) -> tuple[Outcomes, Serving]:
    """Play it in so many blocks."""

    def think(block: int) -> NDArray[np.float64]:
        return np.random.default_rng([20, block]).integers(1, 5, (4, CLIENTS)).astype(float)

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


def obeys(given: Deployed, found: Outcomes, serving: Serving) -> None:
    """What holds of every deployment."""
    kept = found.why == SERVED
    count = len(given.case.arrival)
    assert found.requests == (given.requests or count)
    assert (np.diff(found.arrival_s) >= 0).all()
    assert (found.arrival_s[kept] <= found.sent_s[kept]).all()
    assert (found.sent_s[kept] <= found.begun_s[kept]).all()
    assert (found.begun_s[kept] <= found.finish_s[kept]).all()
    assert np.isnan(found.finish_s[~kept]).all()
    for number, model in enumerate(given.models):
        of_model = np.isin(
            found.stream, [k for k, one in enumerate(given.sources) if one.model == number]
        )
        why = found.why[of_model]
        assert found.size[of_model].max(initial=0) <= model.template.shape[2]
        assert model.max_queue_size is not None or FULL not in why
        rejects = model.timeout_s < math.inf and model.timeout_action == "reject"
        assert rejects or EXPIRED not in why
        if rejects:
            assert (found.queue_s[of_model & kept] <= model.timeout_s * (1 + 1e-9)).all()
        for instance, limit in enumerate(model.limits):
            here = of_model & kept & (found.instance == instance)
            if limit == 0 or not here.any():
                continue
            # Each request is 1 / size of its batch; what ends at a moment ends before it.
            moments = found.sent_s[here]
            part = 1.0 / found.size[here]
            for moment in np.unique(moments):
                inside = (moments <= moment) & (found.finish_s[here] > moment)
                assert part[inside].sum() <= limit + 1e-9
    sizes = (1.0 / found.size[kept]).sum()
    assert serving.ran.sum() == pytest.approx(sizes)


@sweep("chunk", quick=[0], full=range(25))
def test_what_always_holds(chunk: int) -> None:
    seen = []
    for seed in range(CASES * chunk, CASES * (chunk + 1)):
        given = deployed(seed)
        try:
            plain, serving = played(given, 1, False)
        except UsageError:
            continue
        obeys(given, plain, serving)
        seen.append(len(plain.arrival_s))
        for pieces, machine_code in ((3, False), (1, True), (2, True)):
            other, again = played(given, pieces, machine_code)
            for one, column in zip(plain, other, strict=True):
                assert one.tobytes() == column.tobytes(), seed
            assert again.lengths.at_length_s.tobytes() == serving.lengths.at_length_s.tobytes()
            assert again.lengths.inside_s.tobytes() == serving.lengths.inside_s.tobytes()
    assert len(seen) > CASES / 2
