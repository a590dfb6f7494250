"""Several models on shared devices, with anything in front of them: what always holds."""

from __future__ import annotations

import math

import numpy as np
import pytest

from hetsim.errors import UsageError
from hetsim.simulation.serving.engine import Serving
from hetsim.simulation.serving.outcomes import Outcomes
from hetsim.simulation.serving.tables import EXPIRED, FULL, SERVED
from oracles.random_deployments import CASES, Deployed, deployed, played
from sweeps import sweep


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
